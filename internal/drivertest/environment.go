package drivertest

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// WithoutAWS, WithoutGoogle and WithoutAzure take out of the environment what the machine says of that cloud, and of proxies,
// so that no test depends on it. They are for TestMain, before anything else.
func WithoutAWS() {
	unset("AWS_")
	set("AWS_CONFIG_FILE", os.DevNull)
	set("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	set("AWS_EC2_METADATA_DISABLED", "true")
}

// WithoutGoogle is described at [WithoutAWS].
func WithoutGoogle() {
	unset("GOOGLE_", "GCE_", "STORAGE_EMULATOR_HOST")
	set("GOOGLE_APPLICATION_CREDENTIALS", os.DevNull)
}

// WithoutAzure is described at [WithoutAWS].
func WithoutAzure() { unset("AZURE_") }

func unset(prefixes ...string) {
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		gone := slices.Contains([]string{"http_proxy", "https_proxy", "all_proxy", "no_proxy"}, strings.ToLower(name))
		for _, prefix := range prefixes {
			gone = gone || strings.HasPrefix(name, prefix)
		}
		if gone {
			_ = os.Unsetenv(name)
		}
	}
}

func set(name, value string) {
	if err := os.Setenv(name, value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
