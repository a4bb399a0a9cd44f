package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program does what its output says.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, `stored 29 bytes
other bytes under the same id: refused
listed a segment of 29 bytes, fetched "slices of "
deleted
`, out.String())
}

// The backend stays short enough to be read before it is copied.
func TestBackendHasAtMost200Lines(t *testing.T) {
	source, err := os.ReadFile("backend.go")
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(source, []byte("\n")), 200)
}
