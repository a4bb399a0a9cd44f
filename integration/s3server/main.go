package s3server

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/drivertest"
)

// Main runs the tests of a package. Nothing of the machine's own AWS configuration is used, and no test leaves a goroutine
// behind. Started as a peer, this process serves the suite of another one.
func (s Server) Main(m *testing.M) {
	drivertest.WithoutAWS()
	ours.PeerMain(s.patient)
	goleak.VerifyTestMain(m)
}
