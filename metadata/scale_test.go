package metadata_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/walstorage/segment"
)

// The scale of a large cluster: a broker that follows 1,000 partitions of 100 leaders, each of which announces 100 segments
// of 64 slices a second. Of an event's slices ten are followed here.
const (
	scaleLeaders  = 100
	scaleFollowed = 10 // of each leader
	scaleBatch    = 40 // offsets in a slice
)

// atScale is that broker's side of the metadata log, from the bytes of an event to what is to be fetched next.
type atScale struct {
	store     *metadata.Store
	encoded   [scaleLeaders][]byte
	events    [scaleLeaders]metadata.Event // one for each, so that the names of topics are those of its last event
	concerned []segment.PartitionKey
	lag       int64 // how many segments the followers are behind
	steps     int
}

func newAtScale(tb testing.TB, lag int64) *atScale {
	s := &atScale{store: newStore(tb, metadata.StoreConfig{}), lag: lag}
	for leader := range s.encoded {
		event := testevent.Sized(8, 8)
		event.Segment.ID = testevent.ID(int32(leader), 1, 1)
		followed := 0
		for i := range event.Segment.Topics {
			topic := &event.Segment.Topics[i]
			id := testevent.Topic(8*leader + i)
			topic.ID, topic.Name = id.TopicID, id.Topic
			for _, slice := range topic.Slices {
				if followed < scaleFollowed {
					id.Partition = slice.Partition
					s.store.Follow(id, int32(leader), slice.LeaderEpoch)
					followed++
				}
			}
		}
		var err error
		s.encoded[leader], err = testevent.Finish(event).MarshalBinary()
		require.NoError(tb, err)
	}
	require.Equal(tb, scaleLeaders*scaleFollowed, s.store.Stats().Partitions)
	return s
}

// step takes the next event, of the next leader, and asks for each partition that it concerns what comes next.
func (s *atScale) step(tb testing.TB) {
	round := int64(s.steps / scaleLeaders)
	event := &s.events[s.steps%scaleLeaders]
	if err := event.UnmarshalBinary(s.encoded[s.steps%scaleLeaders]); err != nil {
		tb.Fatal(err)
	}
	s.steps++
	event.Sequence = round
	for i := range event.Segment.Topics {
		for j := range event.Segment.Topics[i].Slices {
			slice := &event.Segment.Topics[i].Slices[j]
			slice.BaseOffset, slice.LastOffset = round*scaleBatch, (round+1)*scaleBatch-1
		}
	}
	item := metadata.Item{Event: event}
	s.store.Apply(item)
	s.concerned = s.store.AppendConcerned(s.concerned[:0], item)
	end := max(0, round-s.lag) * scaleBatch
	for _, key := range s.concerned {
		if _, verdict := s.store.Next(segment.TopicIDPartition{TopicID: key.TopicID, Partition: key.Partition}, end); verdict.Outcome != metadata.Found {
			tb.Fatal(verdict)
		}
	}
}

// BenchmarkStoreAtScale is how many events a second one core takes, decoding included: 10,000 a second are needed, and what
// an event of 64 slices takes on the topic.
func BenchmarkStoreAtScale(b *testing.B) {
	s := newAtScale(b, 5)
	for range 20 * scaleLeaders {
		s.step(b)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.step(b)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(len(s.encoded[0])), "bytes/event")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/slice")
}

// M5: what a Store holds is what its followers lack, whatever has passed: four times as many events leave as much, and a
// step allocates nothing.
func TestStoreAtScale(t *testing.T) {
	const lag = 5
	s := newAtScale(t, lag)
	some := func() {
		for range 20 * scaleLeaders {
			s.step(t)
		}
	}
	some()
	want := scaleLeaders * scaleFollowed * (lag + 1)
	require.Equal(t, want, s.store.Stats().Entries)
	before := heap()
	for range 3 {
		some()
	}
	require.Equal(t, want, s.store.Stats().Entries)
	require.Zero(t, s.store.Stats().Evicted)
	require.Less(t, heap(), before+256<<10, "the heap has grown")
	require.Zero(t, testing.AllocsPerRun(500, func() { s.step(t) }))
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
