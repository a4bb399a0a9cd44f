package replica_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// orders is a partition that one broker leads in epoch 1.
type orders struct{ log *memory.Log }

// Check makes the checks of an ordinary fetch. This broker counts nobody in and has no high watermark of its own.
func (o orders) Check(id int32, brokerEpoch int64, r replica.Report) (replica.Answer, error) {
	if r.LeaderEpoch != 1 {
		return replica.Answer{LeaderEpoch: 1}, replica.ErrOldLeaderEpoch
	}
	diverging, err := o.log.CheckFetch(r.LogEndOffset, r.LastEpoch)
	if err != nil {
		return replica.Answer{LeaderEpoch: 1}, replica.ErrOutOfRange
	}
	end, _ := o.log.End()
	answer := replica.Answer{LeaderEpoch: 1, LeaderLEO: end, HighWatermark: min(end, r.LogEndOffset), LogStart: o.log.Start()}
	if diverging != nil {
		answer.Diverging = &replica.Diverging{Epoch: diverging.Epoch, EndOffset: diverging.End}
	}
	return answer, nil
}

// quiet stands for the handle that follower.Replicator.Follow returns.
type quiet struct{}

func (quiet) Observe(int64)      {}
func (quiet) Diverged()          {}
func (quiet) WantsAnswers() bool { return false }
func (quiet) LeaderEpoch() int32 { return 1 }

// A follower reports where its log ends, and gets the high watermark.
func Example() {
	partition := segment.TopicIDPartition{TopicID: uuid.UUID{1}, Topic: "orders"}
	ctx := context.Background()

	// The leader's end.
	leading := memory.New(memory.Config{})
	tracker, err := replica.NewTracker(replica.TrackerConfig{Partitions: orders{leading}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tracker.Close()

	// The follower's end. The broker's transport is a function call here.
	answers := make(chan replica.Answer, 10)
	reporter, err := replica.NewReporter(replica.ReporterConfig{
		Replica: 2,
		Send: func(ctx context.Context, leaderID int32, r replica.Reports) ([]replica.Answer, error) {
			return tracker.Handle(ctx, r)
		},
		Answered: func(leaderID int32, a replica.Answer) { answers <- a },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reporter.Close()

	following := memory.New(memory.Config{Moved: func() { reporter.Moved(partition) }})
	if err := following.Follow(1); err != nil {
		fmt.Println(err)
		return
	}
	reporter.Add(partition, 1, quiet{}, following)
	fmt.Println("high watermark", (<-answers).HighWatermark)

	// The leader appends, and the follower has it from the store. (batchtest makes the batches that a producer would send.)
	if _, _, err := leading.Append(ctx, 1, batchtest.Make(0, 0, "a", "b", "c")); err != nil {
		fmt.Println(err)
		return
	}
	tracker.Moved(partition)
	if err := following.AppendAsFollower(ctx, 1, 0, leading.Bytes(0)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("high watermark", (<-answers).HighWatermark)
	at, end := tracker.CaughtUp(partition, 1, 2)
	fmt.Println("caught up:", !at.IsZero(), "with an end of", end)
	// Output:
	// high watermark 0
	// high watermark 3
	// caught up: true with an end of 3
}
