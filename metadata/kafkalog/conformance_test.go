package kafkalog_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
	"github.com/walhop/walhop/walstorage"
)

// A log on a topic of a Kafka cluster keeps every rule that the suite checks, M1 to M5: with records that cannot be read
// (Q7), and with outcomes that stay unknown (Q12).
func TestConformance(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	spoiled := &spoiler{damage: make(map[walstorage.SegmentID]metadata.GapReason)}
	cfg := func(topic string, broker int32, epoch int64) kafkalog.Config {
		c := config(cluster, broker, epoch)
		c.Topic = topic
		c.Opts = []kgo.Opt{kgo.WithHooks(spoiled)}
		return c
	}
	conformance.RunMetadata(t, conformance.MetadataConfig{
		Report: caseresults.Record(t, "kfake"),
		Open: func(tb testing.TB, topic string, broker int32, epoch int64) metadata.Log {
			log, err := kafkalog.Open(tb.Context(), cfg(topic, broker, epoch))
			require.NoError(tb, err)
			return log
		},
		Damage: func(tb testing.TB, topic string, broker int32, reason metadata.GapReason) bool {
			newest := readAll(tb, cfg(topic, 99, 0), broker)
			spoiled.set(newest[len(newest)-1].Segment.ID, reason)
			return true
		},
		Unknown: func(tb testing.TB, topic string, broker int32, epoch int64, stored bool) metadata.Log {
			log, err := kafkalog.Open(tb.Context(), cfg(topic, broker, epoch))
			require.NoError(tb, err)
			fault := kerr.UnknownServerError // and nothing is stored
			if stored {
				fault = kerr.RequestTimedOut // of its replicas: the leader has it
			}
			return &unsure{Log: log, cluster: cluster, topic: topic, fault: fault}
		},
		Invalid: configtest.First(cfg("q32", 0, 0), wrongFields, func(c kafkalog.Config) error {
			return openAndClose(context.Background(), c)
		}),
	})
}

// unsure is a log whose first publication gets no answer that tells anything.
type unsure struct {
	*kafkalog.Log
	cluster *kfake.Cluster
	topic   string
	fault   *kerr.Error
	once    sync.Once
}

func (u *unsure) Publish(ctx context.Context, events ...*metadata.Event) (stored int, err error) {
	u.once.Do(func() {
		unanswered := u.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: u.topic, Err: u.fault, Count: -1})
		defer unanswered.Remove()
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		stored, err = u.Log.Publish(ctx, events...)
		events = nil
	})
	if events == nil {
		return stored, err
	}
	return u.Log.Publish(ctx, events...)
}

// spoiler makes events unreadable on their way from the cluster to a reader.
type spoiler struct {
	mu     sync.Mutex
	damage map[walstorage.SegmentID]metadata.GapReason
}

func (s *spoiler) set(id walstorage.SegmentID, reason metadata.GapReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damage[id] = reason
}

// OnFetchRecordBuffered is called by the client for each record before anyone sees it.
func (s *spoiler) OnFetchRecordBuffered(r *kgo.Record) {
	var event metadata.Event
	if event.UnmarshalBinary(r.Value) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.damage[event.Segment.ID] {
	case metadata.GapCorrupt:
		r.Value = append(r.Value[:len(r.Value)/2:len(r.Value)/2], 0xff)
	case metadata.GapUnknownVersion:
		r.Value = append([]byte(nil), r.Value...)
		r.Value[1] = 0x7f
	}
}

// readAll returns the events of a broker that the topic holds.
func readAll(tb testing.TB, cfg kafkalog.Config, broker int32) (events []*metadata.Event) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Seeds...), kgo.ConsumeTopics(cfg.Topic), kgo.FetchMaxWait(50*time.Millisecond))
	require.NoError(tb, err)
	defer client.Close()
	for ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second); ; {
		defer cancel()
		fetches := client.PollFetches(ctx)
		require.NoError(tb, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			event := new(metadata.Event)
			if event.UnmarshalBinary(r.Value) == nil && event.Segment.ID.BrokerID == broker {
				events = append(events, event)
			}
		})
		if len(events) > 0 {
			return events
		}
	}
}
