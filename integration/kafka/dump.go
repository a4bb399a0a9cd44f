package kafka

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Dump runs Kafka's own tool over the files of a partition's directory, every record of every batch, and returns what it
// prints: a line for each batch, record, index entry and producer, and its complaints at the end. Options are its own,
// such as "--print-data-log" for keys and values.
func (t Tools) Dump(tb testing.TB, dir string, options ...string) string {
	tb.Helper()
	var files []string
	for _, pattern := range []string{"*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(tb, err)
		files = append(files, found...)
	}
	require.NotEmpty(tb, files, "files of a log in %s", dir)
	return t.Java(tb, "", "org.apache.kafka.tools.DumpLogSegments",
		append([]string{"--deep-iteration", "--files", strings.Join(files, ",")}, options...)...)
}
