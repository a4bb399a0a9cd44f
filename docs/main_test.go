package docs_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Nothing of the machine's own configuration is used, and no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	for _, variable := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		if err := os.Setenv(variable, os.DevNull); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	for _, variable := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"} {
		_ = os.Unsetenv(variable)
	}
	goleak.VerifyTestMain(m)
}
