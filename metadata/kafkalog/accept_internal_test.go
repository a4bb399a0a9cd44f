package kafkalog

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
)

// FuzzAccept feeds a subscription records of any kind at any offset: a key, an epoch and a value that the input gives,
// between good ones. Whatever they are, nothing panics, what is yielded is an event of the key's broker, each jump of the
// offsets is told, and the good ones arrive (M3, M4).
func FuzzAccept(f *testing.F) {
	good, err := testevent.New(1, 0, 0).MarshalBinary()
	require.NoError(f, err)
	f.Add("1", "0", good, int64(1))
	f.Add("1", "x", good[:len(good)/2], int64(5))
	f.Add("2", "0", good, int64(0))
	f.Add("-1", "-1", []byte{0x08, 0x7f, 0x10, 0x03}, int64(-3))
	f.Add("", "", []byte(nil), int64(1)<<62)
	cfg, err := Config{Seeds: []string{"x"}}.withDefaults()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, key, epoch string, value []byte, jump int64) {
		s := &subscription{log: &Log{cfg: cfg}, partitions: map[int32]*reading{0: newReading(10)}, events: make(map[int32]*metadata.Event)}
		accept := func(r *kgo.Record) (*metadata.Event, []metadata.Gap) {
			s.gaps = nil
			if !s.accept(r) {
				return nil, s.gaps
			}
			return s.event, s.gaps
		}
		ours := func(sequence, offset int64) *kgo.Record {
			b, err := testevent.New(7, 0, sequence).MarshalBinary()
			require.NoError(t, err)
			return &kgo.Record{Offset: offset, Key: []byte("7"), Value: b}
		}
		event, gaps := accept(ours(0, 10))
		require.NotNil(t, event)
		require.Empty(t, gaps)

		at := max(0, 10+jump)
		r := &kgo.Record{Offset: at, Key: []byte(key), Value: value, Headers: []kgo.RecordHeader{{Key: epochHeader, Value: []byte(epoch)}}}
		if event, gaps = accept(r); event != nil {
			broker, err := strconv.Atoi(key)
			require.NoError(t, err)
			require.EqualValues(t, broker, event.Segment.ID.BrokerID)
			require.NoError(t, event.Validate())
		}
		if at != 11 {
			require.NotEmpty(t, gaps)
			require.EqualValues(t, 7, gaps[0].BrokerID)
		}
		same := event != nil && event.Segment.ID == testevent.ID(7, 0, 1)
		if event, _ = accept(ours(1, at+1)); same {
			return // a duplicate
		}
		require.NotNil(t, event, "the event after it")
		require.EqualValues(t, 1, event.Sequence)
	})
}
