package drivertest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/drivertest"
)

// What a machine says of a cloud and of proxies is gone, and nothing else.
func TestWithout(t *testing.T) {
	for _, name := range []string{"AWS_PROFILE", "GOOGLE_CLOUD_PROJECT", "GCE_METADATA_HOST", "STORAGE_EMULATOR_HOST", "AZURE_CLIENT_ID", "HTTPS_PROXY", "http_proxy", "WALHOP_OURS_PROXY"} {
		t.Setenv(name, "the machine's")
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_EC2_METADATA_DISABLED", "GOOGLE_APPLICATION_CREDENTIALS"} {
		t.Setenv(name, "the machine's") // set again afterwards
	}
	drivertest.WithoutAWS()
	assert.Empty(t, os.Getenv("AWS_PROFILE"))
	assert.Empty(t, os.Getenv("HTTPS_PROXY"))
	assert.Empty(t, os.Getenv("http_proxy"))
	assert.Equal(t, os.DevNull, os.Getenv("AWS_CONFIG_FILE"))
	assert.Equal(t, "the machine's", os.Getenv("GOOGLE_CLOUD_PROJECT"))
	drivertest.WithoutGoogle()
	for _, name := range []string{"GOOGLE_CLOUD_PROJECT", "GCE_METADATA_HOST", "STORAGE_EMULATOR_HOST"} {
		assert.Empty(t, os.Getenv(name))
	}
	assert.Equal(t, os.DevNull, os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"))
	assert.Equal(t, "the machine's", os.Getenv("AZURE_CLIENT_ID"))
	drivertest.WithoutAzure()
	assert.Empty(t, os.Getenv("AZURE_CLIENT_ID"))
	assert.Equal(t, "the machine's", os.Getenv("WALHOP_OURS_PROXY"))
}
