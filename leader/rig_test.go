package leader_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
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
	cluster     = "test-cluster"
	broker      = int32(1)
	brokerEpoch = int64(7)
	putLatency  = 10 * time.Millisecond
)

// partitionOf returns partition p of one topic.
func partitionOf(p int32) segment.TopicIDPartition {
	return segment.TopicIDPartition{TopicID: uuid.UUID{15: 1}, Topic: "orders", Partition: p}
}

// rig is one leader over the real store manager, the reference driver and the reference metadata log.
type rig struct {
	t       *testing.T
	ctx     context.Context
	driver  *storemem.Driver
	manager *objectstore.Manager
	keys    walstorage.Keys
	topic   *memlog.Topic
	meta    *memlog.Log
	up      *leader.Uploader

	mu        sync.Mutex
	puts      func(storemem.Call) storemem.Fault // what else happens to a Put
	sealed    []leader.Sealed
	uploads   []leader.Upload
	published []leader.Published
	given     []leader.GivenUp
	skipped   []leader.Skipped
	failed    []failure
	recovered []segment.TopicIDPartition
	fenced    []error
	panics    []string
}

type failure struct {
	partition segment.TopicIDPartition
	err       error
}

// newRig returns a rig inside a bubble: every Put takes 10 ms, every Publish 1 ms. change may alter the configuration.
func newRig(t *testing.T, change func(*leader.Config)) *rig {
	t.Helper()
	g := &rig{t: t, ctx: t.Context()}
	var err error
	g.manager, g.driver, err = storemem.NewManager(objectstore.Config{Cluster: cluster})
	require.NoError(t, err)
	g.keys, err = walstorage.NewKeys("", cluster)
	require.NoError(t, err)
	g.driver.Fault(func(call storemem.Call) storemem.Fault {
		var fault storemem.Fault
		if call.Method == "Put" {
			g.mu.Lock()
			puts := g.puts
			g.mu.Unlock()
			if puts != nil {
				fault = puts(call)
			}
			fault.Delay += putLatency
		}
		return fault
	})
	g.topic, err = memlog.New(memlog.Config{})
	require.NoError(t, err)
	g.meta, err = g.topic.Open(memlog.Options{Broker: broker, BrokerEpoch: brokerEpoch})
	require.NoError(t, err)
	g.publishFaults(nil)
	cfg := leader.Config{
		Storage: g.manager, Metadata: g.meta, Cluster: cluster, Broker: broker, BrokerEpoch: brokerEpoch,
		Random: rand.NewChaCha8([32]byte{1}),
		Hooks: leader.Hooks{
			SegmentSealed:   func(s leader.Sealed) { keep(g, &g.sealed, s) },
			UploadDone:      func(u leader.Upload) { keep(g, &g.uploads, u) },
			Published:       func(p leader.Published) { keep(g, &g.published, p) },
			GivenUp:         func(u leader.GivenUp) { keep(g, &g.given, u) },
			Skipped:         func(s leader.Skipped) { keep(g, &g.skipped, s) },
			PartitionFailed: func(p segment.TopicIDPartition, _ int32, err error) { keep(g, &g.failed, failure{p, err}) },
			PartitionRecovered: func(p segment.TopicIDPartition, _ int32) {
				keep(g, &g.recovered, p)
			},
			Fenced: func(err error) { keep(g, &g.fenced, err) },
			Panic:  func(where string, value any) { keep(g, &g.panics, fmt.Sprintf("%s: %v", where, value)) },
		},
	}
	if change != nil {
		change(&cfg)
	}
	g.up, err = leader.New(cfg)
	require.NoError(t, err)
	return g
}

func keep[T any](g *rig, list *[]T, item T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*list = append(*list, item)
}

// seen returns a copy of what a hook was called with so far.
func seen[T any](g *rig, list *[]T) []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(*list)
}

// onPut sets what happens to each Put from now on, beside its latency; nil is nothing.
func (g *rig) onPut(puts func(storemem.Call) storemem.Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.puts = puts
}

// failPuts makes every Put fail from now on with a retryable error: the store is down.
func (g *rig) failPuts() {
	g.onPut(func(storemem.Call) storemem.Fault {
		return storemem.Fault{Err: walstorage.NewError(walstorage.ErrUnavailable, nil)}
	})
}

// publishFaults sets what happens to each Publish from now on, beside its latency; nil is nothing.
func (g *rig) publishFaults(decide func(memlog.PublishCall) memlog.PublishFault) {
	g.meta.SetFaults(memlog.Faults{Publish: func(call memlog.PublishCall) memlog.PublishFault {
		fault := memlog.PublishFault{}
		if decide != nil {
			fault = decide(call)
		}
		fault.Delay += time.Millisecond
		return fault
	}})
}

