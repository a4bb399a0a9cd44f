package follower_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	leaderID   = int32(1)
	followerID = int32(2)
	cluster    = "test-cluster"
)

// partitionOf returns the partition p of one topic.
func partitionOf(p int32) segment.TopicIDPartition {
	return segment.TopicIDPartition{TopicID: uuid.UUID{15: 1}, Topic: "orders", Partition: p}
}

// rig is one follower, with a leader that the test plays: its logs are real, and publish does what an Uploader would.
type rig struct {
	t       *testing.T
	cfg     follower.Config
	driver  *storemem.Driver
	manager *objectstore.Manager
	topic   *memlog.Topic
	writer  *memlog.Log
	reader  *memlog.Log
	fetcher *leaderFetcher
	r       *follower.Replicator

	sequence int64
	random   *rand.ChaCha8
	leaders  map[segment.PartitionKey]*memory.Log

	mu       sync.Mutex
	states   []follower.State
	fetches  []follower.LeaderFetch
	appended []follower.Appended
	config   []error
}

// newRig returns a rig inside a bubble, with a replicator whose configuration change may alter.
func newRig(t *testing.T, change func(*follower.Config)) *rig {
	t.Helper()
	rig := &rig{t: t, random: rand.NewChaCha8([32]byte{7}), leaders: map[segment.PartitionKey]*memory.Log{}}
	var err error
	rig.manager, rig.driver, err = storemem.NewManager(objectstore.Config{Cluster: cluster})
	require.NoError(t, err)
	rig.topic, err = memlog.New(memlog.Config{})
	require.NoError(t, err)
	rig.writer, err = rig.topic.Open(memlog.Options{Broker: leaderID})
	require.NoError(t, err)
	rig.reader, err = rig.topic.Open(memlog.Options{Broker: followerID})
	require.NoError(t, err)
	rig.fetcher = &leaderFetcher{rig: rig, latency: 2 * time.Millisecond, logs: map[segment.PartitionKey]*memory.Log{}}
	rig.cfg = follower.Config{
		Storage: rig.manager, Metadata: rig.reader, Leader: rig.fetcher, Cluster: cluster,
		Hooks: follower.Hooks{
			StateChanged: func(_ segment.TopicIDPartition, s follower.State) {
				rig.mu.Lock()
				defer rig.mu.Unlock()
				rig.states = append(rig.states, s)
			},
			LeaderFetched: func(f follower.LeaderFetch) {
				rig.mu.Lock()
				defer rig.mu.Unlock()
				rig.fetches = append(rig.fetches, f)
			},
			Appended: func(a follower.Appended) {
				rig.mu.Lock()
				defer rig.mu.Unlock()
				rig.appended = append(rig.appended, a)
			},
			ConfigurationError: func(err error) {
				rig.mu.Lock()
				defer rig.mu.Unlock()
				rig.config = append(rig.config, err)
			},
		},
	}
	if change != nil {
		change(&rig.cfg)
	}
	rig.r, err = follower.New(rig.cfg)
	require.NoError(t, err)
	return rig
}

// close ends everything.
func (g *rig) close() {
	g.driver.Release()
	require.NoError(g.t, g.r.Close(context.Background()))
	require.NoError(g.t, g.reader.Close())
	require.NoError(g.t, g.writer.Close())
	require.NoError(g.t, g.manager.Close())
}

// leader returns the leader's log of a partition.
func (g *rig) leader(p segment.TopicIDPartition) *memory.Log {
	g.mu.Lock()
	defer g.mu.Unlock()
	log := g.leaders[p.Key()]
	if log == nil {
		log = memory.New(memory.Config{})
		g.leaders[p.Key()] = log
	}
	return log
}

// lead makes the partition's leader lead in the epoch.
func (g *rig) lead(p segment.TopicIDPartition, epoch int32) {
	g.t.Helper()
	_, err := g.leader(p).Lead(epoch)
	require.NoError(g.t, err)
}

// follow makes the partition's leader lead in the epoch and the follower follow it, with the log given.
func (g *rig) follow(p segment.TopicIDPartition, epoch int32, log *memory.Log) *follower.Following {
	g.t.Helper()
	if at, leads := g.leader(p).Epoch(); at != epoch || !leads {
		g.lead(p, epoch)
	}
	require.NoError(g.t, log.Follow(epoch))
	g.fetcher.mu.Lock()
	g.fetcher.logs[p.Key()] = log
	g.fetcher.mu.Unlock()
	f, err := g.r.Follow(p, leaderID, epoch, log)
	require.NoError(g.t, err)
	return f
}

