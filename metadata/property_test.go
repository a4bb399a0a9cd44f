package metadata_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// storeModel is the plainest Store: it keeps every slice in a list.
type storeModel map[segment.PartitionKey]*modelPartition

type modelPartition struct {
	epoch  int32
	logEnd int64
	known  []metadata.Entry
}

func (m storeModel) follow(p segment.TopicIDPartition, epoch int32) {
	f := m[p.Key()]
	if f == nil {
		m[p.Key()] = &modelPartition{epoch: epoch}
		return
	}
	if epoch > f.epoch {
		f.epoch, f.logEnd = epoch, 0
		f.known = slices.DeleteFunc(f.known, func(e metadata.Entry) bool { return e.Slice.LeaderEpoch < epoch })
	}
}

func (m storeModel) apply(event *metadata.Event) {
	for entry := range event.Segment.All() {
		f := m[entry.Partition.Key()]
		if f == nil || entry.Slice.LeaderEpoch < f.epoch || entry.Slice.LeaderEpoch == f.epoch && entry.Slice.LastOffset < f.logEnd {
			continue
		}
		f.known = append(f.known, metadata.Entry{ID: event.Segment.ID, Slice: *entry.Slice, Position: entry.Position, ObjectSize: event.ObjectSize})
	}
}

func (m storeModel) next(p segment.TopicIDPartition, logEnd int64) (last int64, v metadata.Verdict) {
	f := m[p.Key()]
	if f == nil {
		return 0, metadata.Verdict{}
	}
	f.logEnd = logEnd
	f.known = slices.DeleteFunc(f.known, func(e metadata.Entry) bool {
		return e.Slice.LeaderEpoch == f.epoch && e.Slice.LastOffset < logEnd
	})
	last, above := int64(-1), int64(-1)
	for _, e := range f.known {
		switch {
		case e.Slice.LeaderEpoch != f.epoch:
		case e.Slice.BaseOffset <= logEnd:
			last = max(last, e.Slice.LastOffset)
		case above < 0 || e.Slice.BaseOffset < above:
			above = e.Slice.BaseOffset
		}
	}
	switch {
	case last >= 0:
		return last, metadata.Verdict{Outcome: metadata.Found}
	case above >= 0:
		return 0, metadata.Verdict{Outcome: metadata.GapUpTo, To: above}
	}
	return 0, metadata.Verdict{}
}

// holds tells whether the model has kept the entry.
func (m storeModel) holds(p segment.TopicIDPartition, e metadata.Entry) bool {
	return slices.Contains(m[p.Key()].known, e)
}

// storeRun is a random life of a follower: events of some brokers, each in its own order, some of them twice, and
// partitions that are followed in ever newer epochs, given up, and asked for from offsets that go on and back.
type storeRun struct {
	random     *rand.Rand
	partitions []segment.TopicIDPartition
	ends       map[segment.PartitionKey]int64
	sequence   int64
}

func newStoreRun(seed uint64) *storeRun {
	r := &storeRun{random: rand.New(rand.NewPCG(seed, 11)), ends: map[segment.PartitionKey]int64{}}
	for i := range 1 + r.random.IntN(4) {
		r.partitions = append(r.partitions, testevent.Partition(i%2, int32(i/2)))
	}
	return r
}

func (r *storeRun) partition() segment.TopicIDPartition {
	return r.partitions[r.random.IntN(len(r.partitions))]
}

// event returns the next event of a broker: slices of one topic, around where the logs end, in near epochs.
func (r *storeRun) event(broker int32) *metadata.Event {
	topic := r.random.IntN(2)
	var all []segment.Slice
	for partition := range int32(2) {
		end := r.ends[testevent.Partition(topic, partition).Key()]
		if r.random.IntN(4) == 0 {
			continue
		}
		base := max(0, end+r.random.Int64N(60)-20)
		all = append(all, testevent.Slice(partition, 1+r.random.Int32N(4), base, base+r.random.Int64N(15)))
	}
	if len(all) == 0 {
		all = append(all, testevent.Slice(0, 1, 0, 0))
	}
	r.sequence++
	e := testevent.New(broker, 1, r.sequence, all...)
	e.Segment.Topics[0].ID, e.Segment.Topics[0].Name = testevent.Topic(topic).TopicID, testevent.Topic(topic).Topic
	return testevent.Finish(e)
}

