package metadata_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/walstorage/segment"
)

var (
	p0 = testevent.Partition(0, 0)
	p1 = testevent.Partition(0, 1)
)

func newStore(t testing.TB, cfg metadata.StoreConfig) *metadata.Store {
	store, err := metadata.NewStore(cfg)
	require.NoError(t, err)
	return store
}

// says renders an answer: "nothing", "gap 7", or "[base,last] e<epoch> of <sequence of the event>".
func says(e metadata.Entry, v metadata.Verdict) string {
	switch v.Outcome {
	case metadata.Nothing:
		return "nothing"
	case metadata.GapUpTo:
		return fmt.Sprintf("gap %d", v.To)
	}
	return fmt.Sprintf("[%d,%d] e%d of %d", e.Slice.BaseOffset, e.Slice.LastOffset, e.Slice.LeaderEpoch, e.ID.UUID[15])
}

// apply gives the store one event of broker 1 for each range "base-last" of partition 0 in the epoch, with sequences
// from 0.
func apply(store *metadata.Store, epoch int32, ranges string) {
	sequence := int64(0)
	for r := range strings.FieldsSeq(ranges) {
		var base, last int64
		if _, err := fmt.Sscanf(r, "%d-%d", &base, &last); err != nil {
			panic(err)
		}
		store.Apply(metadata.Item{Event: testevent.New(1, 1, sequence, testevent.Slice(0, epoch, base, last))})
		sequence++
	}
}

// M5, F2: what Next says. What lies below all that is known is no "nothing there" (aiven/inkless#666).
func TestStoreNext(t *testing.T) {
	for _, tt := range []struct {
		name, ranges string
		logEnd       int64
		want         string
	}{
		{"nothing has come", "", 0, "nothing"},
		{"an entry begins at the end", "0-9 10-19", 10, "[10,19] e5 of 1"},
		{"an entry contains the end", "0-9 10-19", 15, "[10,19] e5 of 1"},
		{"the last offset of an entry", "0-9 10-19", 19, "[10,19] e5 of 1"},
		{"all is there", "0-9 10-19", 20, "nothing"},
		{"a gap before the first", "10-19 20-29", 5, "gap 10"},
		{"a gap between two", "0-9 20-29", 10, "gap 20"},
		{"an entry of one offset", "7-7", 7, "[7,7] e5 of 0"},
		{"redpanda-data/redpanda#7502: a range repeated in another segment", "0-9 10-19 10-19", 10, "[10,19] e5 of 1"},
		{"redpanda-data/redpanda#7502: overlapping ranges, by offset", "0-9 5-14", 9, "[5,14] e5 of 1"},
		{"redpanda-data/redpanda#7502: before the overlap", "0-9 5-14", 4, "[0,9] e5 of 0"},
		{"redpanda-data/redpanda#7502: a range that covers others", "0-4 5-9 0-14", 5, "[0,14] e5 of 2"},
		{"redpanda-data/redpanda#7502: two that begin alike", "0-9 0-19", 0, "[0,19] e5 of 1"},
		{"KAFKA-15388: what follows a gap may be anywhere", "0-9 1000-1009 40-49", 10, "gap 40"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newStore(t, metadata.StoreConfig{})
			store.Follow(p0, 1, 5)
			apply(store, 5, tt.ranges)
			ahead := says(store.After(p0, tt.logEnd))
			assert.Equal(t, tt.want, says(store.Next(p0, tt.logEnd)))
			assert.Equal(t, tt.want, ahead, "After answers otherwise than Next")
			assert.Equal(t, tt.want, says(store.Next(p0, tt.logEnd)), "the second answer differs")
		})
	}
}

// redpanda-data/redpanda#7502: what another slice covers takes no room.
func TestStoreKeepsNothingTwice(t *testing.T) {
	for ranges, kept := range map[string]int{
		"0-9 0-9": 1, "0-9 0-19 5-14": 1, "5-14 0-19 0-9": 1, "0-9 5-14": 2, "0-4 5-9 10-14 0-14": 1, "0-4 5-9 10-14 3-12": 3,
	} {
		store := newStore(t, metadata.StoreConfig{})
		store.Follow(p0, 1, 5)
		apply(store, 5, ranges)
		stats := store.Stats()
		assert.Equal(t, kept, stats.Entries, ranges)
		assert.EqualValues(t, len(strings.Fields(ranges))-kept, stats.Covered, ranges)
	}
}

