package s3_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/drivertest"
)

// Nothing of the machine's own AWS configuration is used, and no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	drivertest.WithoutAWS()
	goleak.VerifyTestMain(m)
}
