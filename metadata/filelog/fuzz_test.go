package filelog_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/metadata/internal/testevent"
)

// S5, M4: whatever stands in a file, reading ends, yields only events that were written, in their order, and tells of
// what is missing; and the next epoch is read whole.
func FuzzDamagedFile(f *testing.F) {
	const name = "1/0000000000000000001-0000000000.events"
	f.Add(uint16(100), uint16(0), []byte{1})
	f.Add(uint16(40), uint16(700), []byte(nil))
	f.Add(uint16(350), uint16(24), make([]byte, 24))
	f.Add(uint16(0), uint16(2000), []byte("rubbish"))
	f.Fuzz(func(t *testing.T, at, remove uint16, insert []byte) {
		if len(insert) > 1<<16 {
			return
		}
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
			publish(t, log, events(1, 1, 0, 1, 2, 3, 4)...)
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
				expected, gaps := int64(0), 0
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
					expected = item.Event.Sequence + 1
				}
				require.NoError(t, sub.Close())
			}
		})
	})
}
