package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/segment"
)

var kills = flag.Int("kills", 8, "how many times TestKill kills the leader")

// phases are the places where the leader is killed.
var phases = []string{
	"before fsync",   // the segment's bytes are written and not synced
	"before link",    // they are synced and have no name yet
	"before event",   // UploadSegment has returned, nothing is published
	"inside publish", // Publish has begun
}

// Jepsen on Bufstream 0.1.0, WarpStream on object cleanup, redpanda-data/redpanda#8959:
// given a leader that is a process of its own over plain files, and two followers here, when it is killed again and again
// in the midst of its work and comes back with the next broker and leader epoch, then no segment whose upload returned is
// lost or partial (W1, W3), and the followers converge on the leader's files, byte for byte (Q14: an orphan, never an
// event without its object).
//
// SIGKILL spares the page cache; that the calls stand in the right order for a power cut is asserted by package local.
func TestKill(t *testing.T) {
	require.Positive(t, *kills)
	dir := t.TempDir()
	for _, sub := range []string{"segments", "events", "leader"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	files := newLeaderFiles(t, dir)
	followers := []*killFollower{newKillFollower(t, dir, 1, files), newKillFollower(t, dir, 2, files)}
	stored := map[walstorage.SegmentID]bool{}
	reached := make([]int, len(phases))

	for i := range *kills {
		phase := i % len(phases)
		for _, f := range followers {
			f.follow(t, int32(i+1))
		}
		if runLeader(t, dir, i+1, phases[phase], 1+i*7%5, stored) {
			reached[phase]++
		}
	}
	for _, f := range followers {
		f.follow(t, int32(*kills+1))
	}
	require.False(t, runLeader(t, dir, *kills+1, "", 0, stored), "the last leader ends by itself")

	differences := 0
	for _, f := range followers {
		f.converge(t)
		for _, p := range killPartitions() {
			want, err := os.ReadFile(leaderFile(dir, p))
			require.NoError(t, err)
			if !bytes.Equal(want, f.logs[p.Key()].Bytes(0)) {
				differences++
			}
		}
		require.Positive(t, f.replicator.Stats().Batches, "something came through the store")
		f.close(t)
	}
	lost := lostSegments(t, dir, stored)
	require.NotEmpty(t, stored)

	total := 0
	for _, n := range reached {
		total += n
	}
	fmt.Printf("kill: %d kills, %d lost, %d differences, phases %s\n", total, lost, differences, strings.Trim(fmt.Sprint(reached), "[]"))
	require.Equal(t, *kills, total)
	require.Zero(t, lost)
	require.Zero(t, differences)
	if *kills >= len(phases) {
		require.NotContains(t, reached, 0)
	}
}

const killCluster = "kill"

// killPartitions are what the killed leader leads.
func killPartitions() (list []segment.TopicIDPartition) {
	for i := range int32(4) {
		list = append(list, segment.TopicIDPartition{TopicID: uuid.UUID{15: 1}, Topic: "killed", Partition: i})
	}
	return list
}

func leaderFile(dir string, p segment.TopicIDPartition) string {
	return filepath.Join(dir, "leader", p.String()+".log")
}

// runLeader runs the leader in an epoch until it has come to a phase for the nth time, and kills it there; with no phase
// it ends by itself. It notes the segments whose upload returned, and tells whether the leader was killed.
func runLeader(t *testing.T, dir string, epoch int, phase string, nth int, stored map[walstorage.SegmentID]bool) (killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), leaderEnv+"="+strings.Join([]string{dir, strconv.Itoa(epoch), phase, strconv.Itoa(nth)}, "|"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "stored":
			id, err := uuid.Parse(rest)
			require.NoError(t, err)
			stored[walstorage.SegmentID{BrokerID: 0, BrokerEpoch: int64(epoch), UUID: id}] = true
		case "at":
			require.Equal(t, phase, rest)
			killed = true
			require.NoError(t, cmd.Process.Kill())
		}
	}
	err = cmd.Wait()
	if !killed {
		require.NoError(t, err, "leader in epoch %d: %s", epoch, stderr.String())
	}
	return killed
}

