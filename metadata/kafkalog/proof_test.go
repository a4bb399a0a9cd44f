package kafkalog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// A writer that takes over counts up the producer epoch of the one before, which counts it up itself after an outcome that
// is unknown. When both do at once they have the same, and the partition takes the first batch of the second for a repetition
// of the first one's: it answers that it is stored, and drops it. No event is lost over that though Publish says done.
func TestTwoWritersOfOneProducerEpoch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		second int64 // epoch of the writer whose batch comes second; the first one has epoch 4
		then   error // of the second
	}{
		"the newer is second":      {second: 7},
		"the older is second":      {second: 3, then: metadata.ErrFenced},
		"both have the same epoch": {second: 4, then: metadata.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			sub := subscribe(t, open(t, config(cluster, 2, 0)))
			publish(t, open(t, config(cluster, 1, 1)), event(1, 1, 0)) // whose producer id both take over
			first, second := open(t, config(cluster, 1, 4)), open(t, config(cluster, 1, test.second))

			own := event(1, test.second, 0)
			own.Segment.ID.UUID[15] ^= 0x80 // not the first one's event, where the epoch is
			// Given a second writer that has looked, and whose batch is on its way while the first one writes.
			release := make(chan struct{})
			held := hold(cluster, release)
			done := make(chan error, 1)
			go func() {
				_, err := second.Publish(context.Background(), own)
				done <- err
			}()
			<-held
			publish(t, first, event(1, 4, 0))
			close(release)
			err := <-done

			// Then what it is told is so.
			wantEvents(t, sub, event(1, 1, 0), event(1, 4, 0))
			if test.then != nil {
				require.ErrorIs(t, err, test.then)
				publish(t, first, event(1, 4, 1))
				wantEvents(t, sub, event(1, 4, 1))
				return
			}
			require.NoError(t, err)
			wantEvents(t, sub, own)
			wantFenced(t, cluster, first, event(1, 4, 1))
			publish(t, second, event(1, test.second, 1))
			wantEvents(t, sub, event(1, test.second, 1))
		})
	}
}

// What was counted up after an unknown outcome is no more this writer's than what was taken over.
func TestTakenOverAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	network := &lossy{key: int16(kmsg.Produce)}
	cfg := config(cluster, 1, 4)
	cfg.PublishTimeout = patience
	cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
	older := open(t, cfg)
	sub := subscribe(t, open(t, config(cluster, 2, 0)))
	publish(t, older, event(1, 4, 0))
	newer := open(t, config(cluster, 1, 7))
	network.lose.Store(1 << 30)
	_, err := older.Publish(t.Context(), event(1, 4, 1))
	require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
	network.lose.Store(0)

	release := make(chan struct{})
	held := hold(cluster, release)
	done := make(chan error, 1)
	go func(log *kafkalog.Log) {
		_, err := log.Publish(context.Background(), event(1, 7, 0))
		done <- err
	}(newer)
	<-held
	publish(t, older, event(1, 4, 1))
	close(release)
	require.NoError(t, <-done)
	publish(t, newer, event(1, 7, 1))
	wantEvents(t, sub, event(1, 4, 0), event(1, 4, 1), event(1, 7, 0), event(1, 7, 1))
}
