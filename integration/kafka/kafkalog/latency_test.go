package kafkalog

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
)

// An event takes from Publish to a subscriber at most 1.3 times as long as the same record takes from a bare producer of
// the client to a bare consumer, acks=all and idempotent: medians of as many of each, by turns.
func testLatency(t *testing.T, cluster *kafka.Cluster) {
	const warm, rounds, limit = 100, 600, 1.3

	log := open(t, config(cluster, "events", 1, 0))
	sub := subscribe(t, log, theEnd)
	delivered := arrivals(t, func(ctx context.Context) bool {
		item, err := sub.Next(ctx)
		return err == nil && item.Event != nil
	})

	cluster.Create(t, "bare", 3, "message.timestamp.type", "LogAppendTime")
	producer := cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	start := kgo.NewOffset().AtStart()
	consumer := cluster.Client(t, kgo.FetchMinBytes(1), kgo.FetchMaxWait(5*time.Second),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"bare": {0: start, 1: start, 2: start}}))
	consumed := arrivals(t, func(ctx context.Context) bool { return consumer.PollFetches(ctx).NumRecords() > 0 })

	var ours, theirs trips
	for round := range int64(warm + rounds) {
		event := newEvent(1, 0, round, 64)
		value, err := event.MarshalBinary()
		require.NoError(t, err)
		record := &kgo.Record{Topic: "bare", Partition: 1, Key: []byte("1"), Value: value, Headers: []kgo.RecordHeader{{Key: "epoch", Value: []byte("0")}}}
		publish := func() {
			ours.time(t, delivered, func() error { _, err := log.Publish(t.Context(), event); return err })
		}
		produce := func() {
			theirs.time(t, consumed, func() error { return producer.ProduceSync(t.Context(), record).FirstErr() })
		}
		if round%2 == 0 {
			publish()
			produce()
		} else {
			produce()
			publish()
		}
		if round == warm-1 {
			ours, theirs = trips{}, trips{}
		}
	}

	ratio := ours.whole(0.5).Seconds() / theirs.whole(0.5).Seconds()
	t.Attr("publish-to-subscriber", ours.String())
	t.Attr("bare-produce-to-consume", theirs.String())
	t.Attr("ratio", fmt.Sprintf("%.2f, at most %.1f, of the medians of %d records each by turns", ratio, limit, rounds))
	require.LessOrEqual(t, ratio, limit)
}

// arrivals tells when something has arrived, until the test ends.
func arrivals(t *testing.T, next func(context.Context) bool) <-chan time.Time {
	ctx, cancel := context.WithCancel(context.Background())
	times, ended := make(chan time.Time, 16), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if next(ctx) {
				times <- time.Now()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return times
}

// trips are records on their way: how long each took to the broker's answer, and to the reader.
type trips struct{ produced, received []time.Duration }

func (p *trips) time(t *testing.T, arrived <-chan time.Time, send func() error) {
	begun := time.Now()
	require.NoError(t, send())
	p.produced = append(p.produced, time.Since(begun))
	select {
	case at := <-arrived:
		p.received = append(p.received, at.Sub(begun))
	case <-time.After(30 * time.Second):
		t.Fatal("it does not arrive")
	}
}

func (p trips) whole(q float64) time.Duration { return quantile(p.received, q) }

// String tells the medians: of the whole, and which share of it has passed when the producer has its answer.
func (p trips) String() string {
	produce, whole := quantile(p.produced, 0.5), p.whole(0.5)
	return fmt.Sprintf("p50 %v, p99 %v; produce %v, %.0f %% of it, fetch %v", round(whole), round(p.whole(0.99)), round(produce),
		100*produce.Seconds()/whole.Seconds(), round(whole-produce))
}

func quantile(samples []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[int(q*float64(len(sorted)-1))]
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
