package kafkalog_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
)

// BenchmarkEventPath is an event of 64 slices from Publish to a subscriber, and the same record from a bare franz-go
// producer (acks=all, idempotent, no linger) to a bare consumer on the same cluster, taking turns. It reports the medians,
// their ratio, and which part of ours is Publish.
func BenchmarkEventPath(b *testing.B) {
	cluster := newCluster(b)
	log := open(b, config(cluster, 1, 0))
	sub := subscribe(b, log)
	bare := newBare(b, cluster)
	event := testevent.Sized(8, 8)
	value, err := event.MarshalBinary()
	require.NoError(b, err)

	var ours, publishing, theirs []time.Duration
	var sequence uint32
	for b.Loop() {
		sequence++
		event.Segment.ID, event.Sequence = testevent.ID(1, 0, sequence), int64(sequence)
		begun := time.Now()
		stored, err := log.Publish(b.Context(), event)
		published := time.Since(begun)
		if err != nil || stored != 1 {
			b.Fatal(stored, err)
		}
		item, err := sub.Next(b.Context())
		took := time.Since(begun)
		if err != nil || item.Event == nil || item.Event.Sequence != int64(sequence) {
			b.Fatal(item, err)
		}
		ours, publishing = append(ours, took), append(publishing, published)
		theirs = append(theirs, bare.pass(b, value))
	}
	b.ReportMetric(float64(median(ours).Microseconds()), "us-ours-p50")
	b.ReportMetric(float64(median(theirs).Microseconds()), "us-bare-p50")
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "ratio")
	b.ReportMetric(100*float64(median(publishing))/float64(median(ours)), "%produce")
	b.ReportMetric(0, "ns/op") // both together mean nothing
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// bare is franz-go as it is.
type bare struct{ producer, consumer *kgo.Client }

func newBare(tb testing.TB, cluster *kfake.Cluster) bare {
	tb.Helper()
	_, err := admin(tb, cluster).CreateTopic(tb.Context(), 1, 1, nil, "bare")
	require.NoError(tb, err)
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DefaultProduceTopic("bare"))
	require.NoError(tb, err)
	tb.Cleanup(producer.Close)
	consumer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.FetchMinBytes(1),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"bare": {0: kgo.NewOffset().AtStart()}}))
	require.NoError(tb, err)
	tb.Cleanup(consumer.Close)
	return bare{producer, consumer}
}

// pass produces a record and waits until it is consumed.
func (p bare) pass(tb testing.TB, value []byte) time.Duration {
	begun := time.Now()
	if err := p.producer.ProduceSync(tb.Context(), &kgo.Record{Key: []byte("1"), Value: value}).FirstErr(); err != nil {
		tb.Fatal(err)
	}
	for {
		fetches := p.consumer.PollFetches(tb.Context())
		if err := fetches.Err(); err != nil {
			tb.Fatal(err)
		}
		if fetches.NumRecords() > 0 {
			return time.Since(begun)
		}
	}
}

// BenchmarkPublish is Publish alone, of one event and of as many as are sealed meanwhile on a busy broker.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			log := open(b, config(newCluster(b), 1, 0))
			events := make([]*metadata.Event, n)
			for i := range events {
				events[i] = testevent.Sized(8, 8)
			}
			var sequence uint32
			b.ReportAllocs()
			for b.Loop() {
				for _, event := range events {
					sequence++
					event.Segment.ID, event.Sequence = testevent.ID(1, 0, sequence), int64(sequence)
				}
				if _, err := log.Publish(b.Context(), events...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead is how many events of 64 slices a subscription delivers in a second where they lie ready. It also tells
// how many bytes an event is on the topic.
func BenchmarkRead(b *testing.B) {
	cluster := newCluster(b)
	log := open(b, config(cluster, 1, 0))
	const events = 2000
	var size int64
	for i := 0; i < events; i += 50 {
		var batch []*metadata.Event
		for j := range 50 {
			event := testevent.Sized(8, 8)
			event.Segment.ID, event.Sequence = testevent.ID(1, 0, uint32(i+j)), int64(i+j)
			batch = append(batch, event)
			value, err := event.MarshalBinary()
			require.NoError(b, err)
			size += int64(len(value))
		}
		publish(b, log, batch...)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		sub := subscribeFrom(b, log, time.Now().Add(-time.Hour))
		for range events {
			if item, err := sub.Next(b.Context()); err != nil || item.Event == nil {
				b.Fatal(item, err)
			}
			n++
		}
		_ = sub.Close()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(size)/events, "bytes/event")
}