func TestStoreEntrySaysWhereTheBytesAre(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{})
	event := testevent.Sized(3, 3)
	topic := event.Segment.Topics[2]
	p := segment.TopicIDPartition{TopicID: topic.ID, Topic: topic.Name, Partition: 1}
	store.Follow(p, 3, 100)
	store.Apply(metadata.Item{Event: event})

	got, verdict := store.Next(p, topic.Slices[1].BaseOffset)

	assert.Equal(t, metadata.Verdict{Outcome: metadata.Found}, verdict)
	assert.Equal(t, metadata.Entry{
		ID: event.Segment.ID, Slice: topic.Slices[1],
		Position: segment.HeaderLength + 7*topic.Slices[0].Length, ObjectSize: event.ObjectSize,
	}, got)
}

// M5: only what is lacked is kept.
func TestStoreDropsWhatIsNotLacked(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{Cluster: testevent.Cluster})
	store.Follow(p0, 1, 5)
	require.Equal(t, "nothing", says(store.Next(p0, 100)))

	apply(store, 5, "80-89 90-99 100-109 100-109")
	apply(store, 4, "100-199")
	store.Apply(metadata.Item{Event: testevent.New(1, 1, 9, testevent.Slice(3, 5, 0, 9))})
	other := testevent.New(1, 1, 10, testevent.Slice(0, 5, 110, 119))
	other.Segment.Cluster = "another-cluster"
	store.Apply(metadata.Item{Event: other})
	store.Apply(metadata.Item{Gap: &metadata.Gap{BrokerID: 1}})

	assert.Equal(t, metadata.StoreStats{
		Partitions: 1, Entries: 1, Events: 7, Below: 2, Covered: 1, Stale: 1, Unfollowed: 1, OtherCluster: 1,
	}, store.Stats())
	assert.Equal(t, "[100,109] e5 of 2", says(store.Next(p0, 100)))
	assert.Equal(t, "nothing", says(store.Next(p0, 110)))
	assert.Zero(t, store.Stats().Entries, "an entry below the log end is kept")
	assert.EqualValues(t, 4, store.Arrivals(p0), "F5: an event counts as arrived though nothing of it is kept")

	store.Unfollow(p0)
	assert.Zero(t, store.Stats().Partitions)
	assert.Equal(t, "nothing", says(store.Next(p0, 0)))
	assert.Zero(t, store.Arrivals(p0))
	store.Unfollow(p0)
}

// F1: older entries are stale, newer ones wait for the broker to say so.
func TestStoreNewerEpochsWait(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{})
	store.Follow(p0, 1, 5)
	apply(store, 7, "40-49 50-59")
	apply(store, 5, "0-9 10-19")
	apply(store, 6, "20-29")

	assert.Equal(t, "[10,19] e5 of 1", says(store.Next(p0, 10)))
	assert.Equal(t, "nothing", says(store.Next(p0, 20)), "an entry of a newer epoch is used")
	assert.Equal(t, 3, store.Stats().Waiting)
	assert.EqualValues(t, 2, store.Arrivals(p0))

	store.Follow(p0, 2, 6)
	assert.Zero(t, store.Arrivals(p0))
	assert.Equal(t, "[20,29] e6 of 0", says(store.Next(p0, 20)))
	assert.Equal(t, 2, store.Stats().Waiting)

	store.Follow(p0, 1, 5) // a broker that is late with the news
	assert.Equal(t, "[20,29] e6 of 0", says(store.Next(p0, 20)))

	store.Follow(p0, 3, 7)
	assert.Equal(t, "gap 40", says(store.Next(p0, 20)))
	assert.Equal(t, "[50,59] e7 of 1", says(store.Next(p0, 50)))
	assert.Equal(t, metadata.StoreStats{Partitions: 1, Entries: 1, Events: 5, Stale: 1}, store.Stats())
}

// redpanda-data/redpanda#9759, estuary/flow#3092: an event of a newer epoch that seems to go back moves nothing that is
// followed.
func TestStoreIgnoresAnEndThatGoesBack(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{})
	store.Follow(p0, 1, 5)
	apply(store, 5, "1000-1031")
	require.Equal(t, "[1000,1031] e5 of 0", says(store.Next(p0, 1000)))
	apply(store, 6, "0-0")
	assert.Equal(t, "[1000,1031] e5 of 0", says(store.Next(p0, 1000)))
	assert.Equal(t, 1, store.Stats().Waiting)
}

