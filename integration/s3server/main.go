package s3server

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package. Nothing of the machine's own AWS configuration is used, and no test leaves a goroutine
// behind. Started as a peer, this process serves the suite of another one.
func (s Server) Main(m *testing.M) {
	for _, variable := range []string{
		"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy",
	} {
		_ = os.Unsetenv(variable)
	}
	for _, variable := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		if err := os.Setenv(variable, os.DevNull); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	_ = os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	ours.PeerMain(s.config)
	goleak.VerifyTestMain(m)
}
