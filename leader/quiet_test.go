package leader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
)

// lines is a writer that keeps what a logger writes.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) all() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Split(bytes.TrimSpace(bytes.Clone(l.buf.Bytes())), []byte("\n"))
}

// An outage of a minute under load is a handful of lines for the operator: what changed, and that it changed back.
func TestOneLogLinePerChangeOfState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := &lines{}
		g := newRig(t, func(c *leader.Config) {
			c.Logger, c.TargetBytes = slog.New(slog.NewTextHandler(out, nil)), 4<<10
		})
		defer g.close()
		var parts []*part
		for i := range int32(20) {
			parts = append(parts, g.lead(i))
		}
		load := func(ticks int) {
			for range ticks {
				for _, p := range parts {
					p.appendSized(500)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		load(20)
		g.failPuts()
		load(1200)
		g.onPut(nil)
		load(200)
		g.flush()

		var said []string
		for _, line := range out.all() {
			_, rest, _ := bytes.Cut(line, []byte("msg="))
			said = append(said, string(bytes.SplitN(rest, []byte(`" `), 2)[0]))
		}
		assert.ElementsMatch(t, []string{ // the first two happen in one instant
			`"uploads fail`, `"partitions skip forward, the first`, `"uploads work again"`, `"partitions skip no longer"`,
		}, said)
		assert.NotEmpty(t, seen(g, &g.given))
	})
}

// fixedLog is a log of equal batches that exist only when they are read: reading and appending allocate nothing.
type fixedLog struct {
	batch []byte
	end   atomic.Int64
}

func (f *fixedLog) Start() int64        { return 0 }
func (f *fixedLog) End() (int64, int32) { return f.end.Load(), 1 }
func (f *fixedLog) Read(_ context.Context, offset int64, dst []byte) (n int, err error) {
	for end := f.end.Load(); offset < end && len(dst)-n >= len(f.batch); offset++ {
		copy(dst[n:], f.batch)
		binary.BigEndian.PutUint64(dst[n:], uint64(offset))
		n += len(f.batch)
	}
	if n == 0 && offset < f.end.Load() {
		return 0, &leader.ShortBufferError{Need: len(f.batch)}
	}
	return n, nil
}

// What a segment costs in allocations does not depend on how many partitions and batches are in it.
func TestNothingIsAllocatedPerSliceOrBatch(t *testing.T) {
	if scale > 1 {
		t.Skip("the race detector allocates by itself")
	}
	allocations := func(partitions, batches int) float64 {
		up, err := leader.New(leader.Config{Storage: nullStore{}, Metadata: nullLog{}, Cluster: cluster, Linger: 10 * time.Second})
		require.NoError(t, err)
		defer func() { require.NoError(t, up.Close(context.Background())) }()
		logs, leads := make([]*fixedLog, partitions), make([]*leader.Leadership, partitions)
		for i := range logs {
			logs[i] = &fixedLog{batch: batchtest.Sized(0, 1, 200, 'x')}
			leads[i], err = up.Lead(partitionOf(int32(i)), 1, 0, logs[i])
			require.NoError(t, err)
		}
		segment := func() {
			for i, log := range logs {
				log.end.Add(int64(batches))
				leads[i].Notify()
			}
			require.NoError(t, up.Flush(context.Background()))
		}
		for range 20 {
			segment()
		}
		return testing.AllocsPerRun(50, segment)
	}
	few, many := allocations(2, 1), allocations(64, 10)
	assert.InDelta(t, few, many, 4, "2 slices of 1 batch: %v, 64 slices of 10: %v", few, many)
	assert.Less(t, many, 40.0)
}
