package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/walstorage"
)

// TestTruth: what holds logs against the truth notices each way in which one can be wrong.
func TestTruth(t *testing.T) {
	truth := newTruth()
	write := func(raw []byte) []byte {
		header, err := batch.ParseHeader(raw)
		require.NoError(t, err)
		truth.wrote(&header, raw)
		return raw
	}
	// Given a leader of epoch 0 with [0,3), of which one of epoch 1 has [0,2), and goes on with [2,5).
	require.Empty(t, truth.elected(0, 0, 0, -1, false))
	a := write(batchtest.Make(0, 0, "a"))
	b := write(batchtest.Make(1, 0, "b"))
	c := write(batchtest.Make(2, 0, "c"))
	truth.commits(0, 2)
	require.Empty(t, truth.elected(1, 0, 2, 0, false))
	d := write(batchtest.Make(2, 1, "d"))
	e := write(batchtest.Make(3, 1, "e"))
	f := write(batchtest.Make(4, 1, "f"))
	join := func(batches ...[]byte) (all []byte) {
		for _, raw := range batches {
			all = append(all, raw...)
		}
		return all
	}

	for name, log := range map[string]struct {
		epoch int32
		from  int64
		raw   []byte
		wrong string
	}{
		"all of it":                    {1, 0, join(a, b, d, e, f), ""},
		"a part of it":                 {1, 3, join(e, f), ""},
		"the older leader's":           {0, 0, join(a, b, c), ""},
		"a tail that is gone":          {1, 0, join(a, b, c), "diverged"},
		"a batch of nobody":            {1, 2, batchtest.Make(2, 1, "x"), "is not what the leader wrote"},
		"a batch that was never there": {1, 5, batchtest.Make(5, 1, "x"), "nobody wrote"},
		"a hole":                       {1, 2, join(d, f), "hole: the batch at 3"},
		"a hole at its start":          {1, 0, join(b, d), "hole: the batch at 0"},
		"an epoch of nobody":           {2, 0, join(a), "nobody led"},
	} {
		wrong, _ := truth.check(log.epoch, log.from, log.raw)
		if log.wrong == "" {
			require.Empty(t, wrong, name)
		} else {
			require.Contains(t, wrong, log.wrong, name)
		}
	}

	// A hole that compaction has made is none, nor is what lies below the log start.
	truth.compacted(3, 4)
	wrong, end := truth.check(1, 2, join(d, f))
	require.Empty(t, wrong)
	require.Equal(t, int64(5), end)
	truth.deletes(1)
	wrong, _ = truth.check(1, 0, join(b, d))
	require.Empty(t, wrong)

	// What was committed must be in the log of every later leader, unless it has been deleted.
	truth.commits(1, 5)
	require.Len(t, truth.elected(2, 0, 3, 1, false), 1, "it lacks [3,5)")
	truth.commits(2, 3)
	require.Empty(t, truth.elected(3, 3, 3, -1, false))
}

// TestTruthAfterAnUncleanElection: an unclean election loses what its leader lacks, also what an older leader commits and
// acknowledges after it, not knowing yet of its successor; and nothing else (seeds 449, 802, 1776 and 1940).
func TestTruthAfterAnUncleanElection(t *testing.T) {
	write := func(truth *truth, epoch int32, base int64) {
		raw := batchtest.Make(base, epoch, "x")
		header, err := batch.ParseHeader(raw)
		require.NoError(t, err)
		truth.wrote(&header, raw)
	}
	// Given a leader of epoch 0 with [0,4), of which [0,2) is committed, and one of epoch 2 that has [0,3) of it.
	given := func(unclean bool) *truth {
		truth := newTruth()
		require.Empty(t, truth.elected(0, 0, 0, -1, false))
		for base := range int64(4) {
			write(truth, 0, base)
		}
		truth.commits(0, 2)
		truth.acknowledges(0, 1)
		require.Empty(t, truth.elected(2, 0, 3, 0, unclean))
		// When the older leader commits and acknowledges the rest,
		truth.commits(0, 4)
		truth.acknowledges(0, 2)
		truth.acknowledges(0, 3)
		return truth
	}
	// then that is lost if the election was unclean, and a violation if it was not.
	require.Empty(t, given(true).elected(3, 0, 3, 2, false))
	require.Len(t, given(false).elected(3, 0, 3, 2, false), 2, "the last record was acknowledged, and committed")
	// What the successor has must not go.
	require.Len(t, given(true).elected(3, 0, 2, 0, false), 2, "the third was acknowledged, and committed")

	// An election loses what its leader lacks and no more: what it has stays committed.
	truth := given(true)
	require.Len(t, truth.elected(3, 0, 2, 0, true), 2)
	require.Empty(t, truth.elected(4, 0, 2, 3, false))
	require.Len(t, truth.elected(5, 0, 1, 0, false), 2, "the second was acknowledged, and committed")

	// An older epoch that begins late, on a log of its own, loses nothing of what the newer one has.
	truth = given(true)
	require.Len(t, truth.elected(1, 0, 1, 0, true), 3)
	require.Len(t, truth.elected(3, 0, 1, 0, false), 3)
}