// lostSegments counts the segments stored that are not there whole, and the segments there that are not whole.
func lostSegments(t *testing.T, dir string, stored map[walstorage.SegmentID]bool) (lost int) {
	t.Helper()
	ctx := context.Background()
	storage, err := local.New(ctx, local.Config{Root: filepath.Join(dir, "segments"), Store: objectstore.Config{Cluster: killCluster}})
	require.NoError(t, err)
	defer storage.Close()
	found := map[walstorage.SegmentID]bool{}
	for info, err := range storage.ListSegments(ctx, walstorage.ListOptions{}) {
		require.NoError(t, err)
		found[info.ID] = true
		object := make([]byte, info.Size)
		require.NoError(t, storage.FetchSegment(ctx, info.ID, 0, object))
		reader, err := segment.NewReader(object)
		if err != nil || reader.Metadata().ID != info.ID {
			t.Errorf("segment %s: %v", info.ID, err)
			lost++
			continue
		}
		for slice, err := range reader.All() {
			if err != nil {
				t.Errorf("segment %s, %s: %v", info.ID, slice.Partition, err)
				lost++
			}
		}
	}
	for id := range stored {
		if !found[id] {
			t.Errorf("segment %s was stored and is gone", id)
			lost++
		}
	}
	return lost
}

// killFollower is a follower in the test's own process.
type killFollower struct {
	files      *leaderFiles
	storage    *local.WalStorageManager
	events     *filelog.Log
	replicator *follower.Replicator
	logs       map[segment.PartitionKey]*memory.Log

	mu      sync.Mutex
	handles map[segment.PartitionKey]*follower.Following
	moved   chan struct{} // holds a token when something may have changed

	stop    context.CancelFunc
	watched sync.WaitGroup
}

func newKillFollower(t *testing.T, dir string, id int32, files *leaderFiles) *killFollower {
	t.Helper()
	ctx := context.Background()
	f := &killFollower{
		files: files, logs: map[segment.PartitionKey]*memory.Log{}, handles: map[segment.PartitionKey]*follower.Following{},
		moved: make(chan struct{}, 1),
	}
	var err error
	f.storage, err = local.New(ctx, local.Config{Root: filepath.Join(dir, "segments"), Store: objectstore.Config{Cluster: killCluster}})
	require.NoError(t, err)
	f.events, err = filelog.New(ctx, filelog.Config{Dir: filepath.Join(dir, "events"), Broker: id, BrokerEpoch: 1})
	require.NoError(t, err)
	f.replicator, err = follower.New(follower.Config{
		Storage: f.storage, Metadata: f.events, Leader: f, Cluster: killCluster,
		Hooks: follower.Hooks{
			StateChanged:  func(segment.TopicIDPartition, follower.State) { f.wake() },
			Appended:      func(follower.Appended) { f.wake() },
			LeaderFetched: func(follower.LeaderFetch) { f.wake() },
		},
	})
	require.NoError(t, err)
	for _, p := range killPartitions() {
		f.logs[p.Key()] = memory.New(memory.Config{})
	}
	// What a leader's answers would tell comes from its files.
	watch, cancel := context.WithCancel(ctx)
	f.stop = cancel
	f.watched.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-watch.Done():
				return
			case <-ticker.C:
			}
			f.mu.Lock()
			for _, p := range killPartitions() {
				if h := f.handles[p.Key()]; h != nil {
					h.Observe(f.files.end(p))
				}
			}
			f.mu.Unlock()
		}
	})
	return f
}

