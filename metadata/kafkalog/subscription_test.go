package kafkalog_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// Q17: the leader of a partition moves, again and again, and then its broker goes: every event arrives, once, in order.
func TestLeaderMoves(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	answerEpochEnds(cluster, math.MaxInt64) // nothing is cut
	log := open(t, config(cluster, 1, 0))
	sub := subscribe(t, open(t, config(cluster, 2, 0)))
	var sequence int64
	more := func() {
		t.Helper()
		for range 3 {
			publish(t, log, event(1, 0, sequence))
			wantEvents(t, sub, event(1, 0, sequence))
			sequence++
		}
	}
	more()
	for n := range int32(4) {
		require.NoError(t, cluster.MoveTopicPartition(kafkalog.DefaultTopic, 1, n%3))
		more()
	}
	require.NoError(t, cluster.RemoveNode(cluster.LeaderFor(kafkalog.DefaultTopic, 1)))
	more()
}

// Q17, M2: partitions are added. A broker stays where it is, and one that publishes to a new partition is read.
func TestPartitionsAreAdded(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 4, 0))
	reader := config(cluster, 2, 0)
	reader.RefreshInterval = 20 * time.Millisecond
	sub := subscribe(t, open(t, reader))
	publish(t, log, event(4, 0, 0))
	before := ends(t, cluster)

	_, err := admin(t, cluster).CreatePartitions(t.Context(), 4, kafkalog.DefaultTopic)
	require.NoError(t, err)
	publish(t, log, event(4, 0, 1))
	again := open(t, config(cluster, 4, 1))
	publish(t, again, event(4, 1, 0))
	after := ends(t, cluster)
	require.Equal(t, before[1]+2, after[1])
	require.Len(t, after, 7)

	wider := config(cluster, 5, 0)
	wider.Partitions = 7
	publish(t, open(t, wider), event(5, 0, 0))
	var got []int32
	for range 4 {
		item := next(t, sub)
		require.NotNil(t, item.Event, "got %v", item.Gap)
		got = append(got, item.Event.Segment.ID.BrokerID)
	}
	require.ElementsMatch(t, []int32{4, 4, 4, 5}, got)
}

// ends returns the end offsets of the topic's partitions.
func ends(tb testing.TB, cluster *kfake.Cluster) map[int32]int64 {
	tb.Helper()
	listed, err := admin(tb, cluster).ListEndOffsets(tb.Context(), kafkalog.DefaultTopic)
	require.NoError(tb, err)
	offsets := make(map[int32]int64)
	for _, o := range listed.Offsets()[kafkalog.DefaultTopic] {
		offsets[o.Partition] = o.At
	}
	return offsets
}

// Q17, twmb/franz-go#1364, redpanda-data/redpanda#4466, KAFKA-15130: the topic is deleted and created again. What is left of the old one is told of as a gap, and of
// the new one every event is read, from its beginning; positions in the old topic are not applied to it.
func TestTopicIsCreatedAgain(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	cfg := config(cluster, 1, 0)
	cfg.RefreshInterval = 20 * time.Millisecond
	log := open(t, cfg)
	sub, idle := subscribe(t, log), subscribe(t, log)
	for i := range int64(20) {
		publish(t, log, event(1, 0, i))
	}
	wantEvents(t, sub, event(1, 0, 0), event(1, 0, 1))

	_, err := admin(t, cluster).DeleteTopic(t.Context(), kafkalog.DefaultTopic)
	require.NoError(t, err)
	create(t, cluster, 3, nil)
	publish(t, log, event(1, 0, 20), event(1, 0, 21))

	// Whatever was fetched before comes first; then the gap, then the new topic's events.
	last := int64(1)
	item := next(t, sub)
	for ; item.Gap == nil && item.Event.Sequence < 20; item = next(t, sub) {
		require.Equal(t, last+1, item.Event.Sequence)
		last++
	}
	require.NotNil(t, item.Gap, "after event %d came event %+v", last, item.Event)
	require.EqualValues(t, 1, item.Gap.BrokerID)
	for item.Gap != nil {
		item = next(t, sub)
	}
	require.EqualValues(t, 20, item.Event.Sequence)
	wantEvents(t, sub, event(1, 0, 21))
	publish(t, log, event(1, 0, 22))
	wantEvents(t, sub, event(1, 0, 22))

	// A reader that had met nobody is told when it does.
	for item = next(t, idle); item.Gap == nil; item = next(t, idle) {
		require.Less(t, item.Event.Sequence, int64(20))
	}
	require.EqualValues(t, 1, item.Gap.BrokerID)
}

