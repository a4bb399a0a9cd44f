package azurite

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Nothing of the machine's own configuration is used, and no test leaves a goroutine behind. Started as a peer, this process
// serves the suite of another one.
func TestMain(m *testing.M) {
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		if strings.HasPrefix(name, "AZURE_") || strings.HasSuffix(strings.ToLower(name), "_proxy") {
			_ = os.Unsetenv(name)
		}
	}
	ours.PeerMain(config)
	goleak.VerifyTestMain(m)
}
