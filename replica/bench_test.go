package replica_test

import (
	"testing"
	"time"

	"github.com/walhop/walhop/replica"
)

// fixed answers every report in the same way.
type fixed struct{}

func (fixed) Check(_ int32, _ int64, r replica.Report) (replica.Answer, error) {
	return replica.Answer{LeaderEpoch: 5, LeaderLEO: r.LogEndOffset + 1, HighWatermark: r.Known.HighWatermark}, nil
}

// BenchmarkMoved is what each append of the leader pays, with two followers of ten thousand partitions each.
func BenchmarkMoved(b *testing.B) {
	tracker, err := replica.NewTracker(replica.TrackerConfig{Partitions: fixed{}, StallAfter: 10 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	defer tracker.Close()
	for id := range int32(2) {
		r := replica.Reports{Replica: id, Counter: 1, Full: true}
		for i := range int32(10_000) {
			r.Parts = append(r.Parts, replica.Report{Partition: partition(i), LeaderEpoch: 5})
		}
		if _, err := tracker.Handle(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	i := int32(0)
	for b.Loop() {
		tracker.Moved(partition(i % 10_000))
		i++
	}
}
