package filelog_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/metadata/internal/testevent"
)

// damageSeed is what is done to a file of five events: bytes from at on are removed and others put in, and behind the
// second event an event stands in a good frame that no writer of this version makes.
type damageSeed struct {
	name       string
	at, remove uint16
	insert     []byte
	event      []byte
}

// damageSeeds spare nothing: the file's header, a frame's header, its event, the end. The header has 40 bytes, a frame
// 24 before its event.
func damageSeeds(t testing.TB) []damageSeed {
	whole, err := testevent.New(1, 1, 1).MarshalBinary()
	require.NoError(t, err)
	frame := 24 + len(whole)
	at := func(frames, offset int) uint16 { return uint16(40 + frames*frame + offset) }
	future := append([]byte{1 << 3, 2, 2 << 3, 9}, "another form"...)
	return []damageSeed{
		{"untouched", 0, 0, nil, nil},
		{"empty-file", 0, 60000, nil, nil},
		{"header-cut", 39, 60000, nil, nil},
		{"header-alone", 40, 60000, nil, nil},
		{"header-flipped", 8, 2, []byte{0, 9}, nil},
		{"rubbish-file", 0, 60000, []byte("rubbish"), nil},
		{"first-frame-removed", at(0, 0), uint16(frame), nil, nil},
		{"first-marker-flipped", at(0, 0), 1, []byte{0}, nil},
		{"length-larger", at(1, 4), 4, []byte{0, 0, 0xff, 0xff}, nil},
		{"length-zero", at(1, 4), 4, []byte{0, 0, 0, 0}, nil},
		{"stamp-flipped", at(1, 8), 1, []byte{0xff}, nil},
		{"event-flipped", at(1, 30), 1, []byte{0xff}, nil},
		{"event-one-byte-less", at(1, 30), 1, nil, nil},
		{"event-one-byte-more", at(1, 30), 0, []byte{0}, nil},
		{"two-frames-swallowed", at(1, 10), uint16(2 * frame), nil, nil},
		{"frame-boundary-zeros", at(2, 0), 0, make([]byte, 24), nil},
		{"markers-between", at(2, 0), 0, []byte("\xf7WEV\xf7WEV\xf7WEV\xf7WEV\xf7WEV\xf7WEV\xf7WEV"), nil},
		{"last-frame-torn", at(4, 30), 60000, nil, nil},
		{"last-header-torn", at(4, 10), 60000, nil, nil},
		{"zeros-at-the-end", at(5, 0), 0, make([]byte, 200), nil},
		{"event-of-version-2", 0, 0, nil, future},
		{"event-of-rubbish", 0, 0, nil, []byte("rubbish")},
		{"event-cut-in-half", 0, 0, nil, whole[:len(whole)/2]},
		{"event-of-version-2-torn", at(2, 5), 60000, nil, future},
	}
}

func TestDamageCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range damageSeeds(t) {
		require.False(t, seed.event != nil && new(metadata.Event).UnmarshalBinary(seed.event) == nil, seed.name)
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.at, seed.remove, seed.insert, seed.event}})
	}
	corpus.Check(t, "FuzzDamagedFile", files...)
}

// S5, M4: whatever stands in a file, reading ends, yields only events that were written, in their order, and tells of
// what is missing; and the next epoch is read whole.
func FuzzDamagedFile(f *testing.F) {
	const name = "1/0000000000000000001-0000000000.events"
	f.Fuzz(func(t *testing.T, at, remove uint16, insert, event []byte) {
		if len(insert) > 1<<16 || len(event) > 1<<16 || new(metadata.Event).UnmarshalBinary(event) == nil {
			return
		}
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
			publish(t, log, events(1, 1, 0, 1)...)
			if len(event) > 0 {
				filelog.AppendRaw(t, log, event)
			}
			publish(t, log, events(1, 1, 2, 3, 4)...)
			require.NoError(t, log.Close())
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			from := min(int(at), len(b))
			to := min(from+int(remove), len(b))
			changed := append(append(b[:from:from], insert...), b[to:]...)
			require.NoError(t, os.WriteFile(path, changed, 0o644))
			next := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 2})
			publish(t, next, events(1, 2, 0)...)

			reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1})
			for _, from := range []time.Time{time.Unix(0, 0), {}} {
				sub, err := reader.Subscribe(t.Context(), metadata.Position{Time: from})
				require.NoError(t, err)
				if from.IsZero() {
					publish(t, next, events(1, 2, 1)...)
				}
				expected, gaps, missing := int64(0), 0, false
				for {
					item, err := sub.Next(t.Context())
					require.NoError(t, err)
					if item.Gap != nil {
						gaps++
						require.Less(t, gaps, 8)
						continue
					}
					id := item.Event.Segment.ID
					require.Equal(t, testevent.New(1, id.BrokerEpoch, item.Event.Sequence), item.Event)
					if id.BrokerEpoch == 2 && (!from.IsZero() || item.Event.Sequence == 1) {
						break
					}
					require.GreaterOrEqual(t, item.Event.Sequence, expected)
					missing = missing || item.Event.Sequence > expected
					expected = item.Event.Sequence + 1
				}
				// M3: what is missing before an event that came is told. A tail that is cut off whole leaves no trace, as it
				// would if it had never been written; for a follower that is F6's to notice (C2d).
				if missing {
					require.Positive(t, gaps)
				}
				require.NoError(t, sub.Close())
			}
		})
	})
}
