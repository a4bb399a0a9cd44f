package kafkalog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/metadata"
)

// Records are deleted before a reader that does not keep up has come to them: it is told of the gap, and goes on with what
// is left (M3).
func testRetention(t *testing.T, cluster *kafka.Cluster) {
	t.Run("by the topic's retention", func(t *testing.T) {
		const topic = "expired"
		// Segments of 1 MiB, which is the least that Kafka takes, and all that is older than 2 s goes.
		slowReader(t, cluster, topic, func() { cluster.AwaitStart(t, topic, 1, large-1) })
	})
	t.Run("by an administrator", func(t *testing.T) {
		const topic = "purged"
		slowReader(t, cluster, topic, func() { cluster.DeleteRecords(t, topic, 1, large-1) })
	})
}

// large is the number of events in slowReader, of some 80 kB: far more than the reader holds.
const large = 150

func slowReader(t *testing.T, cluster *kafka.Cluster, topic string, loses func()) {
	cfg := config(cluster, topic, 1, 0)
	if topic == "expired" {
		cfg.SegmentRetention, cfg.RetentionMargin = time.Second, time.Second
	}
	log := open(t, cfg)
	size := "1048576"
	_, err := cluster.Admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.bytes", Value: &size}}, topic)
	require.NoError(t, err)

	// Given a reader that has read one event and then stood still
	sub := subscribe(t, log, theEnd)
	p := &publisher{log: log, broker: 1}
	require.NoError(t, p.publish(t.Context(), 1, 0))
	wantAll(t, sub, p)
	for range large - 1 {
		e := newEvent(1, 0, int64(len(p.events)), 3000)
		_, err := log.Publish(t.Context(), e)
		require.NoError(t, err)
		p.events = append(p.events, e)
	}

	// When what it lacks is deleted
	loses()

	// Then it gets what it held already, a gap, and what comes from then on. A gap shows by what comes after it, so events
	// keep coming.
	ctx, enough := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.publish(ctx, 1_000_000, 20*time.Millisecond) }()
	events, gaps := readUntil(t, sub, func(e *metadata.Event) bool { return e.Sequence >= large+20 })
	enough()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NotEmpty(t, gaps)
	for _, gap := range gaps {
		require.EqualValues(t, 1, gap.BrokerID)
		require.Equal(t, metadata.GapMissing, gap.Reason)
	}
	sequence := int64(0)
	for _, e := range events[1] {
		require.Greater(t, e.Sequence, sequence, "an event again, or out of order")
		require.Equal(t, p.events[e.Sequence], e)
		sequence = e.Sequence
	}
	require.Less(t, int64(len(events[1])), sequence, "nothing was missing, so this has shown nothing")
	t.Attr("slow-reader", fmt.Sprintf("%d of %d events were gone, %d gaps told", sequence-int64(len(events[1])), sequence, len(gaps)))
}

// A cluster that slows its clients down delays events, and does nothing else to them.
func testThrottled(t *testing.T, cluster *kafka.Cluster) {
	const topic, limit = "throttled", 20_000 // bytes a second, of which those of 11 seconds may be sent at once
	cfg := config(cluster, topic, 1, 0)
	cfg.Opts = []kgo.Opt{kgo.ClientID(topic)}
	log := open(t, cfg)
	reader := follow(t, log)
	cluster.Throttle(t, topic, limit)
	p := &publisher{log: log, broker: 1}
	slowest := time.Duration(0)
	for len(p.events) < 100 && slowest < 500*time.Millisecond {
		e := newEvent(1, 0, int64(len(p.events)), 1000)
		begun := time.Now()
		_, err := log.Publish(t.Context(), e)
		require.NoError(t, err)
		slowest = max(slowest, time.Since(begun))
		p.events = append(p.events, e)
	}
	require.GreaterOrEqual(t, slowest, 500*time.Millisecond, "nothing was slowed down")
	cluster.Throttle(t, topic, 0)
	require.NoError(t, p.publish(t.Context(), 5, 0))
	wantAll(t, reader, p)
}

// The topic is deleted and created again under leaders and a reader: it is told of the gap for each of them, and what they
// publish from then on arrives.
func testCreatedAgain(t *testing.T, cluster *kafka.Cluster) {
	const topic = "again"
	publishers := []*publisher{
		{log: open(t, config(cluster, topic, 1, 0)), broker: 1},
		{log: open(t, config(cluster, topic, 2, 0)), broker: 2},
	}
	reader := follow(t, open(t, config(cluster, topic, 9, 0)))
	for _, p := range publishers {
		require.NoError(t, p.publish(t.Context(), 20, 0))
	}
	wantAll(t, reader, publishers...)

	cluster.Delete(t, topic)
	cluster.Create(t, topic, 3, "message.timestamp.type", "LogAppendTime")

	var later []*metadata.Event
	for _, p := range publishers {
		require.NoError(t, p.publish(t.Context(), 20, 20*time.Millisecond))
		later = append(later, p.events[20:]...)
	}
	events, gaps := read(t, reader, len(later))
	told := map[int32]bool{}
	for _, gap := range gaps {
		told[gap.BrokerID] = true
	}
	require.Equal(t, map[int32]bool{1: true, 2: true}, told)
	require.Equal(t, later, append(events[1], events[2]...))

	// A reader that begins now sees what is there.
	events, _ = read(t, subscribe(t, publishers[0].log, theBeginning), len(later))
	require.Equal(t, later, append(events[1], events[2]...))
}

// Partitions are added: a broker's events stay in its partition (M2), and what is in the new ones is read too.
func testPartitionsAdded(t *testing.T, cluster *kafka.Cluster) {
	const topic = "grown"
	p := &publisher{log: open(t, config(cluster, topic, 4, 0)), broker: 4}
	reader := follow(t, open(t, config(cluster, topic, 9, 0)))
	require.NoError(t, p.publish(t.Context(), 10, 0))
	_, err := cluster.Admin(t).UpdatePartitions(t.Context(), 6, topic)
	require.NoError(t, err)
	kafka.Eventually(t, "the new partitions have leaders", func(ctx context.Context) error {
		_, err := cluster.Admin(t).ListEndOffsets(ctx, topic)
		return err
	})
	require.NoError(t, p.publish(t.Context(), 10, 0))

	// Of a broker that is told of six partitions, which no broker should be while others are told of three
	cfg := config(cluster, topic, 5, 0)
	cfg.Partitions = 6
	added := &publisher{log: open(t, cfg), broker: 5}
	require.NoError(t, added.publish(t.Context(), 10, 0))
	wantAll(t, reader, p, added)

	ends, err := cluster.Admin(t).ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	for partition, want := range map[int32]int64{0: 0, 1: 20, 2: 0, 3: 0, 4: 0, 5: 10} {
		end, _ := ends.Lookup(topic, partition)
		require.Equal(t, want, end.Offset, "partition %d", partition)
	}
}
