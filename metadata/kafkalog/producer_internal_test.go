package kafkalog

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
)

// Sequences begin again at 0 after the greatest, as Kafka counts them.
func TestSequencesWrap(t *testing.T) {
	for _, test := range []struct {
		at      int32
		records int
		want    int32
	}{{0, 1, 1}, {10, 5, 15}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 1, math.MaxInt32}, {math.MaxInt32 - 2, 10, 7}} {
		require.Equal(t, test.want, producer{sequence: test.at}.after(test.records).sequence)
	}
}

// The epochs of a producer id are 16 bits: after the last one the writer goes on with a new id.
func TestEpochsRunOut(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer cluster.Close()
	log, err := Open(t.Context(), Config{Seeds: cluster.ListenAddrs(), ReplicationFactor: 1, Broker: 1})
	require.NoError(t, err)
	defer log.Close()
	publish := func(sequence int64) producer {
		_, err := log.Publish(t.Context(), testevent.New(1, 0, sequence))
		require.NoError(t, err)
		return log.writer.producer
	}
	first := publish(0)
	require.Equal(t, int32(1), first.sequence)

	log.writer.known, log.writer.producer.epoch = false, math.MaxInt16-1
	last := publish(1)
	require.Equal(t, producer{id: first.id, epoch: math.MaxInt16, sequence: 1}, last)
	log.writer.known = false
	fresh := publish(2)
	require.NotEqual(t, first.id, fresh.id)
	require.Equal(t, producer{id: fresh.id, sequence: 1}, fresh)
	require.Equal(t, fresh.after(1), publish(3))
}

// What an encoder says a batch takes is no less than it takes, at any size of an event.
func TestRecordOverhead(t *testing.T) {
	cfg, err := Config{Seeds: []string{"x"}, Broker: math.MaxInt32, BrokerEpoch: math.MaxInt64}.withDefaults()
	require.NoError(t, err)
	e := newEncoder(cfg)
	e.limit = math.MaxInt32
	for _, partitions := range []int{1, 64, 4000} {
		event := testevent.Sized(1, partitions)
		event.Segment.ID.BrokerID, event.Segment.ID.BrokerEpoch = math.MaxInt32, math.MaxInt64
		testevent.Finish(event)
		batches, err := e.encode([]*metadata.Event{event}, &cfg)
		require.NoError(t, err)
		require.Len(t, batches, 1)
		require.LessOrEqual(t, len(batches[0].bytes), event.EncodedLen()+maxRecordOverhead)

		// At the limit it goes, below it does not.
		tight := newEncoder(cfg)
		tight.limit = len(batches[0].bytes)
		_, err = tight.encode([]*metadata.Event{event}, &cfg)
		require.NoError(t, err)
		tight.limit--
		_, err = tight.encode([]*metadata.Event{event}, &cfg)
		require.ErrorIs(t, err, metadata.ErrInvalid)
	}
}
