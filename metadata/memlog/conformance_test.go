package memlog_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage"
)

// The reference log keeps every rule that the suite checks, M1 to M5, its scripted faults included: damaged events (Q7)
// and unknown outcomes (Q12).
func TestConformance(t *testing.T) {
	topics := &topics{topics: make(map[string]*memlog.Topic), damaged: make(map[walstorage.SegmentID]metadata.GapReason)}
	conformance.RunMetadata(t, conformance.MetadataConfig{
		Report: caseresults.Record(t, "memlog"),
		Open: func(tb testing.TB, topic string, broker int32, epoch int64) metadata.Log {
			return topics.open(tb, topic, memlog.Options{Broker: broker, BrokerEpoch: epoch})
		},
		Damage: topics.damage,
		Unknown: func(tb testing.TB, topic string, broker int32, epoch int64, stored bool) metadata.Log {
			return topics.open(tb, topic, memlog.Options{Broker: broker, BrokerEpoch: epoch, Faults: memlog.Faults{
				Publish: func(call memlog.PublishCall) memlog.PublishFault {
					if call.Number > 0 {
						return memlog.PublishFault{}
					}
					fault := memlog.PublishFault{Err: metadata.ErrUnknownOutcome}
					if stored {
						fault.Stored = call.Events
					}
					return fault
				},
			}})
		},
		Invalid: map[string]func() error{
			"Retention": func() error {
				_, err := memlog.New(memlog.Config{Retention: -1})
				return err
			},
			"Broker":       invalid(memlog.Options{Broker: -1}),
			"BrokerEpoch":  invalid(memlog.Options{BrokerEpoch: -1}),
			"EventVersion": invalid(memlog.Options{EventVersion: 99}),
		},
	})
}

func invalid(options memlog.Options) func() error {
	return func() error {
		topic, err := memlog.New(memlog.Config{})
		if err != nil {
			return err
		}
		_, err = topic.Open(options)
		return err
	}
}

// topics are the topics of a suite by name, and the events in them that cannot be read.
type topics struct {
	mu      sync.Mutex
	topics  map[string]*memlog.Topic
	damaged map[walstorage.SegmentID]metadata.GapReason
}

func (s *topics) topic(tb testing.TB, name string) *memlog.Topic {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[name] == nil {
		topic, err := memlog.New(memlog.Config{})
		require.NoError(tb, err)
		s.topics[name] = topic
	}
	return s.topics[name]
}

func (s *topics) open(tb testing.TB, name string, options memlog.Options) metadata.Log {
	options.Faults.Deliver = func(d memlog.Delivery) memlog.DeliveryFault {
		s.mu.Lock()
		defer s.mu.Unlock()
		reason := s.damaged[d.Segment]
		return memlog.DeliveryFault{
			Corrupt: reason == metadata.GapCorrupt, UnknownVersion: reason == metadata.GapUnknownVersion,
		}
	}
	log, err := s.topic(tb, name).Open(options)
	require.NoError(tb, err)
	return log
}

func (s *topics) damage(tb testing.TB, name string, broker int32, reason metadata.GapReason) bool {
	events := s.topic(tb, name).Events()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(events) - 1; i >= 0; i-- {
		if id := events[i].Segment.ID; id.BrokerID == broker {
			s.damaged[id] = reason
			return true
		}
	}
	return false
}
