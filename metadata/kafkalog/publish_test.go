package kafkalog_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// M1: the events of one Publish leave together, in one batch of one request, and Publish returns on its answer.
func TestEventsLeaveTogether(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	sub := subscribe(t, log)
	publish(t, log, event(1, 0, 0))
	seen := produces(cluster)

	var events []*metadata.Event
	for i := range int64(100) {
		events = append(events, event(1, 0, 1+i))
	}
	publish(t, log, events...)

	require.Equal(t, 1, seen.Hits())
	wantEvents(t, sub, event(1, 0, 0))
	wantEvents(t, sub, events...)
}

// L8: what exceeds the topic's limit together goes in several batches, and what is stored is a prefix when one of them
// fails.
func TestPrefixOfSeveralBatches(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	publish(t, log, event(1, 0, 0))
	sub := subscribe(t, log)
	var events []*metadata.Event
	for i := range int64(5) { // each more than a third of the limit
		events = append(events, large(1, 0, 1+i, 400<<10))
	}

	// Given a cluster that takes the first batch and no more.
	refusal := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1, When: afterFirst()})
	stored, err := log.Publish(t.Context(), events...)
	require.ErrorIs(t, err, kafkalog.ErrAuthorization)
	require.NotErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.Equal(t, 2, stored)

	// When the rest is published again, then each event is there once.
	refusal.Remove()
	publish(t, log, events[stored:]...)
	wantEvents(t, sub, events...)
	require.EqualValues(t, 6, records(t, cluster))
}

// afterFirst accepts every request but the first. It may be asked of one several times.
func afterFirst() func(kmsg.Request) bool {
	var first kmsg.Request
	return func(req kmsg.Request) bool {
		if first == nil {
			first = req
		}
		return req != first
	}
}

// large returns an event that takes about so many bytes.
func large(broker int32, epoch, sequence int64, size int) *metadata.Event {
	var slices []int64
	e := event(broker, epoch, sequence)
	for len(slices) < size/30 {
		slices = append(slices, 0)
	}
	topic := &e.Segment.Topics[0]
	topic.Slices = nil
	for i := range slices {
		topic.Slices = append(topic.Slices, testevent.Slice(int32(i), 1, 1<<40+int64(i)<<20, 1<<40+int64(i)<<20+1000))
	}
	e.ObjectSize = math.MaxInt32
	for _, s := range topic.Slices {
		e.ObjectSize += s.Length
	}
	return e
}

// M1, L5, Q12: whatever became of a publication whose outcome is unknown, the same events published again are one logical
// event for a reader each, in order, and those after them are not disturbed.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	type attempt struct {
		ctx     context.Context
		cancel  context.CancelFunc
		cluster *kfake.Cluster
		network *lossy
	}
	for name, test := range map[string]struct {
		// begin makes the publication go wrong; end lets later ones pass.
		begin func(a attempt) (end func())
		// stored is how many records are in the topic in the end, of 2 events whose outcome is unknown and one after.
		stored int64
		is     error
	}{
		"appended, and every answer lost": {
			begin: func(a attempt) func() {
				a.network.lose.Store(math.MaxInt32)
				return func() { a.network.lose.Store(0) }
			},
			stored: 5,
		},
		"appended, and the replicas did not answer": {
			begin: func(a attempt) func() {
				return fault(a.cluster, kmsg.Produce, kerr.NotEnoughReplicasAfterAppend, -1).Remove
			},
			stored: 5,
		},
		"never appended, and no answer": {
			begin: func(a attempt) func() {
				a.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
				return func() {}
			},
			stored: 3,
		},
		"never appended, and the connection cut": {
			begin: func(a attempt) func() {
				var once sync.Once
				stop := make(chan struct{})
				a.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
					select {
					case <-stop:
						return nil, nil, false
					default:
						a.cluster.KeepControl()
						return nil, errors.New("cut"), true
					}
				})
				return func() { once.Do(func() { close(stop) }) }
			},
			stored: 3,
		},
		"cancelled, and appended before the next": {
			begin: func(a attempt) func() {
				release := make(chan struct{})
				held := hold(a.cluster, release)
				go func() {
					<-held
					a.cancel()
				}()
				return func() {
					landed := produces(a.cluster)
					close(release)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_ = landed.Wait(ctx, 1)
				}
			},
			is:     context.Canceled,
			stored: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			network := &lossy{key: int16(kmsg.Produce)}
			cfg := config(cluster, 1, 0)
			cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
			cfg.PublishTimeout = patience
			log := open(t, cfg)
			sub := subscribe(t, open(t, config(cluster, 2, 0)))
			publish(t, log, event(1, 0, 0))
			events := []*metadata.Event{event(1, 0, 1), event(1, 0, 2), event(1, 0, 3)}

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := test.begin(attempt{ctx, cancel, cluster, network})
			stored, err := log.Publish(ctx, events[:2]...)
			require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
			require.NotErrorIs(t, err, metadata.ErrFenced)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "only the caller's own end is an error of the context")
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
			require.Zero(t, stored)
			end()

			publish(t, log, events...)
			wantEvents(t, sub, event(1, 0, 0))
			wantEvents(t, sub, events...)
			wantEvents(t, subscribeFrom(t, log, time.Now().Add(-time.Hour)), append([]*metadata.Event{event(1, 0, 0)}, events...)...)
			require.Equal(t, test.stored+1, records(t, cluster))
		})
	}
}

