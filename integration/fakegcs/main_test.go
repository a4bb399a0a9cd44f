package fakegcs

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/drivertest"
)

// Nothing of the machine's own configuration is used, and no test leaves a goroutine behind. Started as a peer, this process
// serves the suite of another one.
func TestMain(m *testing.M) {
	drivertest.WithoutGoogle()
	ours.PeerMain(config)
	goleak.VerifyTestMain(m)
}