// twmb/franz-go#1364, redpanda-data/redpanda#4466, KAFKA-15130: an event of a deleted topic says nothing about a new one
// of the same name.
func TestStoreTopicIDIsTheIdentity(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{})
	old, recreated := p0, p0
	recreated.TopicID[0] ^= 0xff
	store.Follow(old, 1, 0)
	apply(store, 0, "0-99")
	store.Unfollow(old)
	store.Follow(recreated, 1, 0)

	apply(store, 0, "100-109") // late, of the old topic

	assert.Equal(t, "nothing", says(store.Next(recreated, 10)))
	assert.EqualValues(t, 1, store.Stats().Unfollowed)
	assert.Zero(t, store.Arrivals(recreated))
}

func permutations(n int) (all [][]int) {
	var extend func(prefix []int)
	extend = func(prefix []int) {
		if len(prefix) == n {
			all = append(all, append([]int(nil), prefix...))
			return
		}
	next:
		for i := range n {
			for _, used := range prefix {
				if used == i {
					continue next
				}
			}
			extend(append(prefix, i))
		}
	}
	extend(nil)
	return all
}

// KAFKA-15168: overlapping ranges in one epoch, and a newer epoch, in all six orders.
func TestStoreOverlappingRangesInAnyOrder(t *testing.T) {
	events := []*metadata.Event{
		testevent.New(1, 1, 0, testevent.Slice(0, 5, 0, 100)),  // A
		testevent.New(1, 1, 1, testevent.Slice(0, 5, 40, 80)),  // B
		testevent.New(2, 1, 2, testevent.Slice(0, 6, 60, 160)), // C, in the epoch that begins at 60
	}
	for _, order := range permutations(3) {
		store := newStore(t, metadata.StoreConfig{})
		store.Follow(p0, 1, 5)
		for _, i := range order {
			store.Apply(metadata.Item{Event: events[i]})
		}
		assert.Equal(t, "[0,100] e5 of 0", says(store.After(p0, 90)), "%v: A holds 90", order)
		assert.Equal(t, "[0,100] e5 of 0", says(store.After(p0, 59)), "%v: A holds 59", order)
		assert.Equal(t, "nothing", says(store.After(p0, 101)), "%v: the end of epoch 5 is 100", order)

		store.Follow(p0, 2, 6) // the broker has truncated to 60, or is about to
		assert.Equal(t, "[60,160] e6 of 2", says(store.After(p0, 70)), "%v: C holds 70", order)
		assert.Equal(t, "gap 60", says(store.After(p0, 59)), "%v: 59 is not of epoch 6", order)
	}
}

// M5: the same events give the same answers in any order, whatever overlaps. All orders of six events, and random
// orders of many.
func TestStoreSameAnswersInAnyOrder(t *testing.T) {
	answers := func(events []*metadata.Event, order []int) string {
		store := newStore(t, metadata.StoreConfig{})
		store.Follow(p0, 1, 1)
		store.Follow(p1, 1, 2)
		for _, i := range order {
			store.Apply(metadata.Item{Event: events[i]})
		}
		var out strings.Builder
		for _, p := range []segment.TopicIDPartition{p0, p1} {
			for epoch := int32(1); epoch <= 3; epoch++ {
				store.Follow(p, 1, epoch)
				for offset := range int64(40) {
					fmt.Fprintln(&out, says(store.After(p, offset)))
				}
				for offset := range int64(40) {
					fmt.Fprintln(&out, says(store.Next(p, offset)))
				}
			}
		}
		return out.String()
	}
	random := rand.New(rand.NewPCG(1, 2))
	randomEvents := func(n int) (events []*metadata.Event) {
		for i := range n {
			var slices []segment.Slice
			for partition := range int32(2) {
				base := random.Int64N(30)
				slices = append(slices, testevent.Slice(partition, 1+random.Int32N(3), base, base+random.Int64N(8)))
			}
			events = append(events, testevent.New(1+random.Int32N(3), 1, int64(i), slices...))
		}
		return events
	}
	orders := permutations(6)
	for round := range 2 {
		events := randomEvents(6)
		want := answers(events, orders[0])
		for _, order := range orders[1:] {
			require.Equal(t, want, answers(events, order), "round %d, order %v", round, order)
		}
	}
	for round := range 20 {
		events := randomEvents(40)
		want := answers(events, random.Perm(40))
		for range 5 {
			order := random.Perm(40)
			require.Equal(t, want, answers(events, order), "round %d, order %v", round, order)
		}
	}
}

