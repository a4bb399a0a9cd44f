package follower_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// flipBit flips one bit of the only object stored, at rest.
func (g *rig) flipBit(bit int) {
	g.t.Helper()
	keys := g.driver.Store().Keys()
	require.Len(g.t, keys, 1)
	require.NoError(g.t, g.driver.Store().Damage(keys[0], func(data []byte) []byte {
		data[bit/8] ^= 1 << (bit % 8)
		return data
	}))
}

// forget deletes what is stored and ends what follows.
func (g *rig) forget(handles ...*follower.Following) {
	g.t.Helper()
	for _, f := range handles {
		f.Stop()
	}
	for _, key := range g.driver.Store().Keys() {
		g.driver.Store().Remove(key)
	}
}

// at100 follows the partition in epoch 5 with logs that begin at offset 100, where V1 does.
func (g *rig) at100(p segment.TopicIDPartition) (*memory.Log, *follower.Following) {
	g.t.Helper()
	g.mu.Lock()
	g.leaders[p.Key()] = memory.New(memory.Config{Start: 100})
	g.mu.Unlock()
	log := memory.New(memory.Config{Start: 100})
	return log, g.follow(p, 5, log)
}

// cannotUse demands that the partition stands at from, that nothing was appended, and that its state tells so with a typed
// error, which names the segment and the range.
func (g *rig) cannotUse(p segment.TopicIDPartition, log *memory.Log, f *follower.Following, id walstorage.SegmentID, from, to int64, bit int) {
	g.t.Helper()
	end, _ := log.End()
	require.Equal(g.t, from, end, "bit %d: the log's end has moved", bit)
	require.Zero(g.t, log.Size(), "bit %d: bytes were appended", bit)

	state := f.State()
	require.Equal(g.t, follower.Fallback, state.Kind, "bit %d", bit)
	require.Equal(g.t, follower.Corrupt, state.Reason, "bit %d: %v", bit, state.Err)
	require.Equal(g.t, [2]int64{from, to}, [2]int64{state.From, state.To}, "bit %d", bit)
	require.ErrorIs(g.t, state.Err, walstorage.ErrCorrupt, "bit %d", bit)
	var useless *follower.SegmentError
	require.ErrorAs(g.t, state.Err, &useless, "bit %d", bit)
	require.Equal(g.t, id, useless.Segment, "bit %d", bit)
	require.Equal(g.t, p, useless.Partition, "bit %d", bit)
	require.Equal(g.t, [2]int64{from, to}, [2]int64{useless.From, useless.To}, "bit %d", bit)
	require.ErrorContains(g.t, useless, id.String())
	require.ErrorContains(g.t, useless, fmt.Sprintf("[%d,%d) of %s", from, to, p))
}

// F3, W4, K3, and Jepsen on NATS 2.12.1: any single bit of a stored segment may flip. Nothing is appended, the log's end
// stays, the error names segment and range, and once the object is whole again the same event is enough. The leader can't
// be asked meanwhile: what is appended in the end comes from the store.
func TestEveryBitFlipAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		bits := 1
		for bit := 0; bit < bits; bit++ {
			// given a segment that holds V1, with one bit flipped
			p := partitionOf(int32(bit))
			g.fetcher.set(nil, false)
			log, f := g.at100(p)
			g.after(10 * time.Millisecond)
			g.fetcher.set(func(int) error { return errRefused }, false)
			object, event := g.seal(part{partition: p, bytes: batchtest.V1(), from: 100, epoch: 5, start: 100})
			bits = 8 * len(object)
			g.store(object, event)
			g.flipBit(bit)

			// when it is announced
			g.announce(event)
			g.after(100 * time.Millisecond)

			// then it is of no use
			g.cannotUse(p, log, f, event.Segment.ID, 100, 102, bit)
			require.EqualValues(t, bit, g.r.Stats().Appends)
			require.Len(t, g.fallbacks(), bit+1, "reported once")

			// and after the repair it is appended
			g.flipBit(bit)
			g.after(2 * time.Second)
			require.Equal(t, batchtest.V1(), log.Bytes(100), "bit %d", bit)
			require.Equal(t, follower.Replicating, f.State().Kind, "bit %d", bit)
			require.EqualValues(t, bit+1, g.r.Stats().Batches)
			g.forget(f)
		}
		require.Greater(t, bits, 8*len(batchtest.V1()))
	})
}

