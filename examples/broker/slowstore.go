package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// slowStore is a store with latencies added, and a switch that stops it. It is for measurements and tests.
type slowStore struct {
	walstorage.WalStorageManager
	put, get func(size int) time.Duration
	stopped  *atomic.Bool
}

var errStoreStopped = errors.New("the store has been stopped")

func (s slowStore) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	if err := s.wait(ctx, s.put, len(data)); err != nil {
		return err
	}
	return s.WalStorageManager.UploadSegment(ctx, id, data)
}

func (s slowStore) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) error {
	if err := s.wait(ctx, s.get, len(dst)); err != nil {
		return err
	}
	return s.WalStorageManager.FetchSegment(ctx, id, offset, dst)
}

func (s slowStore) wait(ctx context.Context, latency func(size int) time.Duration, size int) error {
	wait := time.Duration(0)
	if latency != nil {
		wait = latency(size)
	}
	stopped := s.stopped != nil && s.stopped.Load()
	if stopped {
		wait = time.Second // as long as the Manager tries
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if stopped {
		return walstorage.NewError(walstorage.ErrUnavailable, errStoreStopped)
	}
	return nil
}

// lognormal is the latency of a request to a store: a median and its spread, at least a millisecond, and a time for each
// MiB.
type lognormal struct {
	median, perMiB time.Duration
	sigma          float64
}

// The latencies of S3 Express One Zone, as far as they are known from outside; those of internal/sim.
var (
	s3ExpressPut = lognormal{median: 6500 * time.Microsecond, perMiB: 10 * time.Millisecond, sigma: 0.24}
	s3ExpressGet = lognormal{median: 2500 * time.Microsecond, perMiB: 2 * time.Millisecond, sigma: 0.57}
)

// from draws latencies from a generator of its own.
func (l lognormal) from(seed uint64) func(size int) time.Duration {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func(size int) time.Duration {
		mu.Lock()
		factor := math.Exp(l.sigma * random.NormFloat64())
		mu.Unlock()
		d := time.Duration(factor*float64(l.median)) + l.perMiB*time.Duration(size)/(1<<20)
		return max(d, time.Millisecond)
	}
}
