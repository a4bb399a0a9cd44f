package unifiedlog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/unifiedlog"
)

// The last stable offset waits for every transaction to be decided, and for its marker to be replicated.
func TestLastStableOffset(t *testing.T) {
	log := open(t, unifiedlog.Config{Dir: t.TempDir(), ProducerExpiration: forever})
	lead := func(raw []byte) {
		t.Helper()
		_, err := log.AppendAsLeader(t.Context(), 1, raw)
		require.NoError(t, err)
	}
	end := func(raw []byte) {
		t.Helper()
		_, err := log.AppendMarkers(t.Context(), 1, raw)
		require.NoError(t, err)
	}
	stable := func(highWatermark, want int64) {
		t.Helper()
		log.SetHighWatermark(highWatermark)
		assert.Equal(t, want, log.LastStableOffset())
	}
	lead(batchtest.Make(0, 0, "0", "1"))
	stable(2, 2)
	lead(transactional(7, 0, "2"))
	lead(transactional(8, 0, "3"))
	stable(2, 2)
	stable(4, 2)
	end(marker(7, true)) // 4
	stable(4, 2)         // the marker is not replicated
	stable(5, 3)
	lead(batchtest.Make(0, 0, "5"))
	end(marker(8, false)) // 6
	stable(6, 3)
	stable(7, 7)

	aborted, err := log.AbortedTransactions(t.Context(), 0, 7)
	require.NoError(t, err)
	assert.Equal(t, []unifiedlog.AbortedTransaction{{ProducerID: 8, First: 3, Last: 6}}, aborted)
	for _, none := range [][2]int64{{0, 3}, {7, 9}} {
		aborted, err = log.AbortedTransactions(t.Context(), none[0], none[1])
		require.NoError(t, err)
		assert.Empty(t, aborted)
	}

	// A truncation opens the transaction again that it takes the marker of.
	_, err = log.TruncateTo(6)
	require.NoError(t, err)
	stable(6, 3)
	aborted, err = log.AbortedTransactions(t.Context(), 0, 6)
	require.NoError(t, err)
	assert.Empty(t, aborted)
	end(marker(8, true))
	stable(7, 7)
	aborted, err = log.AbortedTransactions(t.Context(), 0, 7)
	require.NoError(t, err)
	assert.Empty(t, aborted)
}

// What a coordinator writes is checked too.
func TestMarkersAreFenced(t *testing.T) {
	log := open(t, unifiedlog.Config{Dir: t.TempDir(), ProducerExpiration: forever})
	_, err := log.AppendAsLeader(t.Context(), 1, transactional(7, 0, "a"))
	require.NoError(t, err)
	control := func(epoch int16, coordinator byte, kind byte) []byte {
		spec := batchtest.NewSpec(0, 0)
		spec.ProducerID, spec.ProducerEpoch, spec.Records = 7, epoch, 1
		spec.Attributes = batch.Transactional | batch.Control
		spec.Payload = batchtest.AppendRecord(nil, 0, 0, []byte{0, 0, 0, kind}, []byte{0, 0, 0, 0, 0, coordinator})
		return spec.Bytes()
	}
	appended, err := log.AppendMarkers(t.Context(), 1, control(1, 5, 1))
	require.NoError(t, err)
	assert.EqualValues(t, 1, appended.First)
	for name, test := range map[string]struct {
		raw  []byte
		want error
	}{
		"an old producer epoch":  {control(0, 5, 1), unifiedlog.ErrProducerFenced},
		"an old coordinator":     {control(1, 4, 1), unifiedlog.ErrCoordinatorFenced},
		"another control record": {control(1, 5, 2), unifiedlog.ErrInvalidRecord},
		"a data batch":           {transactional(7, 0, "b"), unifiedlog.ErrInvalidRecord},
	} {
		appended, err := log.AppendMarkers(t.Context(), 1, test.raw)
		assert.ErrorIs(t, err, test.want, name)
		assert.EqualValues(t, -1, appended.First, name)
	}
	producers := log.Producers()
	require.Len(t, producers, 1)
	assert.Equal(t, unifiedlog.ProducerInfo{
		ID: 7, Epoch: 1, LastSequence: -1, LastOffset: -1, LastTimestamp: batchtest.Time, CoordinatorEpoch: 5, TxnFirst: -1,
	}, producers[0])
}

// A reader of committed records gets of the transactions that a real broker wrote those that committed.
func TestReadCommittedOfKafkasTransactions(t *testing.T) {
	for _, topic := range kafkadata.Topics() {
		if topic.Name != "txn" {
			continue
		}
		log := open(t, kafkaConfig(topic.Name, t.TempDir()))
		appendRun(t, log, 0, topic.Log(), 4)
		log.SetHighWatermark(25)
		require.EqualValues(t, 25, log.LastStableOffset())
		aborted, err := log.AbortedTransactions(t.Context(), 0, 25)
		require.NoError(t, err)
		assert.Equal(t, []unifiedlog.AbortedTransaction{
			{ProducerID: 2, First: 6, Last: 10}, {ProducerID: 2, First: 17, Last: 23},
		}, aborted)

		var committed []int64
		for s := batch.NewScanner(topic.Log()); s.Next(); {
			h := s.Header()
			skip := h.Attributes&batch.Control != 0
			for _, a := range aborted {
				skip = skip || h.ProducerID == a.ProducerID && h.BaseOffset >= a.First && h.BaseOffset <= a.Last
			}
			for o := h.BaseOffset; o <= h.LastOffset() && !skip; o++ {
				committed = append(committed, o)
			}
		}
		assert.Len(t, committed, 13)
	}
}
