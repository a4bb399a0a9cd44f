package gcs_test

import (
	"testing"

	"github.com/walhop/walhop/internal/drivertest"
)

// I8 (W11): whatever the service or the network repeats of a request, no secret is in the text of an error.
func TestNoSecretIsRepeated(t *testing.T) { drivertest.NoSecrets(t, subject(), token) }