// A topic that is gone gives Publish an error, and once it is there again everything goes on.
func TestTopicIsGone(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	cfg := config(cluster, 1, 0)
	cfg.RefreshInterval = 20 * time.Millisecond
	log := open(t, cfg)
	sub := subscribe(t, log)
	publish(t, log, event(1, 0, 0))
	wantEvents(t, sub, event(1, 0, 0))
	_, err := admin(t, cluster).DeleteTopic(t.Context(), kafkalog.DefaultTopic)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = log.Publish(ctx, event(1, 0, 1))
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	wantNothing(t, sub)

	create(t, cluster, 3, nil)
	publish(t, log, event(1, 0, 1))
	wantGap(t, sub, 1, metadata.GapMissing)
	wantEvents(t, sub, event(1, 0, 1))
}

// M3, Q18, KAFKA-15632: retention passes a slow reader by. It is told, and reads on at what is left: no event needs an
// earlier one.
func TestRetentionPassesAReader(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	slow := subscribe(t, log)
	publish(t, log, event(1, 0, 0))
	wantEvents(t, slow, event(1, 0, 0)) // it knows broker 1
	fresh := subscribe(t, log)          // it knows nobody
	blocked := pauseFetches(cluster)
	for i := range int64(10) {
		publish(t, log, event(1, 0, 1+i))
	}
	deleteBefore(t, cluster, 1, 6)
	blocked()

	for name, sub := range map[string]metadata.Subscription{"knows the broker": slow, "knows nobody": fresh} {
		item := next(t, sub)
		for item.Gap == nil && item.Event.Sequence < 6 { // what was on its way
			item = next(t, sub)
		}
		require.NotNil(t, item.Gap, "%s: got event %+v", name, item.Event)
		require.EqualValues(t, 1, item.Gap.BrokerID)
		require.Equal(t, metadata.GapMissing, item.Gap.Reason)
		for item.Gap != nil {
			item = next(t, sub)
		}
		require.EqualValues(t, 6, item.Event.Sequence)
		wantEvents(t, sub, event(1, 0, 7), event(1, 0, 8), event(1, 0, 9), event(1, 0, 10))
	}
}

// M3: all that a reader lacks is deleted, and nothing is published after it. It is told all the same.
func TestAllThatAReaderLacksIsDeleted(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	cfg := config(cluster, 2, 0)
	cfg.RefreshInterval = 20 * time.Millisecond
	sub := subscribe(t, open(t, cfg))
	publish(t, log, event(1, 0, 0))
	wantEvents(t, sub, event(1, 0, 0))
	resume := pauseFetches(cluster)
	publish(t, log, event(1, 0, 1), event(1, 0, 2))
	deleteBefore(t, cluster, 1, 3)
	resume()
	item := next(t, sub)
	for item.Gap == nil { // what was on its way
		item = next(t, sub)
	}
	require.EqualValues(t, 1, item.Gap.BrokerID)
	require.Equal(t, metadata.GapMissing, item.Gap.Reason)
	wantNothing(t, sub)

	// It reads on, and the next event says which it lacks.
	publish(t, log, event(1, 0, 3))
	gap := wantGap(t, sub, 1, metadata.GapMissing)
	require.EqualValues(t, 3, gap.To)
	wantEvents(t, sub, event(1, 0, 3))
}

// pauseFetches makes the cluster refuse fetches until the function that it returns is called.
func pauseFetches(cluster *kfake.Cluster) (resume func()) {
	return fault(cluster, kmsg.Fetch, kerr.KafkaStorageError, -1).Remove
}

