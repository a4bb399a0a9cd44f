package leader_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/unifiedlog/memory"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

// Flush returns once everything that was notified before it is published, and not earlier: not when it is stored only.
func TestFlushWaitsForPublication(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		gate := make(chan struct{})
		g.publishFaults(func(memlog.PublishCall) memlog.PublishFault { return memlog.PublishFault{Wait: gate} })
		p := g.lead(0)
		p.append("a")
		flushed := make(chan error, 1)
		go func() { flushed <- g.up.Flush(g.ctx) }()
		time.Sleep(500 * time.Millisecond)
		assert.EqualValues(t, 1, g.up.Stats().Stored)
		assert.Empty(t, flushed)
		close(gate)
		require.NoError(t, <-flushed)
		p.requireWhole()
		// with nothing to do it returns at once
		start := time.Now()
		g.flush()
		assert.Zero(t, time.Since(start))
	})
}

// Flush ends under a load that never does, and does not cut the load into tiny segments meanwhile.
func TestFlushEndsUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		defer g.close()
		p, broken := g.lead(0), newScripted()
		_, err := broken.Lead(1)
		require.NoError(t, err)
		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
				}
				p.append("x")
				time.Sleep(100 * time.Microsecond)
			}
		}()
		time.Sleep(time.Second)
		start := time.Now()
		g.flush()
		assert.Less(t, time.Since(start), 50*time.Millisecond)

		// given a partition that cannot be read: Flush waits until it is read or skipped
		broken.script(func(s *scripted) {
			s.end = func() (int64, int32) { return 10, 1 }
			s.read = func(context.Context, int64, []byte) (int, error) { return 0, context.DeadlineExceeded }
		})
		_, err = g.up.Lead(partitionOf(1), 1, 0, broken)
		require.NoError(t, err)
		before, start := g.up.Stats(), time.Now()
		g.flush()
		took := time.Since(start)
		assert.Greater(t, took, 3*time.Second)
		assert.Less(t, took, 5*time.Second)
		segments := g.up.Stats().Sealed - before.Sealed
		assert.Less(t, segments, int64(took/(9*time.Millisecond)), "one per linger")
		close(stop)
		<-stopped
	})
}

// Flush ends with its context, and with Close.
func TestFlushEndsWithItsContextAndWithClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Delay: 300 * time.Millisecond} })
		p := g.lead(0)
		p.append("a")
		ctx, cancel := context.WithTimeout(g.ctx, 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, g.up.Flush(ctx), context.DeadlineExceeded)

		log := newScripted()
		log.script(func(s *scripted) {
			s.end = func() (int64, int32) { return 10, 1 }
			s.read = func(context.Context, int64, []byte) (int, error) { return 0, context.DeadlineExceeded }
		})
		_, err := g.up.Lead(partitionOf(1), 1, 0, log)
		require.NoError(t, err)
		flushed := make(chan error, 1)
		go func() { flushed <- g.up.Flush(g.ctx) }()
		time.Sleep(time.Millisecond)
		g.close()
		require.ErrorIs(t, <-flushed, leader.ErrClosed)
		require.ErrorIs(t, g.up.Flush(g.ctx), leader.ErrClosed)
		_, err = g.up.Lead(partitionOf(2), 1, 0, memory.New(memory.Config{}))
		require.ErrorIs(t, err, leader.ErrClosed)
		p.requireWhole() // what had been read went out
	})
}

// Close uploads and publishes what has been read, and reads nothing more.
func TestCloseHandsOverWhatHasBeenRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		p, q := g.lead(0), g.lead(1)
		p.append("read")
		time.Sleep(5 * time.Millisecond)
		q.append("not read")
		start := time.Now()
		g.close()
		assert.Less(t, time.Since(start), 20*time.Millisecond)
		p.requireWhole()
		assert.Empty(t, g.of(q))
		p.lead.Notify()
		p.lead.Resign()
		require.NoError(t, g.up.Close(context.Background()), "idempotent")
		assert.Zero(t, g.up.Stats().InFlight)
	})
}

// Close gives up what is left when its context ends, and says so.
func TestCloseGivesUpWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.failPuts()
		p := g.lead(0)
		p.append("a")
		time.Sleep(20 * time.Millisecond)
		p.append("b")
		time.Sleep(20 * time.Millisecond)
		ctx, cancel := context.WithTimeout(g.ctx, time.Second)
		defer cancel()
		start := time.Now()
		err := g.up.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, leader.ErrStuck)
		assert.Equal(t, time.Second, time.Since(start))
		given := seen(g, &g.given)
		require.Len(t, given, 2)
		s := g.up.Stats()
		assert.Equal(t, s.Sealed, s.Published+s.GivenUp)
		require.NoError(t, g.up.Close(context.Background()), "and by now it is closed")
		require.NoError(t, g.meta.Close())
		require.NoError(t, g.manager.Close())
	})
}

// Close returns although an upload ignores its context: StuckAfter after Close's own has ended, and says so. The buffer
// stays with the call (W5).
func TestCloseDoesNotWaitForeverForACallThatIgnoresItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.onPut(func(storemem.Call) storemem.Fault { return storemem.Fault{Hang: true} })
		p := g.lead(0)
		p.append("a")
		time.Sleep(20 * time.Millisecond)
		ctx, cancel := context.WithTimeout(g.ctx, time.Second)
		defer cancel()
		start := time.Now()
		err := g.up.Close(ctx)
		require.ErrorIs(t, err, leader.ErrStuck)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 6*time.Second, time.Since(start))
		g.driver.Release()
		synctest.Wait()
		require.NoError(t, g.up.Close(context.Background()))
		require.NoError(t, g.meta.Close())
		require.NoError(t, g.manager.Close())
	})
}

// Nothing holds up Close of an uploader that has nothing to do, or is fenced.
func TestCloseOfAnIdleOrFencedUploader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, nil)
		g.close()
		fenced := newRig(t, nil)
		fenced.publishFaults(func(memlog.PublishCall) memlog.PublishFault {
			return memlog.PublishFault{Err: metadata.ErrFenced}
		})
		p := fenced.lead(0)
		p.append("a")
		time.Sleep(time.Second)
		require.Error(t, fenced.up.Err())
		fenced.close()
	})
}
