package kafka

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Record is what Kafka's own tool says of a record.
type Record struct {
	Offset     int64
	ProducerID int64
	// Transactional says that the record belongs to a transaction, or ends one.
	Transactional bool
	// Marker is "COMMIT" or "ABORT" where the record ends a transaction, otherwise "".
	Marker string
}

// Records returns the records of each log by its directory, as Kafka's own tool reads them.
func (t Tools) Records(tb testing.TB, dirs ...string) map[string][]Record {
	tb.Helper()
	dump, _, err := t.dump(tb, dirs)
	require.NoError(tb, err)
	records := make(map[string][]Record)
	var dir string
	var batch Record
	for _, line := range lines(dump) {
		if file, found := strings.CutPrefix(line, "Dumping "); found {
			dir = filepath.Dir(file)
		}
		switch fields := named(line); {
		case strings.HasPrefix(line, "baseOffset: "):
			batch = Record{ProducerID: number(tb, fields["producerId"]), Transactional: fields["isTransactional"] == "true"}
		case strings.HasPrefix(line, "| offset: "):
			batch.Offset, batch.Marker = number(tb, fields["offset"]), fields["endTxnMarker"]
			records[dir] = append(records[dir], batch)
		}
	}
	return records
}

// named returns the values of a line that is made of pairs of "name: value".
func named(line string) map[string]string {
	fields := make(map[string]string)
	words := strings.Fields(line)
	for i := 0; i+1 < len(words); i++ {
		if name, found := strings.CutSuffix(words[i], ":"); found {
			fields[name] = words[i+1]
		}
	}
	return fields
}

func number(tb testing.TB, text string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(tb, err)
	return n
}

// Visible returns the offsets that a consumer gets: all but the ends of transactions, and for one of committed records no
// record of a transaction that was aborted, and none from the first on that is still open.
func Visible(records []Record, committed bool) (offsets []int64) {
	aborted := make(map[int64]bool)
	open := make(map[int64][]int64) // by producer
	for _, r := range records {
		switch {
		case r.Marker == "ABORT":
			for _, offset := range open[r.ProducerID] {
				aborted[offset] = true
			}
			fallthrough
		case r.Marker == "COMMIT":
			delete(open, r.ProducerID)
		case r.Transactional:
			open[r.ProducerID] = append(open[r.ProducerID], r.Offset)
		}
	}
	for _, r := range records {
		if committed {
			if aborted[r.Offset] {
				continue
			}
			for _, some := range open {
				if r.Offset >= some[0] {
					return offsets
				}
			}
		}
		if r.Marker == "" {
			offsets = append(offsets, r.Offset)
		}
	}
	return offsets
}
