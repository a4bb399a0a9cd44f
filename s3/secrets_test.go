package s3_test

import (
	"testing"

	"github.com/walhop/walhop/internal/drivertest"
)

// I8 (W11): whatever the store or the network repeats of a request, no secret is in the text of an error.
func TestNoSecretIsRepeated(t *testing.T) {
	drivertest.NoSecrets(t, subject(), accessKey, secretKey, sessionToken, "Signature=")
}
