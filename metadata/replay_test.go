package metadata_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage/segment"
)

// M5, Q2, Q21: a follower that has been there all the while and one that starts with an empty Store and replays the whole
// log end in equal Stores, below the bound: in 1,000 random interleavings of brokers, in several broker epochs, of
// publications repeated, late and given up, and of partitions that are followed in ever newer leader epochs.
func TestReplayEqualsLive(t *testing.T) {
	const seeds = 1000
	var kept, waiting, duplicates, gaps int
	for seed := range uint64(seeds) {
		topic, err := memlog.New(memlog.Config{})
		require.NoError(t, err)
		r := &replayRun{t: t, random: rand.New(rand.NewPCG(seed, 12)), topic: topic, ends: map[segment.PartitionKey]int64{}, epochs: map[segment.PartitionKey]int32{}}
		r.duplicate = func() { duplicates++ }
		r.gap = func() { gaps++ }
		r.marker = r.open(97, 0)
		live := r.live()
		replayed := r.replay()

		stats := live.Stats()
		require.Equal(t, stats.Entries, replayed.Stats().Entries, "seed %d", seed)
		require.Equal(t, stats.Waiting, replayed.Stats().Waiting, "seed %d", seed)
		require.Zero(t, stats.Evicted, "seed %d: not below the bound", seed)
		require.Equal(t, r.hash(live), r.hash(replayed), "seed %d", seed)
		kept, waiting = kept+stats.Entries, waiting+stats.Waiting
	}
	t.Logf("%d interleavings: %d slices kept, %d of them waiting; %d duplicates and %d gaps on the way", seeds, kept, waiting, duplicates, gaps)
	for what, n := range map[string]int{"kept": kept, "waiting": waiting, "duplicates": duplicates, "gaps": gaps} {
		require.Greater(t, n, seeds, what)
	}
}

// replayRun is what brokers publish and one follower does.
type replayRun struct {
	t              *testing.T
	random         *rand.Rand
	topic          *memlog.Topic
	ends           map[segment.PartitionKey]int64 // of the follower's logs
	epochs         map[segment.PartitionKey]int32 // followed
	duplicate, gap func()
	marker         *memlog.Log
	marks          int64
}

const replayPartitions = 3

func (r *replayRun) partition(n int) segment.TopicIDPartition {
	return testevent.Partition(0, int32(n))
}

// live publishes, and keeps a Store up to date all the while.
func (r *replayRun) live() *metadata.Store {
	store := newStore(r.t, metadata.StoreConfig{})
	log := r.open(99, 0)
	sub, err := log.Subscribe(r.t.Context(), metadata.Position{})
	require.NoError(r.t, err)
	for n := range replayPartitions {
		r.turn(store, n, 1)
	}
	brokers := make([]replayBroker, 3)
	for id := range brokers {
		brokers[id] = replayBroker{id: int32(id), log: r.open(int32(id), 0)}
	}
	for range 30 {
		r.publish(&brokers[r.random.IntN(len(brokers))])
		if r.random.IntN(3) > 0 {
			continue // what comes is read in one go later
		}
		r.read(sub, store.Apply)
		n := r.random.IntN(replayPartitions)
		p := r.partition(n)
		if r.random.IntN(4) == 0 {
			r.turn(store, n, r.epochs[p.Key()]+r.random.Int32N(2))
		}
		r.ends[p.Key()] += r.random.Int64N(20)
		store.Next(p, r.ends[p.Key()])
	}
	r.read(sub, store.Apply)
	return store
}

type replayBroker struct {
	id       int32
	epoch    int64
	sequence int64
	log      *memlog.Log
	late     []*metadata.Event // published or given up
}

