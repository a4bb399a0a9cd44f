package kafkalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errForeignBatch says that the partition took a batch for one that it had already, and that one is another writer's.
var errForeignBatch = errors.New("kafkalog: another writer has begun the same producer epoch")

// prove reads back the first batch of a producer epoch that was counted up. A writer that takes over and the one before it
// may count up to the same epoch at once, each without having seen the other. To the partition both are one producer, and
// the first batch of the second one is a repetition, if it holds as many records: it answers that it is stored, and drops
// it. Whose batch stands there is told by the first event. Once that is proven the producer epoch is this writer's alone:
// the other one is told its own fault in the same way, or by its sequence.
func (w *writer) prove(ctx context.Context, b batch, base int64) error {
	if w.proven {
		return nil
	}
	if base < 0 { // the answer does not tell where it stands
		return kerr.OffsetOutOfRange
	}
	answer, err := w.fetch(ctx, base)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("reading back a batch: %w", err)
	}
	theirs, ours := w.firstRecord(answer, base), w.firstRecord(&kmsg.FetchResponseTopicPartition{RecordBatches: b.bytes}, 0)
	switch {
	case theirs == nil: // the leader is new and does not know yet what is committed
		return kerr.OffsetNotAvailable
	case !bytes.Equal(theirs.Value, ours.Value):
		return errForeignBatch
	}
	w.proven = true
	return nil
}

// unproven says what becomes of a batch that could not be proven.
func (w *writer) unproven(ctx context.Context, err error, unsure *bool) error {
	switch {
	case errors.Is(err, errForeignBatch): // nothing of this batch is stored
		w.known = false
		w.foreign = append(w.foreign, producer{id: w.producer.id, epoch: w.producer.epoch})
		if err := w.look(ctx); err != nil {
			return err
		}
	case errors.Is(err, kerr.OffsetOutOfRange): // what stood there is gone: nobody can tell whose it was
		w.known = false
		*unsure = true
	default:
		w.place.leader = -1
		*unsure = true
	}
	return retry{classify(err, "publishing", "READ on topic "+w.cfg.Topic)}
}

// firstRecord returns the record at the offset, nil if it is not there.
func (w *writer) firstRecord(answer *kmsg.FetchResponseTopicPartition, offset int64) *kgo.Record {
	partition, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: offset}, answer, decompressor(w.client), nil)
	if len(partition.Records) == 0 || partition.Records[0].Offset != offset {
		return nil
	}
	return partition.Records[0]
}