// F3: where several partitions share a segment, a bit that flips in one slice hurts that partition alone; one that flips
// in header, index or trailer hurts all of them, and none takes a byte that is not the leader's.
func TestEveryBitFlipOfASharedSegment(t *testing.T) {
	slices := [][]byte{batchtest.V1(), batchtest.V8(), batchtest.V7()}
	ends := []int64{102, 110, 102}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		bits := 1
		for bit := 0; bit < bits; bit++ {
			g.fetcher.set(nil, false)
			var logs []*memory.Log
			var handles []*follower.Following
			var parts []part
			for i, bytes := range slices {
				log, f := g.at100(partitionOf(int32(10*bit + i)))
				logs, handles = append(logs, log), append(handles, f)
				parts = append(parts, part{partition: partitionOf(int32(10*bit + i)), bytes: bytes, from: 100, epoch: 5, start: 100})
			}
			g.after(10 * time.Millisecond)
			g.fetcher.set(func(int) error { return errRefused }, false)
			object, event := g.seal(parts...)
			bits = 8 * len(object)
			g.store(object, event)
			g.flipBit(bit)
			g.announce(event)
			g.after(100 * time.Millisecond)

			position := segment.HeaderLength
			body := position + len(slices[0]) + len(slices[1]) + len(slices[2])
			for i, bytes := range slices {
				inFrame := bit/8 < segment.HeaderLength || bit/8 >= body
				if inFrame || bit/8 >= position && bit/8 < position+len(bytes) {
					g.cannotUse(partitionOf(int32(10*bit+i)), logs[i], handles[i], event.Segment.ID, 100, ends[i], bit)
				} else {
					require.Equal(t, bytes, logs[i].Bytes(100), "bit %d, slice %d", bit, i)
				}
				position += len(bytes)
			}

			g.flipBit(bit)
			g.after(2 * time.Second)
			for i, bytes := range slices {
				require.Equal(t, bytes, logs[i].Bytes(100), "bit %d, slice %d", bit, i)
			}
			g.forget(handles...)
		}
	})
}

// F3, and Jepsen on NATS 2.12.1: a stored segment that is cut off, wherever is corrupt and never short data; nothing of it is
// appended.
func TestEveryCutAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		size := 1
		for cut := 0; cut < size; cut++ {
			p := partitionOf(int32(cut))
			g.fetcher.set(nil, false)
			log, f := g.at100(p)
			g.after(10 * time.Millisecond)
			g.fetcher.set(func(int) error { return errRefused }, false)
			object, event := g.seal(part{partition: p, bytes: batchtest.V1(), from: 100, epoch: 5, start: 100})
			size = len(object)
			g.driver.Store().Put(g.keyOf(event.Segment.ID), object[:cut], time.Now())
			g.announce(event)
			g.after(100 * time.Millisecond)

			state := f.State()
			require.Equal(t, follower.Corrupt, state.Reason, "cut at %d: %v", cut, state.Err)
			var useless *follower.SegmentError
			require.ErrorAs(t, state.Err, &useless, "cut at %d", cut)
			require.Equal(t, event.Segment.ID, useless.Segment)
			require.Zero(t, log.Size(), "cut at %d", cut)
			g.forget(f)
		}
		require.Zero(t, g.r.Stats().Appends)
	})
}

// keyOf is where the segment is stored.
func (g *rig) keyOf(id walstorage.SegmentID) string {
	keys, err := walstorage.NewKeys("", cluster)
	require.NoError(g.t, err)
	return keys.Key(id)
}