// The chain is checked against the plainest model: all events in a list.
func TestStoreAgainstAModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		store := newStore(t, metadata.StoreConfig{})
		store.Follow(p0, 1, 1)
		var known []segment.Slice
		logEnd := int64(0)
		for step := range 60 {
			if random.IntN(3) > 0 {
				base := logEnd + random.Int64N(40) - 10
				slice := testevent.Slice(0, 1, max(0, base), max(0, base)+random.Int64N(12))
				store.Apply(metadata.Item{Event: testevent.New(1, 1, int64(step), slice)})
				if slice.LastOffset >= logEnd {
					known = append(known, slice)
				}
				continue
			}
			logEnd += random.Int64N(10)
			entry, verdict := store.Next(p0, logEnd)
			best, lowest := int64(-1), int64(-1)
			for _, s := range known {
				if s.BaseOffset <= logEnd {
					best = max(best, s.LastOffset)
				} else if lowest < 0 || s.BaseOffset < lowest {
					lowest = s.BaseOffset
				}
			}
			switch {
			case best >= logEnd:
				require.Equal(t, metadata.Found, verdict.Outcome, "round %d step %d", round, step)
				require.Equal(t, best, entry.Slice.LastOffset, "round %d step %d", round, step)
				require.LessOrEqual(t, entry.Slice.BaseOffset, logEnd)
			case lowest >= 0:
				require.Equal(t, metadata.Verdict{Outcome: metadata.GapUpTo, To: lowest}, verdict, "round %d step %d", round, step)
			default:
				require.Equal(t, metadata.Nothing, verdict.Outcome, "round %d step %d", round, step)
			}
		}
	}
}

// M5, N1: over the bound the lowest offsets of the partition farthest behind go first and become a gap.
func TestStoreEviction(t *testing.T) {
	event := func(sequence int64, partition int32, epoch int32, base int64) metadata.Item {
		return metadata.Item{Event: testevent.New(1, 1, sequence, testevent.Slice(partition, epoch, base, base+9))}
	}

	t.Run("the partition farthest behind pays", func(t *testing.T) {
		store := newStore(t, metadata.StoreConfig{MaxEntries: 6})
		store.Follow(p0, 1, 5)
		store.Follow(p1, 1, 5)
		for n := range int64(10) { // p0 takes nothing, p1 follows closely
			store.Apply(event(n, 0, 5, 10*n))
			store.Apply(event(n, 1, 5, 10*n))
			require.Equal(t, metadata.Found, outcome(store.Next(p1, 10*n)), "the partition that keeps up has lost an entry")
			store.Next(p1, 10*n+10)
		}
		assert.LessOrEqual(t, store.Stats().Entries, 6)
		assert.Equal(t, "gap 50", says(store.Next(p0, 0)), "one place of the six was taken by p1")
		assert.Equal(t, "[50,59] e5 of 5", says(store.Next(p0, 50)), "the newest were dropped instead of the lowest")
		assert.EqualValues(t, 5, store.Stats().Evicted)
	})

	t.Run("among equals the one that has stood still pays, and its gap stays when nothing is left", func(t *testing.T) {
		store := newStore(t, metadata.StoreConfig{MaxEntries: 1})
		store.Follow(p0, 1, 5)
		store.Follow(p1, 1, 5)
		store.Apply(event(0, 0, 5, 10))
		store.Apply(event(1, 1, 5, 0))
		assert.Equal(t, "gap 20", says(store.Next(p0, 10)))
		assert.Equal(t, "nothing", says(store.Next(p0, 20)), "the gap has an end")
		assert.Equal(t, "[0,9] e5 of 1", says(store.Next(p1, 0)))
		store.Apply(event(2, 0, 5, 20))
		assert.Equal(t, "gap 10", says(store.Next(p1, 0)))
		assert.Equal(t, "[20,29] e5 of 2", says(store.Next(p0, 20)))
		store.Follow(p1, 1, 6)
		assert.Equal(t, "nothing", says(store.Next(p1, 0)), "a gap of an older epoch is over")
	})

	t.Run("what waits goes too, and is a gap when its epoch comes", func(t *testing.T) {
		store := newStore(t, metadata.StoreConfig{MaxEntries: 1})
		store.Follow(p0, 1, 5)
		store.Follow(p1, 1, 5)
		store.Apply(event(0, 0, 6, 10))
		store.Apply(event(1, 0, 6, 20))
		assert.Equal(t, metadata.StoreStats{Partitions: 2, Entries: 1, Waiting: 1, Events: 2, Evicted: 1}, store.Stats())
		store.Apply(event(2, 1, 5, 0))
		assert.Equal(t, metadata.StoreStats{Partitions: 2, Entries: 1, Events: 3, Evicted: 2}, store.Stats())
		store.Follow(p0, 2, 6)
		assert.Equal(t, "gap 30", says(store.Next(p0, 10)))
		assert.Equal(t, "nothing", says(store.Next(p0, 30)))
	})

	t.Run("the bound holds whatever comes", func(t *testing.T) {
		random := rand.New(rand.NewPCG(5, 6))
		store := newStore(t, metadata.StoreConfig{MaxEntries: 50})
		ends := map[int32]int64{}
		for step := range 20_000 {
			partition := random.Int32N(20)
			p := testevent.Partition(0, partition)
			switch random.IntN(20) {
			case 0:
				store.Follow(p, random.Int32N(3), random.Int32N(1+int32(step)/1000))
			case 1:
				store.Unfollow(p)
			case 2, 3, 4:
				store.Next(p, random.Int64N(1+ends[partition]))
			default:
				base := ends[partition]
				ends[partition] += random.Int64N(20)
				store.Apply(event(int64(step%256), partition, random.Int32N(1+int32(step)/1000), base))
			}
			stats := store.Stats()
			require.LessOrEqual(t, stats.Entries, 50)
			require.GreaterOrEqual(t, stats.Entries, stats.Waiting)
			require.GreaterOrEqual(t, stats.Waiting, 0)
		}
		for partition := range int32(20) {
			store.Unfollow(testevent.Partition(0, partition))
		}
		stats := store.Stats()
		assert.Zero(t, stats.Entries)
		assert.Zero(t, stats.Waiting)
		assert.Zero(t, stats.Partitions)
		assert.NotZero(t, stats.Evicted)
	})
}

