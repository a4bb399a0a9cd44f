package main

import (
	"context"
	"time"
)

// await waits until the condition holds, or the time is over, or ctx has ended. It looks again whenever something of the
// partition may have changed.
func (p *partition) await(ctx context.Context, limit time.Duration, holds func() bool) bool {
	return await(ctx, limit, []*partition{p}, holds)
}

func await(ctx context.Context, limit time.Duration, partitions []*partition, holds func() bool) bool {
	changed := make(chan struct{}, 1)
	for _, p := range partitions {
		p.watch(changed)
		defer p.unwatch(changed)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		if holds() {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return holds()
		case <-ctx.Done():
			return false
		}
	}
}
