package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// What RunBenchmarks stores at once at most, so that it needs little room on a store however long it runs.
const (
	benchBytes    = 64 << 20
	benchSegments = 256
	// benchCallers is the number of calls under way in a parallel benchmark, for each processor: stores are far away.
	benchCallers = 8
	// benchListed is the length of the list that is measured.
	benchListed = 100
)

// benchSizes are the sizes of segments in bytes: from a leader that idles to one under load.
var benchSizes = []struct {
	name  string
	bytes int
}{
	{"4KiB", 4 << 10}, {"100KiB", 100 << 10}, {"256KiB", 256 << 10}, {"1MiB", 1 << 20},
}

// RunBenchmarks measures a store, as sub-benchmarks of b: Upload and Fetch of segments of 4 KiB, 100 KiB, 256 KiB and
// 1 MiB; Stat, Delete and List (of 100 segments), which move no segment, for those of 4 KiB; each serial, one call after
// another, and parallel, with eight calls under way for each processor. It reports bytes a second, where bytes are moved,
// and allocations. Of cfg it uses Driver or Open, MaxObjectSize (sizes above it are left out), Seed and nothing else.
//
// Not more than 64 MiB or 256 segments are stored at a time, whatever -benchtime says: what is stored is deleted in
// between, which is not measured, and at the end, and a segment that is left fails the benchmark. A benchmark proves
// nothing of a store: that is what Run is for.
func RunBenchmarks(b *testing.B, cfg Config) {
	b.Helper()
	cfg, err := cfg.check()
	if err != nil {
		b.Fatal(err)
	}
	var suffix [8]byte
	_, _ = rand.Read(suffix[:]) // never fails
	at := place{prefix: "walhop-conformance/bench-" + hex.EncodeToString(suffix[:]), cluster: "conformance"}
	m, err := cfg.construct(b, at.config())
	if err != nil {
		b.Fatal(err)
	}
	bench := &bench{manager: m, random: newRandom(cfg.Seed, "bench")}
	defer bench.end(b)
	for _, size := range benchSizes {
		if cfg.MaxObjectSize > 0 && int64(size.bytes) > cfg.MaxObjectSize {
			continue
		}
		b.Run("Upload/"+size.name, func(b *testing.B) { bench.upload(b, size.bytes) })
		b.Run("Fetch/"+size.name, func(b *testing.B) { bench.fetch(b, size.bytes) })
	}
	b.Run("Stat", bench.stat)
	b.Run("Delete", bench.delete)
	b.Run(fmt.Sprintf("List%d", benchListed), bench.list)
}

// bench is a store under measurement.
type bench struct {
	manager walstorage.WalStorageManager
	random  interface{ Read(p []byte) (int, error) }
}

// end checks that nothing is left, and closes the store.
func (m *bench) end(b *testing.B) {
	for info, err := range m.manager.ListSegments(context.Background(), walstorage.ListOptions{}) {
		if err != nil {
			b.Errorf("listing what is left: %v", err)
			break
		}
		b.Errorf("left behind: segment %s", info.ID)
	}
	if err := m.manager.Close(); err != nil {
		b.Errorf("Close: %v", err)
	}
}

// bytes returns n bytes that do not compress.
func (m *bench) bytes(n int) []byte {
	data := make([]byte, n)
	_, _ = m.random.Read(data) // never fails
	return data
}

// round is how many segments of a size may be stored at once.
func round(size int) int { return min(benchSegments, benchBytes/size) }

// upload measures UploadSegment.
func (m *bench) upload(b *testing.B, size int) {
	data := m.bytes(size)
	m.rounds(b, size, true, nil, func(ctx context.Context, id walstorage.SegmentID) error {
		return m.manager.UploadSegment(ctx, id, data)
	}, m.clear)
}

// delete measures DeleteSegments of one.
func (m *bench) delete(b *testing.B) {
	size := benchSizes[0].bytes
	data := m.bytes(size)
	m.rounds(b, size, false, func(b *testing.B, ids []walstorage.SegmentID) { m.fill(b, ids, data) }, func(ctx context.Context, id walstorage.SegmentID) error {
		return m.manager.DeleteSegments(ctx, id)
	}, nil)
}

// fetch measures FetchSegment of whole segments.
func (m *bench) fetch(b *testing.B, size int) {
	data := m.bytes(size)
	ids := newBenchIDs(b, min(round(size), 2*benchCallers*runtime.GOMAXPROCS(0)))
	m.fill(b, ids, data)
	defer m.clear(b, ids)
	m.calls(b, int64(size), func(n int64, dst []byte) error {
		err := m.manager.FetchSegment(b.Context(), ids[n%int64(len(ids))], 0, dst)
		if err == nil && n == 0 && !bytes.Equal(data, dst) {
			err = fmt.Errorf("other bytes than were stored")
		}
		return err
	})
}