// F1, F2, M5: what Next says, against the model, whatever came before.
func TestStoreAgainstAModelOfItsLife(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(100) {
		r := newStoreRun(seed)
		store, model := newStore(t, metadata.StoreConfig{}), storeModel{}
		var old []*metadata.Event
		for step := range 200 {
			p := r.partition()
			at := fmt.Sprintf("seed %d, step %d", seed, step)
			switch r.random.IntN(12) {
			case 0:
				epoch := 1 + r.random.Int32N(4)
				store.Follow(p, r.random.Int32N(3), epoch)
				model.follow(p, epoch)
			case 1:
				if r.random.IntN(4) == 0 {
					store.Unfollow(p)
					delete(model, p.Key())
				}
			case 2: // a duplicate, or one that comes late
				if len(old) > 0 {
					event := old[r.random.IntN(len(old))]
					store.Apply(metadata.Item{Event: event})
					model.apply(event)
				}
			case 3, 4, 5, 6:
				event := r.event(r.random.Int32N(3))
				old = append(old, event)
				store.Apply(metadata.Item{Event: event})
				model.apply(event)
			default:
				end := max(0, r.ends[p.Key()]+r.random.Int64N(16)-4)
				r.ends[p.Key()] = end
				last, want := model.next(p, end)
				ahead, aheadVerdict := store.After(p, end)
				got, verdict := store.Next(p, end)
				require.Equal(t, want, verdict, at)
				require.Equal(t, verdict, aheadVerdict, at)
				require.Equal(t, got, ahead, at)
				counts[verdict.Outcome.String()]++
				if verdict.Outcome == metadata.Found {
					require.Equal(t, last, got.Slice.LastOffset, "%s: not the one that reaches farthest", at)
					require.LessOrEqual(t, got.Slice.BaseOffset, end, at)
					require.Equal(t, model[p.Key()].epoch, got.Slice.LeaderEpoch, "%s: of another epoch (F1)", at)
					require.True(t, model.holds(p, got), "%s: %+v was never applied", at, got)
				}
			}
			kept := 0
			for _, f := range model {
				kept += len(f.known)
			}
			require.LessOrEqual(t, store.Stats().Entries, kept, "%s: it keeps more than was lacked", at)
			require.Equal(t, len(model), store.Stats().Partitions, at)
		}
	}
	for _, outcome := range []metadata.Outcome{metadata.Nothing, metadata.Found, metadata.GapUpTo} {
		require.Greater(t, counts[outcome.String()], 500, "%v", counts)
	}
}

// M5: the same events in any interleaving of brokers, some of them twice, give the same answers: two stores are fed
// alike but for the order, and asked alike, again and again.
func TestStoreInAnyInterleaving(t *testing.T) {
	const brokers = 3
	for seed := range uint64(75) {
		r := newStoreRun(seed)
		stores := [3]*metadata.Store{}
		for i := range stores {
			stores[i] = newStore(t, metadata.StoreConfig{})
		}
		for block := range 12 {
			// What each broker publishes meanwhile, in its order.
			var published [brokers][]*metadata.Event
			for broker := range published {
				for range r.random.IntN(5) {
					published[broker] = append(published[broker], r.event(int32(broker)))
				}
			}
			for _, store := range stores {
				queues := published
				for {
					var waiting []int
					for broker := range queues {
						if len(queues[broker]) > 0 {
							waiting = append(waiting, broker)
						}
					}
					if len(waiting) == 0 {
						break
					}
					broker := waiting[r.random.IntN(len(waiting))]
					item := metadata.Item{Event: queues[broker][0]}
					store.Apply(item)
					if r.random.IntN(4) == 0 {
						store.Apply(item) // L5: published twice
					}
					queues[broker] = queues[broker][1:]
				}
			}
			for range 6 {
				p := r.partition()
				if r.random.IntN(3) == 0 {
					epoch := 1 + r.random.Int32N(4)
					for _, store := range stores {
						store.Follow(p, 1, epoch)
					}
				}
				end := max(0, r.ends[p.Key()]+r.random.Int64N(16)-4)
				r.ends[p.Key()] = end
				want, verdict := stores[0].Next(p, end)
				for _, store := range stores[1:] {
					got, other := store.Next(p, end)
					require.Equal(t, verdict, other, "seed %d, block %d", seed, block)
					require.Equal(t, want, got, "seed %d, block %d", seed, block)
				}
			}
			for _, store := range stores[1:] {
				require.Equal(t, stores[0].Stats().Entries, store.Stats().Entries, "seed %d, block %d", seed, block)
				require.Equal(t, stores[0].Stats().Waiting, store.Stats().Waiting, "seed %d, block %d", seed, block)
			}
		}
	}
}