// append appends n batches of one record to the leader's log and returns the range of offsets.
func (g *rig) append(p segment.TopicIDPartition, n int) (from, to int64) {
	g.t.Helper()
	epoch, _ := g.leader(p).Epoch()
	from, _ = g.leader(p).End()
	for range n {
		_, _, err := g.leader(p).Append(context.Background(), epoch, batchtest.Make(0, 0, "value"))
		require.NoError(g.t, err)
	}
	to, _ = g.leader(p).End()
	return from, to
}

// part is what one slice of a segment holds: the leader's batches of the offsets from to.
type part struct {
	partition segment.TopicIDPartition
	from, to  int64
	bytes     []byte // instead of the leader's, if not nil
	epoch     int32  // instead of the leader's, if not 0
	start     int64  // where that epoch began
}

// seal builds a segment of the parts, and its event.
func (g *rig) seal(parts ...part) ([]byte, *metadata.Event) {
	g.t.Helper()
	id, err := walstorage.NewSegmentID(leaderID, 0, time.Now(), g.random)
	require.NoError(g.t, err)
	object, md := g.build(cluster, id, parts...)
	return object, &metadata.Event{ObjectSize: int64(len(object)), Segment: *md}
}

// sealAs builds a segment of the cluster and id given.
func (g *rig) sealAs(cluster string, id walstorage.SegmentID, parts ...part) []byte {
	g.t.Helper()
	object, _ := g.build(cluster, id, parts...)
	return object
}

func (g *rig) build(cluster string, id walstorage.SegmentID, parts ...part) ([]byte, *segment.Metadata) {
	g.t.Helper()
	size := 1
	for i, p := range parts {
		if p.bytes == nil {
			parts[i].bytes = g.read(p.partition, p.from, p.to)
		}
		size += len(parts[i].bytes)
	}
	b, err := segment.NewBuilder(segment.BuilderConfig{Cluster: cluster, TargetBytes: size})
	require.NoError(g.t, err)
	for _, p := range parts {
		if p.epoch == 0 {
			p.epoch, _ = g.leader(p.partition).Epoch()
			p.start, _ = g.leader(p.partition).EpochStart(p.epoch)
		}
		copy(b.Buffer(len(p.bytes)), p.bytes)
		run := segment.Run{Partition: p.partition, LeaderEpoch: p.epoch, EpochStart: p.start, Base: p.from}
		appended, err := b.Append(run, len(p.bytes))
		require.NoError(g.t, err)
		require.Equal(g.t, len(p.bytes), appended.Bytes)
	}
	object, md, err := b.Seal(id, nil)
	require.NoError(g.t, err)
	return object, md.Clone()
}

// read returns the leader's batches of the offsets from to.
func (g *rig) read(p segment.TopicIDPartition, from, to int64) []byte {
	data := g.leader(p).Bytes(from)
	n := 0
	for n < len(data) && int64(binary.BigEndian.Uint64(data[n:])) < to {
		n += 12 + int(binary.BigEndian.Uint32(data[n+8:]))
	}
	return data[:n]
}

// store uploads the object.
func (g *rig) store(object []byte, event *metadata.Event) {
	g.t.Helper()
	require.NoError(g.t, g.manager.UploadSegment(context.Background(), event.Segment.ID, object))
}

// announce publishes the event with the next sequence.
func (g *rig) announce(event *metadata.Event) {
	g.t.Helper()
	event.Sequence = g.sequence
	g.sequence++
	_, err := g.writer.Publish(context.Background(), event)
	require.NoError(g.t, err)
}

// publish stores and announces a segment of the parts.
func (g *rig) publish(parts ...part) walstorage.SegmentID {
	g.t.Helper()
	object, event := g.seal(parts...)
	g.store(object, event)
	g.announce(event)
	return event.Segment.ID
}

// produce appends n batches and publishes them as one segment.
func (g *rig) produce(p segment.TopicIDPartition, n int) walstorage.SegmentID {
	g.t.Helper()
	from, to := g.append(p, n)
	return g.publish(part{partition: p, from: from, to: to})
}

// after lets virtual time pass.
func (g *rig) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// equal demands that the follower's log is the leader's, byte for byte.
func (g *rig) equal(p segment.TopicIDPartition, log *memory.Log) {
	g.t.Helper()
	want, _ := g.leader(p).End()
	got, _ := log.End()
	require.Equal(g.t, want, got, "log end")
	require.Equal(g.t, g.leader(p).Bytes(g.leader(p).Start()), log.Bytes(log.Start()))
}

// fallbacks returns the fallbacks reported.
func (g *rig) fallbacks() (states []follower.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.states {
		if s.Kind == follower.Fallback {
			states = append(states, s)
		}
	}
	return states
}