// stat measures StatSegment.
func (m *bench) stat(b *testing.B) {
	ids := newBenchIDs(b, benchListed)
	m.fill(b, ids, m.bytes(benchSizes[0].bytes))
	defer m.clear(b, ids)
	m.calls(b, 0, func(n int64, _ []byte) error {
		_, err := m.manager.StatSegment(b.Context(), ids[n%int64(len(ids))])
		return err
	})
}

// list measures a whole list.
func (m *bench) list(b *testing.B) {
	ids := newBenchIDs(b, benchListed)
	m.fill(b, ids, m.bytes(benchSizes[0].bytes))
	defer m.clear(b, ids)
	m.calls(b, 0, func(int64, []byte) error {
		listed := 0
		for _, err := range m.manager.ListSegments(b.Context(), walstorage.ListOptions{}) {
			if err != nil {
				return err
			}
			listed++
		}
		if listed < len(ids) {
			return fmt.Errorf("%d segments listed instead of %d", listed, len(ids))
		}
		return nil
	})
}

// calls measures a call that stores and deletes nothing. n numbers the calls of one benchmark, and dst is the caller's.
func (m *bench) calls(b *testing.B, size int64, call func(n int64, dst []byte) error) {
	b.Run("serial", func(b *testing.B) {
		dst := make([]byte, size)
		b.SetBytes(size)
		b.ReportAllocs()
		var n int64
		for b.Loop() {
			if err := call(n, dst); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		b.SetParallelism(benchCallers)
		buffers := make(chan []byte, benchCallers*runtime.GOMAXPROCS(0))
		for range cap(buffers) {
			buffers <- make([]byte, size)
		}
		var numbers atomic.Int64
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			dst := <-buffers
			for pb.Next() {
				if err := call(numbers.Add(1)-1, dst); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// rounds measures a call that stores or deletes one segment: in rounds, between which the clock stands still while before
// makes and after removes what is stored. Either may be nil. moves says that the call moves the segment's bytes.
func (m *bench) rounds(b *testing.B, size int, moves bool, before func(*testing.B, []walstorage.SegmentID), call func(context.Context, walstorage.SegmentID) error,
	after func(*testing.B, []walstorage.SegmentID),
) {
	for _, mode := range []struct {
		name    string
		callers int
	}{{"serial", 1}, {"parallel", benchCallers * runtime.GOMAXPROCS(0)}} {
		b.Run(mode.name, func(b *testing.B) {
			if moves {
				b.SetBytes(int64(size))
			}
			b.ReportAllocs()
			b.StopTimer()
			for done := 0; done < b.N; {
				ids := newBenchIDs(b, min(round(size), b.N-done))
				done += len(ids)
				if before != nil {
					before(b, ids)
				}
				b.StartTimer()
				err := each(ids, mode.callers, func(id walstorage.SegmentID) error { return call(b.Context(), id) })
				b.StopTimer()
				if after != nil {
					after(b, ids)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// each makes one call for each id, at most callers at once, and returns one of the errors.
func each(ids []walstorage.SegmentID, callers int, call func(walstorage.SegmentID) error) error {
	if callers == 1 {
		for _, id := range ids {
			if err := call(id); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	for range min(callers, len(ids)) {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(ids)) && failed.Load() == nil; n = next.Add(1) - 1 {
				if err := call(ids[n]); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fill stores data under each id.
func (m *bench) fill(b *testing.B, ids []walstorage.SegmentID, data []byte) {
	if err := each(ids, benchCallers, func(id walstorage.SegmentID) error { return m.manager.UploadSegment(b.Context(), id, data) }); err != nil {
		m.clear(b, ids)
		b.Fatal(err)
	}
}

// clear deletes the ids.
func (m *bench) clear(b *testing.B, ids []walstorage.SegmentID) {
	if err := m.manager.DeleteSegments(context.Background(), ids...); err != nil {
		b.Errorf("deleting what was stored: %v", err)
	}
}

func newBenchIDs(b *testing.B, n int) []walstorage.SegmentID {
	ids := make([]walstorage.SegmentID, n)
	for i := range ids {
		id, err := walstorage.NewSegmentID(1, 0, time.Now(), rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = id
	}
	return ids
}