// hold keeps the next produce request from being looked at until release is closed. What it returns is closed once the
// request is there.
func hold(cluster *kfake.Cluster, release <-chan struct{}) (held <-chan struct{}) {
	there := make(chan struct{})
	var taken atomic.Bool
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		if taken.CompareAndSwap(false, true) {
			close(there)
			cluster.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	return there
}

// A request that is still on its way when its events have been published again is refused: it would bring them a second
// time, behind later ones.
func TestStragglerIsRefused(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	publish(t, log, event(1, 0, 0))
	release := make(chan struct{})
	held := hold(cluster, release)

	// Given a publication that was given up when it had left.
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-held
		cancel()
	}()
	_, err := log.Publish(ctx, event(1, 0, 1))
	require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.ErrorIs(t, err, context.Canceled)

	// When it arrives after its repetition, then the topic has the event once.
	publish(t, log, event(1, 0, 1), event(1, 0, 2))
	landed := produces(cluster)
	close(release)
	waiting, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	require.NoError(t, landed.Wait(waiting, 1), "the late request has been looked at")
	require.EqualValues(t, 3, records(t, cluster))
}

// A lost answer is asked for again in the same call, with the same sequence: the cluster knows the batch, and the caller
// never learns of it.
func TestLostAnswerWithinACall(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(cluster *kfake.Cluster, network *lossy){
		"connection cut": func(_ *kfake.Cluster, network *lossy) {
			network.lose.Store(2)
		},
		"too few replicas after the append": func(cluster *kfake.Cluster, _ *lossy) {
			fault(cluster, kmsg.Produce, kerr.NotEnoughReplicasAfterAppend, 3)
		},
		"replicas slow": func(cluster *kfake.Cluster, _ *lossy) { fault(cluster, kmsg.Produce, kerr.RequestTimedOut, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			network := &lossy{key: int16(kmsg.Produce)}
			cfg := config(cluster, 1, 0)
			cfg.Opts = []kgo.Opt{kgo.Dialer(network.dial)}
			log := open(t, cfg)
			publish(t, log, event(1, 0, 0))
			lose(cluster, network)
			publish(t, log, event(1, 0, 1), event(1, 0, 2))
			publish(t, log, event(1, 0, 3))
			require.EqualValues(t, 4, records(t, cluster))
		})
	}
}

// What passes is waited out within the call: nothing is stored meanwhile, and nothing twice in the end.
func TestPassingRefusals(t *testing.T) {
	t.Parallel()
	for _, refusal := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError,
		kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.UnknownServerError, kerr.CorruptMessage,
	} {
		t.Run(refusal.Message, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			log := open(t, config(cluster, 1, 0))
			publish(t, log, event(1, 0, 0))
			fault(cluster, kmsg.Produce, refusal, 2)
			publish(t, log, event(1, 0, 1), event(1, 0, 2))
			require.EqualValues(t, 3, records(t, cluster))
		})
	}
}

