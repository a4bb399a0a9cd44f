package kafka

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const dumpTool = "org.apache.kafka.tools.DumpLogSegments"

// Dump runs Kafka's own tool over the files of a partition's directory, every record of every batch, and returns what it
// prints: a line for each batch, record, index entry and producer. Options are its own, such as "--print-data-log" for
// keys and values. The tool reads what there is, whatever is wrong with it: see [Tools.Judge].
func (t Tools) Dump(tb testing.TB, dir string, options ...string) string {
	tb.Helper()
	dump, _, err := t.dump(tb, []string{dir}, options...)
	require.NoError(tb, err)
	return dump
}

func (t Tools) dump(tb testing.TB, dirs []string, options ...string) (dump, complaints string, err error) {
	tb.Helper()
	files := filesOf(tb, dirs, "*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot")
	return t.java(tb.Context(), "", dumpTool, append([]string{"--deep-iteration", "--files", strings.Join(files, ",")}, options...)...)
}

// Judge has Kafka's own tool judge the files of partitions' directories: the checksum of every batch, every record, the
// indexes against the log, the snapshots of the producers, and the check of the indexes that decides whether a broker
// makes them anew at its start. It returns what the tool complains of. In compacted logs offsets may be missing.
func (t Tools) Judge(tb testing.TB, compacted bool, dirs ...string) (complaints []string) {
	tb.Helper()
	dump, said, err := t.dump(tb, dirs)
	if err != nil { // at what it cannot read it gives up
		return []string{err.Error()}
	}
	complaints = append(wrongInDump(dump), complained(said, compacted)...)

	indexes := filesOf(tb, dirs, "*.index", "*.timeindex")
	out, said, err := t.java(tb.Context(), "", dumpTool, "--index-sanity-check", "--files", strings.Join(indexes, ","))
	if err != nil { // or at the first index that does not pass
		return append(complaints, err.Error())
	}
	complaints = append(complaints, complained(said, compacted)...)
	for _, index := range indexes {
		if !strings.Contains(out, index+" passed sanity check.") && !strings.Contains(out, index+" is empty.") {
			complaints = append(complaints, index+" was not checked")
		}
	}
	return complaints
}

// wrongInDump returns the lines that tell of a batch that is damaged or cut off.
func wrongInDump(dump string) (problems []string) {
	batches := 0
	for _, line := range lines(dump) {
		if strings.HasPrefix(line, "baseOffset: ") {
			batches++
			if !strings.HasSuffix(strings.TrimSpace(line), " isvalid: true") {
				problems = append(problems, line)
			}
		}
		if strings.Contains(line, "invalid bytes at the end") {
			problems = append(problems, line)
		}
	}
	if batches == 0 {
		problems = append(problems, fmt.Sprintf("no batch at all in:\n%s", dump))
	}
	return problems
}

// complained returns what the tool complains of, but for what is no fault: that the first offset of a file is not 0, and in
// a compacted log missing offsets, and the timestamp of a batch that has no record left.
func complained(text string, compacted bool) (problems []string) {
	const gaps, times = "Non-consecutive offsets in ", "Found timestamp mismatch in :"
	heading := ""
	for _, line := range lines(text) {
		switch {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, gaps), strings.HasPrefix(line, times):
			heading = line
		case strings.HasPrefix(heading, gaps) && (strings.HasPrefix(line, "  -1 is followed by ") || compacted && strings.Contains(line, " is followed by ")):
		case strings.HasPrefix(heading, times) && compacted && strings.HasSuffix(line, "log timestamp: -1"):
		default:
			problems = append(problems, heading+" "+line)
		}
	}
	return problems
}

// filesOf returns the files of directories that match, of which each has to have some.
func filesOf(tb testing.TB, dirs []string, patterns ...string) (files []string) {
	tb.Helper()
	for _, dir := range dirs {
		before := len(files)
		for _, pattern := range patterns {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			require.NoError(tb, err)
			files = append(files, found...)
		}
		require.Greater(tb, len(files), before, "files of a log in %s", dir)
	}
	return files
}