func outcome(_ metadata.Entry, v metadata.Verdict) metadata.Outcome { return v.Outcome }

// F4: looking ahead finds one entry after the other and takes nothing away.
func TestStoreLookingAhead(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{})
	store.Follow(p0, 1, 5)
	apply(store, 5, "20-29 0-9 10-19 40-49")

	entry, verdict := store.Next(p0, 3)
	var found []string
	for verdict.Outcome == metadata.Found {
		found = append(found, says(entry, verdict))
		entry, verdict = store.After(p0, entry.Slice.LastOffset+1)
	}

	assert.Equal(t, []string{"[0,9] e5 of 1", "[10,19] e5 of 2", "[20,29] e5 of 0"}, found)
	assert.Equal(t, metadata.Verdict{Outcome: metadata.GapUpTo, To: 40}, verdict)
	assert.Equal(t, 4, store.Stats().Entries)
	assert.Equal(t, "nothing", says(store.After(testevent.Partition(9, 9), 0)))
}

// F4, N1: after a truncation the log end goes back; what was dropped is then a gap, and what comes is kept.
func TestStoreLogEndGoesBack(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{})
	store.Follow(p0, 1, 5)
	apply(store, 5, "0-9 10-19 20-29")
	require.Equal(t, "[20,29] e5 of 2", says(store.Next(p0, 20)))
	assert.Equal(t, "gap 20", says(store.Next(p0, 5)))
	apply(store, 5, "0-9")
	assert.Equal(t, "[0,9] e5 of 0", says(store.Next(p0, 5)))
}