// TestPublisher: what looks at publications notices each way in which one can be wrong (L2, L3).
func TestPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, Config{}.withDefaults())
		p := newPublisher(nil, &process{cluster: c})
		ids := &sealing{}
		event := func(sequence int64, stored bool) *metadata.Event {
			id, err := walstorage.NewSegmentID(1, 1, time.Now(), ids)
			require.NoError(t, err)
			e := &metadata.Event{Sequence: sequence, ObjectSize: 3}
			e.Segment.ID = id
			if stored {
				c.weather.store.Put(p.keys.Key(id), []byte("abc"), time.Now())
			}
			return e
		}
		first, second, third, lost := event(0, true), event(1, true), event(2, true), event(3, false)
		require.Empty(t, p.look(first))
		require.Empty(t, p.look(first), "an unknown outcome is settled by the same event again")
		require.Empty(t, p.look(third))
		require.Contains(t, p.look(second), "comes after", "not in the order of sealing")
		require.Contains(t, p.look(lost), "is not stored")
		again := event(0, true)
		require.Contains(t, p.look(again), "the sequence was that of")
		short := event(4, true)
		short.ObjectSize = 4
		require.Contains(t, p.look(short), "has 3 bytes")
		require.NotEqual(t, uuid.Nil, first.Segment.ID.UUID)
		c.cancel()
	})
}

// TestInstants: no two actors ever share an instant, nor two operations of one within fifty (D2).
func TestInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstants(1)
		taken := map[time.Duration]bool{}
		for n := range 100 {
			a := i.actor("actor %d", n)
			for op := range uint64(lanes) {
				at := a.due(op, a.chance.between(op, "latency", 0, 3*time.Millisecond))
				require.False(t, taken[at], "actor %d, operation %d", n, op)
				require.Positive(t, at)
				taken[at] = true
			}
		}
	})
}

// TestTrace: the order within an instant does not count, everything else does.
func TestTrace(t *testing.T) {
	hash := func(add func(tr *Trace, now *time.Duration)) uint64 {
		var now time.Duration
		tr := newTrace(func() time.Duration { return now })
		add(tr, &now)
		hash, _ := tr.Hash()
		return hash
	}
	one := hash(func(tr *Trace, _ *time.Duration) { tr.add("a", "x %d", 1); tr.add("b", "y") })
	require.Equal(t, one, hash(func(tr *Trace, _ *time.Duration) { tr.add("b", "y"); tr.add("a", "x %d", 1) }))
	require.NotEqual(t, one, hash(func(tr *Trace, _ *time.Duration) { tr.add("a", "x %d", 2); tr.add("b", "y") }))
	require.NotEqual(t, one, hash(func(tr *Trace, now *time.Duration) { tr.add("b", "y"); *now++; tr.add("a", "x %d", 1) }))
	require.NotEqual(t, one, hash(func(tr *Trace, _ *time.Duration) { tr.add("a", "x %d", 1) }))
}

// TestTwoStories: another seed is another story.
func TestTwoStories(t *testing.T) {
	one, _ := randomRun(t, 1).Hash()
	other, _ := randomRun(t, 2).Hash()
	require.NotEqual(t, one, other)
}