// ranges returns the FetchFromLeader calls made but the first of each handle.
func (g *rig) ranges() (ranges []follower.LeaderFetch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.fetches {
		if !f.First {
			ranges = append(ranges, f)
		}
	}
	return ranges
}

// report plays the broker's fetch requests: it shows the leader's log end to f every so often until the context ends.
func (g *rig) report(ctx context.Context, f *follower.Following, every time.Duration) {
	go func() {
		for {
			leo, _ := g.leader(f.Partition()).End()
			f.Observe(leo)
			if !sleep(ctx, every) {
				return
			}
		}
	}()
}

// leaderFetcher is the ordinary replica fetch as a broker does it: it asks at least once, truncates where the answer
// diverges, and returns nil only after an answer that did not.
type leaderFetcher struct {
	rig     *rig
	latency time.Duration

	mu    sync.Mutex
	logs  map[segment.PartitionKey]*memory.Log
	fail  func(call int) error // what happens to a call instead
	hang  bool
	calls int
	told  int64 // the leader's end that calls return instead, if not 0
	each  int   // batches after which a call returns, all if 0
}

// overtaken makes calls return an older end of the leader than it has by then.
func (l *leaderFetcher) overtaken(leaderLEO int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = leaderLEO
}

// count returns how many calls were made.
func (l *leaderFetcher) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

var errRefused = errors.New("leader refuses")

func (l *leaderFetcher) set(fail func(call int) error, hang bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail, l.hang = fail, hang
}

func (l *leaderFetcher) FetchFromLeader(ctx context.Context, p segment.TopicIDPartition, epoch int32, to int64) (int64, error) {
	l.mu.Lock()
	l.calls++
	call, fail, hang, each, log := l.calls, l.fail, l.hang, l.each, l.logs[p.Key()]
	l.mu.Unlock()
	if hang {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	leader := l.rig.leader(p)
	for {
		if !sleep(ctx, l.latency) {
			return 0, ctx.Err()
		}
		if fail != nil {
			if err := fail(call); err != nil {
				return 0, err
			}
		}
		end, lastEpoch := log.End()
		leo, _ := leader.End()
		if to < 0 {
			to = leo
		}
		diverging, err := leader.CheckFetch(end, lastEpoch)
		if err != nil {
			log.TruncateFullyAndStartAt(leader.Start())
			continue
		}
		if diverging != nil {
			log.TruncateDiverging(*diverging)
			continue
		}
		l.mu.Lock()
		if l.told > 0 {
			leo = l.told
		}
		l.mu.Unlock()
		if end >= to {
			return leo, nil
		}
		upTo := to
		if each > 0 {
			upTo = min(to, end+int64(each))
		}
		if err := log.AppendAsFollower(ctx, epoch, end, l.rig.read(p, end, upTo)); err != nil {
			return leo, err
		}
		if end, _ := log.End(); end >= upTo {
			return leo, nil
		}
	}
}

// sleep waits, and tells whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// reseal gives an object whose only slice has been changed the checksums that fit it, as a leader with such bytes in its
// log would have published it.
func (g *rig) reseal(object []byte, event *metadata.Event) ([]byte, *metadata.Event) {
	g.t.Helper()
	slice := &event.Segment.Topics[0].Slices[0]
	body := object[segment.HeaderLength : segment.HeaderLength+slice.Length]
	slice.CRC32C = crc32.Checksum(body, castagnoli)
	index, err := event.Segment.AppendBinary(nil)
	require.NoError(g.t, err)
	fresh := append([]byte(nil), object[:segment.HeaderLength+slice.Length]...)
	fresh = append(fresh, index...)
	crc := crc32.Update(crc32.Checksum(object[:segment.HeaderLength], castagnoli), castagnoli, index)
	fresh = binary.BigEndian.AppendUint32(fresh, uint32(len(index)))
	fresh = binary.BigEndian.AppendUint32(fresh, crc)
	fresh = append(fresh, object[len(object)-8:]...)
	event.ObjectSize = int64(len(fresh))
	return fresh, event
}

// damageNextGet flips one bit of the next segment fetched, on its way.
func (g *rig) damageNextGet(bit int64) {
	g.driver.Fault(storemem.Sequence("Get", storemem.Fault{FlipBit: bit}))
}

// getFails makes every fetch of a segment fail with an error of the kind until it is nil.
func (g *rig) getFails(kind error) {
	g.driver.Fault(func(call storemem.Call) storemem.Fault {
		if call.Method != "Get" || kind == nil {
			return storemem.Fault{}
		}
		return storemem.Fault{Err: walstorage.NewError(kind, errors.New("scripted"))}
	})
}