// close ends everything; what has been read is uploaded and published.
func (g *rig) close() {
	g.t.Helper()
	g.driver.Release()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(g.t, g.up.Close(ctx))
	require.NoError(g.t, g.meta.Close())
	require.NoError(g.t, g.manager.Close())
}

// flush returns when everything notified is published or given up.
func (g *rig) flush() {
	g.t.Helper()
	require.NoError(g.t, g.up.Flush(g.ctx))
}

// part is one partition that the rig's broker leads.
type part struct {
	g     *rig
	tp    segment.TopicIDPartition
	log   *memory.Log
	lead  *leader.Leadership
	epoch int32
}

// lead begins to lead partition p over an empty log in epoch 1.
func (g *rig) lead(p int32) *part {
	g.t.Helper()
	return g.leadLog(partitionOf(p), memory.New(memory.Config{}), 1)
}

// leadLog begins to lead a partition from the end of its log on.
func (g *rig) leadLog(tp segment.TopicIDPartition, log *memory.Log, epoch int32) *part {
	g.t.Helper()
	start, err := log.Lead(epoch)
	require.NoError(g.t, err)
	lead, err := g.up.Lead(tp, epoch, start, log)
	require.NoError(g.t, err)
	return &part{g: g, tp: tp, log: log, lead: lead, epoch: epoch}
}

// append appends one batch with a record of each value, and notifies.
func (p *part) append(values ...string) {
	p.g.t.Helper()
	p.appendBatch(batchtest.Make(0, 0, values...))
}

// appendSized appends one batch of size bytes, and notifies.
func (p *part) appendSized(size int) {
	p.g.t.Helper()
	p.appendBatch(batchtest.Sized(0, 0, size, 'x'))
}

func (p *part) appendBatch(b []byte) {
	p.g.t.Helper()
	_, _, err := p.log.Append(p.g.ctx, p.epoch, b)
	require.NoError(p.g.t, err)
	p.lead.Notify()
}

// slice is one slice as a reader of the metadata log and the store finds it.
type slice struct {
	segment.Slice
	tp       segment.TopicIDPartition
	id       walstorage.SegmentID
	sequence int64
	data     []byte
}

// events returns the events in the metadata log, in its order.
func (g *rig) events() []*metadata.Event { return g.topic.Events() }

// slices returns every slice that a reader finds, in the order of the metadata log. Each event names an object that is
// stored and whole, says what the object says of itself (L2), and its slices are intact.
func (g *rig) slices() []slice {
	g.t.Helper()
	var all []slice
	ids := map[walstorage.SegmentID]bool{}
	for _, e := range g.events() {
		if ids[e.Segment.ID] {
			continue // a repetition, which readers drop by the segment id
		}
		ids[e.Segment.ID] = true
		object, ok := g.driver.Store().Object(g.keys.Key(e.Segment.ID))
		require.True(g.t, ok, "event %d names a segment that is not stored: L2", e.Sequence)
		require.Len(g.t, object, int(e.ObjectSize))
		require.NoError(g.t, segment.VerifyObject(&e.Segment, object))
		r, err := segment.NewReader(object)
		require.NoError(g.t, err)
		for s, err := range r.All() {
			require.NoError(g.t, err)
			all = append(all, slice{Slice: *s.Slice, tp: s.Partition, id: e.Segment.ID, sequence: e.Sequence, data: bytes.Clone(s.Data)})
		}
	}
	return all
}

// of returns the slices of one partition.
func (g *rig) of(p *part) []slice {
	g.t.Helper()
	return slices.DeleteFunc(g.slices(), func(s slice) bool { return s.tp.Key() != p.tp.Key() })
}

// requireWhole asserts that the slices of the partition in its epoch are one run without a gap, byte for byte what the
// log holds from the epoch's start to its end.
func (p *part) requireWhole() {
	p.g.t.Helper()
	start, ok := p.log.EpochStart(p.epoch)
	require.True(p.g.t, ok)
	next, data := start, []byte(nil)
	for _, s := range p.g.of(p) {
		if s.LeaderEpoch != p.epoch {
			continue
		}
		require.Equal(p.g.t, next, s.BaseOffset, "slices of a run follow each other: S4")
		next, data = s.LastOffset+1, append(data, s.data...)
	}
	end, _ := p.log.End()
	require.Equal(p.g.t, end, next, "everything is published")
	require.Equal(p.g.t, p.log.Bytes(start), data)
}

// sequences returns the sequences in the metadata log, in its order.
func (g *rig) sequences() []int64 {
	var all []int64
	for _, e := range g.events() {
		all = append(all, e.Sequence)
	}
	return all
}

// upTo returns 0 to n-1.
func upTo(n int) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i)
	}
	return all
}

// bubble runs a test under virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