// M5: over the bound a Store forgets, and never lies: it holds no more than the bound, gives only what was applied in
// the epoch followed, and where it has dropped something says that there is a gap, and not that there is nothing.
func TestStoreUnderItsBound(t *testing.T) {
	evicted := uint64(0)
	for seed := range uint64(75) {
		r := newStoreRun(seed)
		bound := 1 + r.random.IntN(12)
		store, model := newStore(t, metadata.StoreConfig{MaxEntries: bound}), storeModel{}
		for _, p := range r.partitions { // from the start in the highest epoch: nothing waits, so nothing is lost unseen
			store.Follow(p, 1, 4)
			model.follow(p, 4)
		}
		for step := range 300 {
			at := fmt.Sprintf("seed %d, step %d", seed, step)
			if r.random.IntN(3) > 0 {
				event := r.event(r.random.Int32N(3))
				store.Apply(metadata.Item{Event: event})
				model.apply(event)
				require.LessOrEqual(t, store.Stats().Entries, bound, at)
				continue
			}
			p := r.partition()
			end := r.ends[p.Key()] + r.random.Int64N(8) // it only goes on: what lies below after a truncation is no gap of the bound
			r.ends[p.Key()] = end
			last, want := model.next(p, end)
			got, verdict := store.Next(p, end)
			switch verdict.Outcome {
			case metadata.Found:
				require.Equal(t, metadata.Found, want.Outcome, at)
				require.LessOrEqual(t, got.Slice.LastOffset, last, at)
				require.EqualValues(t, 4, got.Slice.LeaderEpoch, at)
				require.True(t, model.holds(p, got), at)
			case metadata.GapUpTo:
				require.Greater(t, verdict.To, end, at)
				if want.Outcome == metadata.GapUpTo {
					require.GreaterOrEqual(t, verdict.To, want.To, at)
				} else {
					require.Equal(t, metadata.Found, want.Outcome, "%s: a gap where nothing was announced", at)
				}
			default:
				require.Equal(t, metadata.Nothing, want.Outcome, "%s: what was dropped is denied", at)
			}
		}
		evicted += store.Stats().Evicted
	}
	require.Greater(t, evicted, uint64(500))
}

// The order of brokers' ids has no part in what is kept: of two slices that cover each other one and the same stays.
func TestStoreTieBreak(t *testing.T) {
	a := testevent.New(1, 1, 1, testevent.Slice(0, 1, 0, 9))
	b := testevent.New(2, 1, 1, testevent.Slice(0, 1, 0, 9))
	var kept []walstorage.SegmentID
	for _, order := range [][]*metadata.Event{{a, b}, {b, a}, {a, b, a}, {b, a, b}} {
		store := newStore(t, metadata.StoreConfig{})
		store.Follow(p0, 1, 1)
		for _, event := range order {
			store.Apply(metadata.Item{Event: event})
		}
		entry, _ := store.Next(p0, 0)
		kept = append(kept, entry.ID)
	}
	require.Len(t, slices.Compact(kept), 1)
}
