package leader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// BenchmarkNotify is the cost of a Notify on the append path while an earlier one is not yet served, beside its limit,
// one atomic load; and of one that finds the partition clean, which happens a few times per linger.
func BenchmarkNotify(b *testing.B) {
	b.Run("limit", func(b *testing.B) {
		var dirty atomic.Bool
		dirty.Store(true)
		for range b.N { // not b.Loop, which costs more than what is measured
			if !dirty.Load() {
				b.Fatal("not dirty")
			}
		}
	})
	b.Run("dirty", func(b *testing.B) {
		up := benchUploader(b, time.Second)
		lead, err := up.Lead(partitionOf(0), 1, 0, stillLog{})
		require.NoError(b, err)
		lead.Resign() // from here on it is dirty for ever
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			lead.Notify()
		}
	})
	b.Run("idle log", func(b *testing.B) {
		up := benchUploader(b, 10*time.Millisecond)
		lead, err := up.Lead(partitionOf(0), 1, 0, stillLog{})
		require.NoError(b, err)
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			lead.Notify()
		}
	})
}

// BenchmarkAssemble is a segment of 64 partitions from Notify to publication, over a store and a metadata log that do
// nothing: what the leader itself costs and allocates.
func BenchmarkAssemble(b *testing.B) {
	up := benchUploader(b, time.Hour)
	var leads []*leader.Leadership
	var logs []*memory.Log
	for i := range int32(64) {
		log := memory.New(memory.Config{})
		_, err := log.Lead(1)
		require.NoError(b, err)
		lead, err := up.Lead(partitionOf(i), 1, 0, log)
		require.NoError(b, err)
		leads, logs = append(leads, lead), append(logs, log)
	}
	batch := batchtest.Sized(0, 0, 4<<10, 'x')
	b.SetBytes(64 * 4 << 10)
	b.ReportAllocs()
	for b.Loop() {
		for i, log := range logs {
			if _, _, err := log.Append(context.Background(), 1, batch); err != nil {
				b.Fatal(err)
			}
			leads[i].Notify()
		}
		if err := up.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
