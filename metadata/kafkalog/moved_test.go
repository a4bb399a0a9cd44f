package kafkalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
)

// M1: a leader that stops being one while it waits for its replicas says so of a batch that it has appended, and that its
// successor may have. (kfake says it of nothing that it has stored, so the code of the answer is changed on its way.)
func TestMovedAfterTheAppend(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	network := &flipper{}
	cfg := config(cluster, 1, 0)
	cfg.PublishTimeout = 500 * time.Millisecond
	cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
	log := open(t, cfg)
	sub := subscribe(t, open(t, config(cluster, 2, 0)))
	publish(t, log, event(1, 0, 0))

	timedOut := []byte{byte(kerr.RequestTimedOut.Code), 0, 0, 0, 0, 0, 0, 0, 1} // and the offset
	require.EqualValues(t, timedOut[0]^1, kerr.NotLeaderForPartition.Code)
	network.pattern.Store(timedOut)
	slow := fault(cluster, kmsg.Produce, kerr.RequestTimedOut, -1)
	_, err := log.Publish(t.Context(), event(1, 0, 1))
	require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.ErrorContains(t, err, kerr.NotLeaderForPartition.Message)
	slow.Remove()
	network.pattern.Store([]byte("nothing"))

	// The next publication is another event in a batch of the same size.
	publish(t, log, event(1, 0, 2))
	wantEvents(t, sub, event(1, 0, 0), event(1, 0, 1), event(1, 0, 2))
}