// deleteBefore deletes the records of a partition below an offset, as retention does.
func deleteBefore(tb testing.TB, cluster *kfake.Cluster, partition int32, offset int64) {
	tb.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic, p := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	topic.Topic, p.Partition, p.Offset = kafkalog.DefaultTopic, partition, offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	require.NoError(tb, err)
	defer client.Close()
	resp, err := req.RequestWith(tb.Context(), client)
	require.NoError(tb, err)
	require.NoError(tb, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
}

// Q18: the log is cut below a reader's position, as an unclean election does. The reader is told, and goes on where the
// log was cut.
func TestLogIsCut(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	sub := subscribe(t, log)
	for i := range int64(4) {
		publish(t, log, event(1, 0, i))
	}
	wantEvents(t, sub, event(1, 0, 0), event(1, 0, 1), event(1, 0, 2), event(1, 0, 3))

	answerEpochEnds(cluster, 2)
	require.NoError(t, cluster.MoveTopicPartition(kafkalog.DefaultTopic, 1, (cluster.LeaderFor(kafkalog.DefaultTopic, 1)+1)%3))
	publish(t, log, event(1, 0, 4))
	wantGap(t, sub, 1, metadata.GapMissing)
	item := next(t, sub)
	for item.Gap != nil { // the client may ask more than once
		item = next(t, sub)
	}
	require.EqualValues(t, 4, item.Event.Sequence, "2 and 3, which this cluster has not lost, are duplicates")
}

// answerEpochEnds answers where the log of a leader epoch ends. (kfake does not know it of the last epoch but one as long as
// the leader has written nothing, and says so as if history were lost. Kafka knows.)
func answerEpochEnds(cluster *kfake.Cluster, end int64) {
	cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := req.(*kmsg.OffsetForLeaderEpochRequest)
		answer := asked.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, t := range asked.Topics {
			topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				partition.Partition, partition.LeaderEpoch, partition.EndOffset = p.Partition, p.LeaderEpoch, end
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
}

// M4: records that are no events, of whatever kind, stop nothing. Those with a broker's key are a gap of that broker.
func TestBadRecords(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	var damage []metadata.Damage
	cfg := config(cluster, 1, 5)
	cfg.Hooks.Damage = func(d metadata.Damage) { damage = append(damage, d) }
	log := open(t, cfg)
	sub := subscribe(t, log)
	publish(t, log, event(1, 5, 0))
	write(t, cluster, 1, "no broker", []byte("?"))
	write(t, cluster, 1, "", nil)
	write(t, cluster, 1, "1", []byte("?"))
	write(t, cluster, 1, "1", nil)
	write(t, cluster, 1, "1", []byte{0x08, 0x7f, 0x10, 0x07, 0x22}, kgo.RecordHeader{Key: "epoch", Value: []byte("4")})
	foreign, err := event(4, 0, 0).MarshalBinary()
	require.NoError(t, err)
	write(t, cluster, 1, "1", foreign)
	publish(t, log, event(1, 5, 1))

	wantEvents(t, sub, event(1, 5, 0))
	wantGap(t, sub, 1, metadata.GapCorrupt)
	wantGap(t, sub, 1, metadata.GapCorrupt)
	gap := wantGap(t, sub, 1, metadata.GapUnknownVersion)
	require.Equal(t, metadata.Gap{BrokerID: 1, BrokerEpoch: 4, From: 7, To: 8, Reason: metadata.GapUnknownVersion}, gap)
	wantGap(t, sub, 1, metadata.GapCorrupt)
	wantEvents(t, sub, event(1, 5, 1))

	var kinds []metadata.DamageKind
	for _, d := range damage {
		kinds = append(kinds, d.Kind)
		require.Equal(t, kafkalog.DefaultTopic+"-1", d.Name)
		require.Error(t, d.Err)
	}
	require.Equal(t, []metadata.DamageKind{
		metadata.DamageForeign, metadata.DamageForeign, metadata.DamageCorrupt, metadata.DamageCorrupt, metadata.DamageUnknownVersion, metadata.DamageCorrupt,
	}, kinds)
}

// The markers of a transaction that somebody has made on the topic are no loss.
func TestTransactionMarkers(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	sub := subscribe(t, log)
	publish(t, log, event(1, 0, 0))
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.TransactionalID("somebody"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.BeginTransaction())
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: kafkalog.DefaultTopic, Partition: 1, Key: []byte("?")}).FirstErr())
	require.NoError(t, client.EndTransaction(t.Context(), kgo.TryCommit))
	publish(t, log, event(1, 0, 1))
	wantEvents(t, sub, event(1, 0, 0), event(1, 0, 1))
}

// M4, twmb/franz-go#854: a whole batch that cannot be read, as its checksum is wrong, is a gap of each broker of that
// partition, and reading goes on behind it.
func TestDamagedBatch(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	network := &flipper{}
	cfg := config(cluster, 2, 0)
	cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
	reader := open(t, cfg)
	log := open(t, config(cluster, 1, 0))
	sub := subscribe(t, reader)
	publish(t, log, event(1, 0, 0))
	wantEvents(t, sub, event(1, 0, 0))

	network.pattern.Store([]byte("spoiled-topic-xx"))
	bad := []*metadata.Event{event(1, 0, 1), event(1, 0, 2), event(1, 0, 3)}
	bad[1].Segment.Topics[0].Name = "spoiled-topic-xx"
	publish(t, log, bad...) // one batch
	publish(t, log, event(1, 0, 4))
	wantGap(t, sub, 1, metadata.GapCorrupt)
	for item := next(t, sub); item.Event == nil || item.Event.Sequence < 4; item = next(t, sub) { // the sequences tell of the rest
		require.Nil(t, item.Event)
	}
	publish(t, log, event(1, 0, 5))
	wantEvents(t, sub, event(1, 0, 5))
}

