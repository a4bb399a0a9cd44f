package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What Kafka's tool prints of a log is judged: every kind of fault that it can tell is one, and what it says of sound logs
// is none.
func TestJudgement(t *testing.T) {
	const sound = "Dumping /d/00.log\nLog starting offset: 0\nbaseOffset: 0 lastOffset: 0 count: 1 crc: 1 isvalid: true\n"
	require.Empty(t, wrongInDump(sound))
	for _, wrong := range []string{
		"",
		sound + "baseOffset: 1 lastOffset: 1 count: 1 crc: 1 isvalid: false\n",
		sound + "Found 17 invalid bytes at the end of 00.log\n",
	} {
		require.NotEmpty(t, wrongInDump(wrong), wrong)
	}
	for _, given := range []struct {
		text             string
		plain, compacted bool
	}{
		{"", true, true},
		{"Non-consecutive offsets in /d/20.log\n  -1 is followed by 20\n", true, true},
		{"Non-consecutive offsets in /d/20.log\n  -1 is followed by 20\n  22 is followed by 25\n", false, true},
		{"Found timestamp mismatch in :/d/00.timeindex\n  Index timestamp: 17, log timestamp: -1\n", false, true},
		{"Found timestamp mismatch in :/d/00.timeindex\n  Index timestamp: 17, log timestamp: 16\n", false, false},
		{"Found out of order timestamp in :/d/00.timeindex\n  Index timestamp: 17, Previously indexed timestamp: 18\n", false, false},
		{"The following indexed offsets are not found in the log.\nIndexed offset: 7, found log offset: -1\n", false, false},
		{"Mismatches in :/d/00.index\n  Index offset: 7, log offset: 8\n", false, false},
		{"Snapshot is corrupt (CRC is no longer valid)\n", false, false},
	} {
		require.Equal(t, given.plain, len(complained(given.text, false)) == 0, given.text)
		require.Equal(t, given.compacted, len(complained(given.text, true)) == 0, given.text)
	}
}

// Consumers get what Kafka's rules say: here two transactions that overlap, one of them aborted, and one still open.
func TestVisible(t *testing.T) {
	records := []Record{
		{Offset: 0, ProducerID: -1},
		{Offset: 1, ProducerID: 1, Transactional: true},
		{Offset: 2, ProducerID: 2, Transactional: true},
		{Offset: 3, ProducerID: 1, Transactional: true, Marker: "ABORT"},
		{Offset: 4, ProducerID: 2, Transactional: true, Marker: "COMMIT"},
		{Offset: 5, ProducerID: 1, Transactional: true},
		{Offset: 6, ProducerID: -1},
	}
	require.Equal(t, []int64{0, 1, 2, 5, 6}, Visible(records, false))
	require.Equal(t, []int64{0, 2}, Visible(records, true))
}
