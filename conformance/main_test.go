package conformance

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A hundred small stores are made and thrown away: the collector would take a tenth of the time.
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}
