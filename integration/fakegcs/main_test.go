package fakegcs

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Nothing of the machine's own configuration is used, and no test leaves a goroutine behind. Started as a peer, this process
// serves the suite of another one.
func TestMain(m *testing.M) {
	for _, variable := range []string{
		"STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT",
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
	} {
		_ = os.Unsetenv(variable)
	}
	ours.PeerMain(config)
	goleak.VerifyTestMain(m)
}
