package gcs_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Nothing of the machine's own configuration of Google's cloud is used, and no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	for _, variable := range []string{
		"STORAGE_EMULATOR_HOST", "GOOGLE_CLOUD_QUOTA_PROJECT", "GOOGLE_CLOUD_UNIVERSE_DOMAIN", "GCE_METADATA_HOST",
		"GOOGLE_API_USE_CLIENT_CERTIFICATE", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
	} {
		_ = os.Unsetenv(variable)
	}
	if err := os.Setenv("GOOGLE_APPLICATION_CREDENTIALS", os.DevNull); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
