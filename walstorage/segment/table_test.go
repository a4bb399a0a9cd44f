package segment

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The table answers as a map does, for random ids and for such that meet in one slot.
func TestTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ids := map[string]func() uuid.UUID{
		"random": func() uuid.UUID { return uuid.UUID(binaryOf(random, 16)) },
		"all in one slot": func() uuid.UUID {
			var id uuid.UUID
			half := random.Uint64()
			binary.LittleEndian.PutUint64(id[:8], half)
			binary.LittleEndian.PutUint64(id[8:], half<<32|half>>32) // cancels the first half out
			return id
		},
		"one topic": func() uuid.UUID { return topicA },
	}
	for name, newID := range ids {
		var tab table
		for range 3 { // cleared and used again
			tab.clear()
			want := map[PartitionKey]int32{}
			var open []openSlice
			count := 1500
			if name == "all in one slot" {
				count = 200 // every search walks all of them
			}
			for range count {
				p := partition(newID(), "t", random.Int32N(4000))
				if name == "all in one slot" {
					p.Partition = 7
				}
				at, found := tab.find(&p.TopicID, p.Partition, open)
				known, isKnown := want[p.Key()]
				require.Equal(t, isKnown, found, name)
				require.Equal(t, known, at, name)
				if !found {
					want[p.Key()] = int32(len(open))
					open = append(open, openSlice{partition: p})
					tab.add(open)
				}
			}
			for key, at := range want {
				found, ok := tab.find(&key.TopicID, key.Partition, open)
				require.True(t, ok)
				require.Equal(t, at, found)
			}
			require.LessOrEqual(t, 2*len(want), len(tab.slots))
		}
	}
}