// publish publishes one to three events: mostly new ones, sometimes after a restart, some of them again.
func (r *replayRun) publish(b *replayBroker) {
	if r.random.IntN(10) == 0 { // the broker restarts
		b.epoch, b.sequence, b.late = b.epoch+1, 0, nil
		b.log = r.open(b.id, b.epoch)
	}
	var events []*metadata.Event
	for range 1 + r.random.IntN(3) {
		if len(b.late) > 0 && r.random.IntN(3) == 0 {
			events = append(events, b.late[r.random.IntN(len(b.late))])
			continue
		}
		var slices []segment.Slice
		for n := range replayPartitions {
			if r.random.IntN(3) == 0 && (n > 0 || len(slices) > 0) {
				continue
			}
			key := r.partition(n).Key()
			base := max(0, r.ends[key]+r.random.Int64N(80)-10)
			slices = append(slices, testevent.Slice(int32(n), max(1, r.epochs[key]+r.random.Int32N(4)-1), base, base+r.random.Int64N(25)))
		}
		if len(slices) == 0 {
			slices = append(slices, testevent.Slice(0, 1, 0, 9))
		}
		event := testevent.New(b.id, b.epoch, b.sequence, slices...)
		b.sequence++
		b.late = append(b.late, event)
		if r.random.IntN(8) > 0 { // else it is given up, for now
			events = append(events, event)
		}
	}
	stored, err := b.log.Publish(r.t.Context(), events...)
	require.NoError(r.t, err)
	require.Equal(r.t, len(events), stored)
}

// replay fills a Store from the beginning of the log for a follower whose logs end where they do.
func (r *replayRun) replay() *metadata.Store {
	store := newStore(r.t, metadata.StoreConfig{})
	for n := range replayPartitions {
		store.Follow(r.partition(n), -1, r.epochs[r.partition(n).Key()])
	}
	sub, err := r.open(98, 0).Subscribe(r.t.Context(), metadata.Position{Time: time.Unix(1, 0)})
	require.NoError(r.t, err)
	// Each broker's events keep their order and nothing else does: on a topic brokers have partitions of their own.
	queues := map[int32][]metadata.Item{}
	r.read(sub, func(item metadata.Item) {
		if item.Event != nil {
			item.Event = item.Event.Clone()
			id := item.Event.Segment.ID.BrokerID
			queues[id] = append(queues[id], item)
		}
	})
	for len(queues) > 0 {
		ids := slices.Sorted(maps.Keys(queues))
		id := ids[r.random.IntN(len(ids))]
		store.Apply(queues[id][0])
		if queues[id] = queues[id][1:]; len(queues[id]) == 0 {
			delete(queues, id)
		}
	}
	for n := range replayPartitions {
		store.Next(r.partition(n), r.ends[r.partition(n).Key()])
	}
	return store
}

func (r *replayRun) turn(store *metadata.Store, n int, epoch int32) {
	p := r.partition(n)
	store.Follow(p, r.random.Int32N(3), epoch)
	r.epochs[p.Key()] = epoch
	store.Next(p, r.ends[p.Key()]) // a log that changes its epoch has told its end
}

func (r *replayRun) open(broker int32, epoch int64) *memlog.Log {
	log, err := r.topic.Open(memlog.Options{Broker: broker, BrokerEpoch: epoch, Hooks: metadata.Hooks{
		Duplicate: func(*metadata.Event) { r.duplicate() },
		Gap:       func(metadata.Gap) { r.gap() },
	}})
	require.NoError(r.t, err)
	return log
}

// read reads all that the subscription has: up to a mark that is published now, in a partition that nobody follows.
func (r *replayRun) read(sub metadata.Subscription, take func(metadata.Item)) {
	mark := testevent.New(97, 0, r.marks, testevent.Slice(77, 1, 0, 9))
	r.marks++
	_, err := r.marker.Publish(r.t.Context(), mark)
	require.NoError(r.t, err)
	for {
		item, err := sub.Next(r.t.Context())
		require.NoError(r.t, err)
		take(item)
		if item.Event != nil && item.Event.Segment.ID == mark.Segment.ID {
			return
		}
	}
}

// hash is that of all that a Store answers: of what is followed, and of what waits, which it follows for that.
func (r *replayRun) hash(store *metadata.Store) string {
	h := sha256.New()
	for step := range int32(8) {
		for n := range replayPartitions {
			p := r.partition(n)
			store.Follow(p, -1, r.epochs[p.Key()]+step)
			for offset := int64(0); ; {
				entry, verdict := store.After(p, offset)
				fmt.Fprintln(h, n, step, offset, verdict, entry)
				if verdict.Outcome == metadata.Nothing {
					break
				}
				offset = max(verdict.To, entry.Slice.LastOffset+1)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
