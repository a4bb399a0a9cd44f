package kafkadata_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// What internal/batch reads from the headers equals Kafka's own dump, batch by batch (S3).
func TestHeadersEqualKafkasDump(t *testing.T) {
	codecs := []string{"none", "gzip", "snappy", "lz4", "zstd"}
	total := 0
	for _, topic := range kafkadata.Topics() {
		t.Run(topic.Name, func(t *testing.T) {
			var found []kafkadata.DumpBatch
			for _, segment := range topic.Segments {
				s := batch.NewScanner(segment.Log)
				for s.Next() {
					h := s.Header()
					assert.NoError(t, batch.VerifyCRC(s.Bytes()))
					read := kafkadata.DumpBatch{
						Segment: segment.BaseOffset, Position: s.Position(), Size: len(s.Bytes()),
						BaseOffset: h.BaseOffset, LastOffset: h.LastOffset(), Count: h.Records,
						BaseSequence: h.BaseSequence, LastSequence: -1,
						ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, LeaderEpoch: h.LeaderEpoch,
						Transactional: h.Attributes&batch.Transactional != 0, Control: h.Attributes&batch.Control != 0,
						HasDeleteHorizon: h.Attributes&batch.DeleteHorizon != 0,
						LogAppendTime:    h.Attributes&batch.LogAppendTime != 0,
						MaxTimestamp:     h.MaxTimestamp, Magic: h.Magic, Codec: codecs[h.Attributes&batch.CodecMask], CRC: h.CRC,
					}
					if h.BaseSequence >= 0 {
						read.LastSequence = h.BaseSequence + h.LastOffsetDelta
					}
					if read.HasDeleteHorizon {
						read.DeleteHorizon = h.BaseTimestamp
					}
					found = append(found, read)
				}
				require.NoError(t, s.Err())
				_, partial := s.PartialTail()
				require.False(t, partial)
			}
			require.Equal(t, topic.Batches, found)
			total += len(found)
		})
	}
	assert.Equal(t, 155, total, "every batch of every topic was compared")
}

// Every log goes through a builder and a reader byte for byte, one run for each leader epoch (S2, S4).
func TestEveryLogThroughASegment(t *testing.T) {
	builder, err := segment.NewBuilder(segment.BuilderConfig{Cluster: "4L6g3nShT-eMCtK--X86sw", TargetBytes: 1 << 20})
	require.NoError(t, err)
	id, err := walstorage.NewSegmentID(1, 1, time.UnixMilli(batchtest.Time), bytes.NewReader(make([]byte, 10)))
	require.NoError(t, err)

	var runs [][]kafkadata.Run
	topics := kafkadata.Topics()
	for i := range topics {
		runs = append(runs, topics[i].Runs())
	}
	// Segment n holds the nth epoch of every topic that has as many.
	got := map[string][]byte{}
	for n := range 4 {
		builder.Reset()
		for i, topic := range topics {
			if n >= len(runs[i]) {
				continue
			}
			run := runs[i][n]
			size := copy(builder.Buffer(len(run.Log)), run.Log)
			appended, err := builder.Append(segment.Run{
				Partition:   segment.TopicIDPartition{TopicID: topic.TopicID, Topic: topic.Name},
				LeaderEpoch: run.Epoch, EpochStart: run.Start, Base: run.Start,
			}, size)
			require.NoError(t, err, topic.Name)
			require.Equal(t, len(run.Log), appended.Bytes, topic.Name)
			require.Equal(t, run.End, appended.Next, topic.Name)
		}
		object, metadata, err := builder.Seal(id, nil)
		require.NoError(t, err)
		require.NoError(t, segment.VerifyObject(metadata, object))
		reader, err := segment.NewReader(object)
		require.NoError(t, err)
		for slice, err := range reader.All() {
			require.NoError(t, err)
			require.Len(t, slice.Data, int(slice.Slice.Length))
			got[slice.Partition.Topic] = append(got[slice.Partition.Topic], slice.Data...)
		}
	}
	require.Len(t, got, len(topics))
	for _, topic := range topics {
		assert.True(t, bytes.Equal(topic.Log(), got[topic.Name]), "%s differs", topic.Name)
	}
}

func TestTopics(t *testing.T) {
	topics := kafkadata.Topics()
	require.Len(t, topics, 13)
	ids := map[uuid.UUID]string{}
	for _, topic := range topics {
		assert.NotEqual(t, uuid.Nil, topic.TopicID)
		assert.Empty(t, ids[topic.TopicID], "two topics have one id")
		ids[topic.TopicID] = topic.Name
		assert.NotEmpty(t, topic.Segments)
		assert.NotEmpty(t, topic.Epochs)
		// The runs are the whole log.
		var all []byte
		for _, run := range topic.Runs() {
			all = append(all, run.Log...)
		}
		assert.True(t, bytes.Equal(topic.Log(), all), topic.Name)
	}
}
