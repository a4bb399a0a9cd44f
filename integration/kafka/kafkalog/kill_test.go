package kafkalog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/integration/kafka"
)

// A broker is killed and restarted while three leaders publish: nothing is lost, each event is one, those of each broker
// keep their order, for a reader that follows all the time, for one that begins afterwards with nothing, and for a log
// that is opened anew (M2, M3, L5).
func testKill(t *testing.T, cluster *kafka.Cluster) {
	const topic = "killed"
	publishers, live := publishing(t, cluster, topic, 250, func() {
		victim := cluster.Leader(t, topic, 1)
		victim.Kill(t)
		victim.Start(t)
	})
	wantAll(t, live, publishers...)
	wantAll(t, subscribe(t, open(t, config(cluster, topic, 9, 0)), theBeginning), publishers...)
	report(t, "kill", publishers)
}

// Leaderships move while three leaders publish: as above.
func testLeadershipMoves(t *testing.T, cluster *kafka.Cluster) {
	const topic = "moved"
	publishers, live := publishing(t, cluster, topic, 150, func() {
		for _, partition := range []int{0, 1, 2, 1} {
			cluster.MoveLeader(t, topic, partition)
		}
	})
	wantAll(t, live, publishers...)
	wantAll(t, subscribe(t, open(t, config(cluster, topic, 9, 0)), theBeginning), publishers...)
	report(t, "leadership-moves", publishers)
}

// publishing lets three leaders publish n events each before something happens, and n after it has begun; meanwhile a
// reader has subscribed.
func publishing(t *testing.T, cluster *kafka.Cluster, topic string, n int, happens func()) ([]*publisher, *live) {
	var publishers []*publisher
	for broker := range int32(3) {
		cfg := config(cluster, topic, broker, 5)
		cfg.PublishTimeout = time.Second // shorter than the broker is away, so that calls end without knowing
		publishers = append(publishers, &publisher{log: open(t, cfg), broker: broker, epoch: 5})
	}
	reader := follow(t, open(t, config(cluster, topic, 8, 0)))
	half, ended := make(chan error, len(publishers)), make(chan error, len(publishers))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, p := range publishers {
		go func() {
			err := p.publish(ctx, n, time.Millisecond)
			half <- err
			if err == nil {
				err = p.publish(ctx, n, 5*time.Millisecond)
			}
			ended <- err
		}()
	}
	for range publishers {
		require.NoError(t, <-half)
	}
	happens()
	for range publishers {
		require.NoError(t, <-ended)
	}
	for _, p := range publishers {
		require.Len(t, p.events, 2*n)
	}
	return publishers, reader
}

func report(t *testing.T, what string, publishers []*publisher) {
	events, unknown, failed := 0, 0, 0
	for _, p := range publishers {
		events, unknown, failed = events+len(p.events), unknown+p.unknown, failed+p.failed
	}
	t.Attr(what, fmt.Sprintf("%d events, 0 lost, 0 twice; %d outcomes unknown, %d calls failed", events, unknown, failed))
}