func (f *killFollower) wake() {
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

// follow follows every partition in the epoch and returns when all gates are open: what is appended from then on can come
// through the store.
func (f *killFollower) follow(t *testing.T, epoch int32) {
	t.Helper()
	for _, p := range killPartitions() {
		require.NoError(t, f.logs[p.Key()].Follow(epoch))
		h, err := f.replicator.Follow(p, 0, epoch, f.logs[p.Key()])
		require.NoError(t, err)
		f.mu.Lock()
		f.handles[p.Key()] = h
		f.mu.Unlock()
	}
	f.await(t, func() bool {
		for _, h := range f.handles {
			if h.State().Kind == follower.Starting {
				return false
			}
		}
		return true
	})
}

// converge waits until the follower has everything that the leader's files hold.
func (f *killFollower) converge(t *testing.T) {
	t.Helper()
	f.await(t, func() bool {
		for _, p := range killPartitions() {
			if end, _ := f.logs[p.Key()].End(); end < f.files.end(p) {
				return false
			}
		}
		return true
	})
}

// await waits until the condition holds, looking again whenever something has moved.
func (f *killFollower) await(t *testing.T, holds func() bool) {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !holds() {
		select {
		case <-f.moved:
		case <-limit.C:
			for _, h := range f.handles {
				t.Logf("%s: %s", h.Partition(), h.State())
			}
			t.Fatal("the follower does not get on")
		}
	}
}

func (f *killFollower) close(t *testing.T) {
	t.Helper()
	f.stop()
	f.watched.Wait()
	require.NoError(t, f.replicator.Close(context.Background()))
	require.NoError(t, f.events.Close())
	require.NoError(t, f.storage.Close())
}

// FetchFromLeader reads the leader's file.
func (f *killFollower) FetchFromLeader(ctx context.Context, p segment.TopicIDPartition, epoch int32, to int64) (int64, error) {
	log := f.logs[p.Key()]
	end, _ := log.End()
	batches, leo, err := f.files.read(p, end)
	if err != nil {
		return 0, err
	}
	if to < 0 {
		to = leo
	}
	n := 0 // the first batch, and those after it that begin below to
	for scan := batch.NewScanner(batches); scan.Next() && (n == 0 || scan.BaseOffset() < to); {
		n = scan.End()
	}
	if end >= to || n == 0 {
		return leo, nil
	}
	return leo, log.AppendAsFollower(ctx, epoch, end, batches[:n])
}

// leaderFiles reads the files that the leader appends to.
type leaderFiles struct {
	t     *testing.T
	dir   string
	mu    sync.Mutex
	tails map[segment.PartitionKey]*tail
}

// tail is how far a file has been looked at: whole batches alone.
type tail struct {
	size int64
	next int64
}

func newLeaderFiles(t *testing.T, dir string) *leaderFiles {
	return &leaderFiles{t: t, dir: dir, tails: map[segment.PartitionKey]*tail{}}
}

// end returns the leader's log end offset.
func (l *leaderFiles) end(p segment.TopicIDPartition) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tails[p.Key()]
	if at == nil {
		at = &tail{}
		l.tails[p.Key()] = at
	}
	file, err := os.Open(leaderFile(l.dir, p))
	if err != nil {
		return at.next // not created yet
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() <= at.size {
		return at.next
	}
	data := make([]byte, info.Size()-at.size)
	n, _ := file.ReadAt(data, at.size)
	whole, next := wholeBatches(data[:n], at.next)
	at.size, at.next = at.size+int64(len(whole)), next
	return at.next
}

// read returns the whole batches from the offset on, and the leader's log end offset.
func (l *leaderFiles) read(p segment.TopicIDPartition, from int64) (batches []byte, leo int64, err error) {
	data, err := os.ReadFile(leaderFile(l.dir, p))
	if os.IsNotExist(err) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	data, leo = wholeBatches(data, 0)
	for scan := batch.NewScanner(data); scan.Next(); {
		if scan.BaseOffset() >= from {
			return data[scan.Position():], leo, nil
		}
	}
	return nil, leo, nil
}
