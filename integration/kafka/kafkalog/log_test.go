package kafkalog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/integration/kafka"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// config is that of a broker on a topic of the cluster.
func config(cluster *kafka.Cluster, topic string, broker int32, epoch int64) kafkalog.Config {
	return kafkalog.Config{
		Seeds: cluster.Addresses(), Topic: topic, Partitions: 3, ReplicationFactor: int16(len(cluster.Brokers())),
		Broker: broker, BrokerEpoch: epoch, RefreshInterval: 200 * time.Millisecond,
	}
}

// open opens a log, which is closed with the test.
func open(tb testing.TB, cfg kafkalog.Config) *kafkalog.Log {
	tb.Helper()
	log, err := kafkalog.Open(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, log.Close()) })
	return log
}

// publisher publishes events as a leader does: one call at a time, and what is not stored for certain is published again,
// unchanged, until it is (L5).
type publisher struct {
	log    metadata.Log
	broker int32
	epoch  int64
	// events are those that are stored, each once.
	events []*metadata.Event
	// unknown counts the calls whose outcome was unknown, failed those that were refused or not answered otherwise.
	unknown, failed int
}

// publish publishes n more events, in calls of up to 3, with a pause between two calls.
func (p *publisher) publish(ctx context.Context, n int, pause time.Duration) error {
	for n > 0 {
		var call []*metadata.Event
		for range min(n, 1+len(p.events)%3) {
			call = append(call, newEvent(p.broker, p.epoch, int64(len(p.events)+len(call)), 8))
		}
		n -= len(call)
		for len(call) > 0 {
			stored, err := p.log.Publish(ctx, call...)
			p.events = append(p.events, call[:stored]...)
			call = call[stored:]
			switch {
			case err == nil:
			case ctx.Err() != nil, errors.Is(err, metadata.ErrFenced), errors.Is(err, metadata.ErrInvalid), errors.Is(err, metadata.ErrClosed):
				return err
			case errors.Is(err, metadata.ErrUnknownOutcome):
				p.unknown++
			default:
				p.failed++
			}
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// subscribe subscribes, until the test ends.
func subscribe(tb testing.TB, log metadata.Log, from metadata.Position) metadata.Subscription {
	tb.Helper()
	sub, err := log.Subscribe(tb.Context(), from)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, sub.Close()) })
	return sub
}

// pauseAfterError is before a call of Next is tried again.
const pauseAfterError = 50 * time.Millisecond

// The positions of tests: the end, and before any event.
var theEnd, theBeginning = metadata.Position{}, metadata.Position{Time: time.Unix(1, 0)}

// read reads until it has n events, and returns those of each broker and the gaps.
func read(tb testing.TB, sub metadata.Subscription, n int) (events map[int32][]*metadata.Event, gaps []metadata.Gap) {
	tb.Helper()
	return readUntil(tb, sub, func(*metadata.Event) bool { n--; return n == 0 })
}

// readUntil reads until the last event.
func readUntil(tb testing.TB, sub metadata.Subscription, last func(*metadata.Event) bool) (events map[int32][]*metadata.Event, gaps []metadata.Gap) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	events = make(map[int32][]*metadata.Event)
	for {
		item, err := sub.Next(ctx)
		switch {
		case ctx.Err() != nil:
			for broker, some := range events {
				tb.Logf("%d events of broker %d", len(some), broker)
			}
			tb.Fatalf("the events do not come: %v, gaps %v", err, gaps)
		case err != nil:
			require.NotErrorIs(tb, err, metadata.ErrClosed)
			_ = sleep(ctx, pauseAfterError)
		case item.Gap != nil:
			gaps = append(gaps, *item.Gap)
		default:
			broker := item.Event.Segment.ID.BrokerID
			events[broker] = append(events[broker], item.Event.Clone())
			if last(item.Event) {
				return events, gaps
			}
		}
	}
}

// wantAll demands that what was read is what was published: each event once, whole, those of each broker in their order,
// and nothing is said to be missing.
func wantAll(tb testing.TB, sub metadata.Subscription, publishers ...*publisher) {
	tb.Helper()
	n := 0
	for _, p := range publishers {
		n += len(p.events)
	}
	events, gaps := read(tb, sub, n)
	require.Empty(tb, gaps)
	for _, p := range publishers {
		require.Equal(tb, len(p.events), len(events[p.broker]), "events of broker %d", p.broker)
		for i, e := range p.events {
			require.Equal(tb, e, events[p.broker][i], "event %d of broker %d", i, p.broker)
		}
	}
}
