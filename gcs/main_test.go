package gcs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/drivertest"
)

// Nothing of the machine's own configuration of Google's cloud is used, and no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	drivertest.WithoutGoogle()
	goleak.VerifyTestMain(m)
}
