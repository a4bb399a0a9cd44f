package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// leaderEnv makes the test binary run as the leader that TestKill kills.
const leaderEnv = "QUICKSTART_LEADER"

func TestMain(m *testing.M) {
	if arguments := os.Getenv(leaderEnv); arguments != "" {
		if err := leaderMain(strings.Split(arguments, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// leaderMain leads all partitions over plain files until it has come to the phase for the nth time; there it says so and
// waits to be killed. Without a phase it appends some batches, has them published, and ends.
func leaderMain(arguments []string) error {
	dir, phase := arguments[0], arguments[2]
	epoch, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	nth, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	stop := &stopper{phase: phase, nth: int32(nth)}
	root := filepath.Join(dir, "segments")
	real, err := local.NewFS(root)
	if err != nil {
		return err
	}
	defer real.Close()
	storage, err := local.New(ctx, local.Config{Root: root, FS: stoppingFS{FS: real, stop: stop}, Store: objectstore.Config{Cluster: killCluster}})
	if err != nil {
		return err
	}
	defer storage.Close()
	events, err := filelog.New(ctx, filelog.Config{Dir: filepath.Join(dir, "events"), Broker: 0, BrokerEpoch: int64(epoch)})
	if err != nil {
		return err
	}
	defer events.Close()
	uploader, err := leader.New(leader.Config{
		Storage: stoppingStorage{WalStorageManager: storage, stop: stop}, Metadata: stoppingLog{Log: events, stop: stop},
		Cluster: killCluster, Broker: 0, BrokerEpoch: int64(epoch), Linger: 3 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	var logs []*plainLog
	var leaderships []*leader.Leadership
	for _, p := range killPartitions() {
		log, err := openPlainLog(leaderFile(dir, p))
		if err != nil {
			return err
		}
		start, _ := log.End()
		leadership, err := uploader.Lead(p, int32(epoch), start, log)
		if err != nil {
			return err
		}
		logs, leaderships = append(logs, log), append(leaderships, leadership)
	}

	stop.armed.Store(phase != "")
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for n := 0; phase != "" || n < 50; n++ {
		value := strings.Repeat(string(rune('a'+n%26)), 100)
		values := []string{value, value, value}
		for i, log := range logs {
			if err := log.append(int32(epoch), batchtest.Make(0, 0, values[:1+n%3]...)); err != nil {
				return err
			}
			leaderships[i].Notify()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("nobody killed the leader")
		}
	}
	if err := uploader.Flush(ctx); err != nil {
		return err
	}
	return uploader.Close(ctx)
}

// stopper holds the process at a place.
type stopper struct {
	phase string
	nth   int32
	armed atomic.Bool
	count atomic.Int32
}

// at announces the place and never returns, if it is the one to be killed at.
func (s *stopper) at(phase string) {
	if s.announce(phase) {
		select {}
	}
}

// announce tells the test to kill, if this is the place, and tells whether it was.
func (s *stopper) announce(phase string) bool {
	if !s.armed.Load() || phase != s.phase || s.count.Add(1) != s.nth {
		return false
	}
	fmt.Println("at " + phase)
	return true
}

// stoppingFS stops before an fsync of a segment and before a link.
type stoppingFS struct {
	local.FS
	stop *stopper
}

func (f stoppingFS) Create(name string, perm fs.FileMode) (local.File, error) {
	file, err := f.FS.Create(name, perm)
	if err != nil {
		return nil, err
	}
	return stoppingFile{File: file, stop: f.stop}, nil
}

func (f stoppingFS) Link(oldname, newname string) error {
	f.stop.at(phases[1])
	return f.FS.Link(oldname, newname)
}

type stoppingFile struct {
	local.File
	stop *stopper
}

func (f stoppingFile) Sync() error {
	f.stop.at(phases[0])
	return f.File.Sync()
}

// stoppingStorage tells the test what is stored, and stops when an upload has returned.
type stoppingStorage struct {
	walstorage.WalStorageManager
	stop *stopper
}

func (s stoppingStorage) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	err := s.WalStorageManager.UploadSegment(ctx, id, data)
	if err == nil {
		fmt.Println("stored " + id.UUID.String())
		s.stop.at(phases[2])
	}
	return err
}

// stoppingLog has itself killed while it publishes: somewhere between the beginning of the call and its return.
type stoppingLog struct {
	metadata.Log
	stop *stopper
}

func (l stoppingLog) Publish(ctx context.Context, events ...*metadata.Event) (int, error) {
	last := l.stop.announce(phases[3])
	stored, err := l.Log.Publish(ctx, events...)
	if last {
		select {}
	}
	return stored, err
}

// plainLog is a partition's log in one append-only file of batches: about the least that can lead.
type plainLog struct {
	file *os.File

	mu        sync.Mutex
	positions []position // of each batch
	size      int64
	next      int64
	epoch     int32
}

type position struct{ base, at int64 }

// openPlainLog opens the file, or makes it, and drops a torn tail.
func openPlainLog(name string) (*plainLog, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	l := &plainLog{file: file, epoch: -1}
	whole, _ := wholeBatches(data, 0)
	for scan := batch.NewScanner(whole); scan.Next(); {
		l.note(scan.Header())
	}
	return l, file.Truncate(l.size)
}

func (l *plainLog) note(h *batch.Header) {
	l.positions = append(l.positions, position{base: h.BaseOffset, at: l.size})
	l.size += int64(h.Length)
	l.next = h.NextOffset()
	l.epoch = h.LeaderEpoch
}

// append gives the batch its offset and epoch and writes it.
func (l *plainLog) append(epoch int32, b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch.Assign(b, l.next, epoch)
	header, err := batch.ParseHeader(b)
	if err != nil {
		return err
	}
	if _, err := l.file.WriteAt(b, l.size); err != nil {
		return err
	}
	l.note(&header)
	return nil
}

func (l *plainLog) Start() int64 { return 0 }

func (l *plainLog) End() (int64, int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next, l.epoch
}

func (l *plainLog) Read(_ context.Context, offset int64, dst []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := 0
	for first < len(l.positions) && l.positions[first].base < offset {
		first++
	}
	if first == len(l.positions) {
		if offset < l.next {
			return 0, leader.ErrInsideBatch
		}
		return 0, nil
	}
	begin, end := l.positions[first].at, l.positions[first].at
	for i := first; i < len(l.positions); i++ {
		after := l.size
		if i+1 < len(l.positions) {
			after = l.positions[i+1].at
		}
		if after-begin > int64(len(dst)) {
			break
		}
		end = after
	}
	if end == begin {
		after := l.size
		if first+1 < len(l.positions) {
			after = l.positions[first+1].at
		}
		return 0, &leader.ShortBufferError{Need: int(after - begin)}
	}
	return l.file.ReadAt(dst[:end-begin], begin)
}

// wholeBatches returns the whole batches with right checksums at the beginning of data, and the offset after them, which
// is next if there is none.
func wholeBatches(data []byte, next int64) ([]byte, int64) {
	n := 0
	for scan := batch.NewScanner(data); scan.Next() && batch.VerifyCRC(scan.Bytes()) == nil; {
		n, next = scan.End(), scan.LastOffset()+1
	}
	return data[:n], next
}
