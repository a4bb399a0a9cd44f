package objectstore_test

import (
	"testing"

	"go.uber.org/goleak"
)

// L10, M5: no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