// F6: a gap concerns the followed partitions led by its broker, an event those that it has slices for.
func TestStoreAppendConcerned(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{Cluster: testevent.Cluster})
	for n := range int32(6) {
		store.Follow(testevent.Partition(0, n), n%2, 5)
	}
	gapOf := func(broker int32) metadata.Item {
		return metadata.Item{Gap: &metadata.Gap{BrokerID: broker, Reason: metadata.GapMissing}}
	}
	keys := func(partitions ...int32) (keys []segment.PartitionKey) {
		for _, n := range partitions {
			keys = append(keys, testevent.Partition(0, n).Key())
		}
		return keys
	}
	assert.ElementsMatch(t, keys(0, 2, 4), store.AppendConcerned(nil, gapOf(0)))
	assert.ElementsMatch(t, keys(1, 3, 5), store.AppendConcerned(nil, gapOf(1)))
	assert.Empty(t, store.AppendConcerned(nil, gapOf(2)))

	store.Follow(testevent.Partition(0, 2), 1, 5) // only the leader's id has changed
	store.Follow(testevent.Partition(0, 4), 1, 6)
	store.Unfollow(testevent.Partition(0, 1))
	assert.ElementsMatch(t, keys(0), store.AppendConcerned(nil, gapOf(0)))
	assert.ElementsMatch(t, keys(2, 3, 4, 5), store.AppendConcerned(nil, gapOf(1)))

	event := testevent.New(1, 1, 0, testevent.Slice(1, 5, 0, 9), testevent.Slice(2, 5, 0, 9), testevent.Slice(4, 5, 0, 9), testevent.Slice(7, 5, 0, 9))
	before := keys(99)
	assert.Equal(t, keys(99, 2), store.AppendConcerned(before, metadata.Item{Event: event}))
	event.Segment.Cluster = "another-cluster"
	assert.Empty(t, store.AppendConcerned(nil, metadata.Item{Event: event}))
	assert.Empty(t, store.AppendConcerned(nil, metadata.Item{}))
}

func TestStoreConfig(t *testing.T) {
	_, err := metadata.NewStore(metadata.StoreConfig{MaxEntries: -1})
	assert.ErrorContains(t, err, "MaxEntries")
}

// Under -race: every method beside every other.
func TestStoreConcurrently(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{MaxEntries: 100})
	var group sync.WaitGroup
	for worker := range int64(4) {
		group.Go(func() {
			p := testevent.Partition(0, int32(worker))
			for n := range int64(200) {
				store.Follow(p, 1, int32(n/50))
				store.Apply(metadata.Item{Event: testevent.New(1, 1, n, testevent.Slice(int32(worker), int32(n/50), 10*n, 10*n+9))})
				store.AppendConcerned(nil, metadata.Item{Gap: &metadata.Gap{BrokerID: 1}})
				store.Next(p, 5*n)
				store.After(p, 10*n)
				store.Arrivals(p)
				store.Stats()
			}
			store.Unfollow(p)
		})
	}
	group.Wait()
	assert.Zero(t, store.Stats().Entries)
}

// Once grown to its load a store does not allocate.
func TestStoreAllocatesNothing(t *testing.T) {
	store := newStore(t, metadata.StoreConfig{})
	event := testevent.Sized(8, 8)
	var partitions []segment.TopicIDPartition
	for _, topic := range event.Segment.Topics {
		for _, slice := range topic.Slices {
			p := segment.TopicIDPartition{TopicID: topic.ID, Topic: topic.Name, Partition: slice.Partition}
			store.Follow(p, 3, slice.LeaderEpoch)
			partitions = append(partitions, p)
		}
	}
	step := func() {
		for range 4 {
			for i := range event.Segment.Topics {
				for j := range event.Segment.Topics[i].Slices {
					slice := &event.Segment.Topics[i].Slices[j]
					slice.BaseOffset, slice.LastOffset = slice.LastOffset+1, slice.LastOffset+40
				}
			}
			store.Apply(metadata.Item{Event: event})
		}
		for i, p := range partitions {
			end := event.Segment.Topics[i/8].Slices[i%8].LastOffset + 1
			store.Next(p, end-80)
			store.Next(p, end)
		}
	}
	step()
	assert.Zero(t, testing.AllocsPerRun(50, step))
	assert.Zero(t, store.Stats().Entries)
}

func TestStoreConfigNamesTheField(t *testing.T) {
	type config = metadata.StoreConfig
	configtest.Run(t, configtest.Table[config]{
		Open: func(_ testing.TB, c config) error {
			_, err := metadata.NewStore(c)
			return err
		},
		Wrong: map[string][]func(*config){"MaxEntries": {func(c *config) { c.MaxEntries = -1 }}},
		Any:   map[string]string{"Cluster": "what is no cluster's id is that of no event"},
	})
}