// M3: Subscribe has fixed its position when it returns: what is published then is delivered, though the client has not
// fetched anything yet.
func TestSubscribeIsReady(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	publish(t, log, event(1, 0, 0))
	resume := pauseFetches(cluster)
	sub := subscribe(t, log)
	publish(t, log, event(1, 0, 1))
	resume()
	wantEvents(t, sub, event(1, 0, 1))
}

// KAFKA-19523, KAFKA-19599: a partition without a leader keeps Subscribe waiting no longer than its context, or the limit,
// and it is asked for with pauses. What Subscribe returns is ready or an error, never "nothing yet".
func TestSubscribeWithoutALeader(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	cfg := config(cluster, 1, 0)
	log := open(t, cfg)
	cfg.OpenTimeout = patience
	impatient := open(t, cfg)
	asked := fault(cluster, kmsg.ListOffsets, kerr.LeaderNotAvailable, -1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := log.Subscribe(ctx, metadata.Position{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = impatient.Subscribe(t.Context(), metadata.Position{})
	require.ErrorIs(t, err, kerr.LeaderNotAvailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, asked.Hits(), 200, "three partitions each time, and 250 ms between two attempts in the end")
}

// A restarted consumer has nothing: it begins at a time, and the Store that it fills is that of one that has run all the
// while (Q2, Q21).
func TestRestartWithAnEmptyConsumer(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	one, two := open(t, config(cluster, 1, 0)), open(t, config(cluster, 2, 0))
	begun := time.Now().Add(-time.Millisecond)
	live := subscribe(t, two)
	for i := range int64(30) {
		publish(t, one, event(1, 0, i))
		publish(t, two, event(2, 0, i))
	}
	replay := subscribeFrom(t, open(t, config(cluster, 3, 0)), begun)
	require.Equal(t, filled(t, live, 60), filled(t, replay, 60))
}

// filled fills a Store with so many events, and returns what it says of a partition that both brokers have led.
func filled(tb testing.TB, sub metadata.Subscription, n int) (entries []metadata.Entry) {
	tb.Helper()
	store, err := metadata.NewStore(metadata.StoreConfig{})
	require.NoError(tb, err)
	partition := testevent.Partition(0, 0)
	store.Follow(partition, 1, 1)
	for range n {
		item := next(tb, sub)
		require.NotNil(tb, item.Event, "got %v", item.Gap)
		store.Apply(item)
	}
	for end := int64(0); ; {
		entry, verdict := store.Next(partition, end)
		if verdict.Outcome != metadata.Found {
			require.Len(tb, entries, n/2)
			return entries
		}
		entries = append(entries, entry)
		end = entry.Slice.LastOffset + 1
	}
}

// A fetch tells the reader's rack, so that a cluster with a rack-aware selector serves it from its own zone, and asks to be
// answered as soon as one byte is there.
func TestFetchSettings(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	var rack, least atomic.Value
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if fetch := req.(*kmsg.FetchRequest); fetch.MaxWaitMillis > 0 {
			rack.Store(fetch.Rack)
			least.Store(fetch.MinBytes)
		}
		return nil, nil, false
	})
	cfg := config(cluster, 1, 0)
	cfg.Rack = "zone-b"
	log := open(t, cfg)
	sub := subscribe(t, log)
	publish(t, log, event(1, 0, 0))
	wantEvents(t, sub, event(1, 0, 0))
	require.Equal(t, "zone-b", rack.Load())
	require.EqualValues(t, 1, least.Load())
}

// D4: where the topic leaves it to the writer, records are stamped by Config.Now.
func TestStamps(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	cfg := config(cluster, 1, 0)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cfg.Now = func() time.Time { return at }
	log := open(t, cfg)
	publish(t, log, event(1, 0, 0))
	at = at.Add(time.Minute)
	publish(t, log, event(1, 0, 1))
	wantEvents(t, subscribeFrom(t, log, at.Add(-time.Second)), event(1, 0, 1))
}

// A subscription that nobody reads holds a bounded number of bytes, and costs no other one anything.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	idle, sub := subscribe(t, log), subscribe(t, log)
	const n = 60
	for i := range int64(n) {
		publish(t, log, large(1, 0, i, 400<<10))
		require.Equal(t, i, next(t, sub).Event.Sequence)
	}
	for i := range int64(n) {
		require.Equal(t, i, next(t, idle).Event.Sequence)
	}
}
