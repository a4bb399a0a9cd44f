package azure_test

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Nothing of the machine's own Azure configuration is used, and no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "AZURE_") || strings.HasSuffix(strings.ToLower(name), "_proxy") {
			_ = os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}