// A cluster that asks for a pause (KIP-219) gets it.
func TestThrottle(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	publish(t, log, event(1, 0, 0))
	const pause = 120 * time.Millisecond
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		asked := req.(*kmsg.ProduceRequest)
		answer := asked.ResponseKind().(*kmsg.ProduceResponse)
		answer.ThrottleMillis = int32(pause.Milliseconds())
		topic, partition := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
		topic.Topic, topic.TopicID = asked.Topics[0].Topic, asked.Topics[0].TopicID
		partition.Partition, partition.ErrorCode = asked.Topics[0].Partitions[0].Partition, kerr.NotEnoughReplicas.Code
		topic.Partitions = append(topic.Partitions, partition)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	begun := time.Now()
	publish(t, log, event(1, 0, 1))
	require.GreaterOrEqual(t, time.Since(begun), pause)
}

// A slow answer to one broker's publication holds up no other broker's (Q11).
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	slow, other := open(t, config(cluster, 1, 0)), open(t, config(cluster, 2, 0))
	publish(t, slow, event(1, 0, 0))
	publish(t, other, event(2, 0, 0))
	release := make(chan struct{})
	held := hold(cluster, release)
	done := make(chan error, 1)
	go func() {
		_, err := slow.Publish(t.Context(), event(1, 0, 1))
		done <- err
	}()
	<-held
	for i := range int64(10) {
		publish(t, other, event(2, 0, 1+i))
	}
	select {
	case err := <-done:
		t.Fatalf("the slow publication has ended: %v", err)
	default:
	}
	close(release)
	require.NoError(t, <-done)
}

// L8: a limit that is lowered while the log is open is met event by event, and one that is too large for it is invalid.
func TestLimitIsLowered(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	sub := subscribe(t, log)
	require.Equal(t, metadata.MaxEventBytes, log.MaxEventBytes())
	small := []*metadata.Event{large(1, 0, 0, 60<<10), large(1, 0, 1, 60<<10), large(1, 0, 2, 60<<10)}
	publish(t, log, small[0])

	alter(t, cluster, "max.message.bytes", "100000")
	publish(t, log, small[1:]...)
	wantEvents(t, sub, small...)
	stored, err := log.Publish(t.Context(), large(1, 0, 3, 200<<10))
	require.ErrorIs(t, err, metadata.ErrInvalid)
	require.Zero(t, stored)
	publish(t, log, event(1, 0, 3))
	wantEvents(t, sub, event(1, 0, 3))
}

// alter changes a setting of the topic.
func alter(tb testing.TB, cluster *kfake.Cluster, name, value string) {
	tb.Helper()
	_, err := admin(tb, cluster).AlterTopicConfigs(tb.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, kafkalog.DefaultTopic)
	require.NoError(tb, err)
}

// Close ends a publication under way. That it was closed does not say that nothing is stored.
func TestCloseUnderWay(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	publish(t, log, event(1, 0, 0))
	held := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(held)
		return nil, nil, true
	})
	go func() {
		<-held
		_ = log.Close()
	}()
	_, err := log.Publish(t.Context(), event(1, 0, 1))
	require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
	require.NotErrorIs(t, err, metadata.ErrClosed)
	_, err = log.Publish(t.Context(), event(1, 0, 1))
	require.ErrorIs(t, err, metadata.ErrClosed)
}

// The hook is called once for each call, with what the caller gets.
func TestPublishedHook(t *testing.T) {
	t.Parallel()
	var told []metadata.Publication
	cfg := config(newCluster(t), 1, 0)
	cfg.Hooks.Published = func(p metadata.Publication) { told = append(told, p) }
	log := open(t, cfg)
	publish(t, log, event(1, 0, 0), event(1, 0, 1))
	_, err := log.Publish(t.Context(), event(2, 0, 0))
	require.ErrorIs(t, err, metadata.ErrInvalid)
	require.Len(t, told, 2)
	require.Equal(t, 2, told[0].Stored)
	require.Positive(t, told[0].Bytes)
	require.Equal(t, err, told[1].Err)
}
