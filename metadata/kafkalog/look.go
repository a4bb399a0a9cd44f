package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
)

const (
	// lookInterval is how old a look may be before a write. A look is one round trip and reads what others have written
	// to the partition since.
	lookInterval = time.Second
	// A first look reads back so many records, and if there is none of its own broker, so many. Others' records are there
	// only where the cluster has more brokers than the topic has partitions.
	lookBack    = 64
	lookFurther = 1024
)

// watch is what a writer knows of the others of its broker id (L6).
type watch struct {
	looked time.Time
	seen   int64 // the partition has been looked at up to here; -1 if not yet
	// latest is the last foreign producer of this broker id that was seen, if hasLatest.
	latest    producer
	hasLatest bool
}

// wrote notes where a batch of this writer was stored. What others wrote before it is looked at later.
func (w *writer) wrote(base int64, records int) {
	if base == w.seen {
		w.seen += int64(records)
	}
}

// look reads what is new in the partition. It returns [metadata.ErrFenced], for good, if a newer epoch of this broker has
// published, or another writer in this one's.
func (w *writer) look(ctx context.Context) error {
	var pause pauses
	for {
		err := w.lookOnce(ctx)
		if err == nil {
			w.looked = time.Now()
			return nil
		}
		w.place.leader = -1 // also for the next call: one that answers nothing may use up this one's time
		if !again(err) || pause.wait(ctx) != nil {
			return err
		}
	}
}

func (w *writer) lookOnce(ctx context.Context) error {
	if w.terminal != nil {
		return w.terminal
	}
	if err := w.locate(ctx); err != nil {
		if errors.Is(err, ErrAuthorization) {
			return err
		}
		return retry{err}
	}
	if w.seen >= 0 {
		return w.readOn(ctx, w.seen)
	}
	start, end, err := w.bounds(ctx)
	if err != nil {
		return err
	}
	for _, back := range []int64{lookBack, lookFurther} {
		if err := w.readOn(ctx, max(start, end-back)); err != nil {
			return err
		}
		if w.hasLatest || end-back <= start {
			break
		}
	}
	return nil
}

// readOn reads the partition from the offset given to its end.
func (w *writer) readOn(ctx context.Context, offset int64) error {
	for {
		answer, err := w.fetch(ctx, offset)
		if err != nil {
			return retry{classify(err, "looking at the partition", "")}
		}
		switch err := kerr.ErrorForCode(answer.ErrorCode); {
		case errors.Is(err, kerr.OffsetOutOfRange): // retention has passed it, or the log was cut: look anew
			w.seen = -1
			return retry{err}
		case kerr.IsRetriable(err):
			return retry{classify(err, "looking at the partition", "")}
		case err != nil:
			return classify(err, "looking at the partition", "READ on topic "+w.cfg.Topic)
		}
		if most := answer.HighWatermark - lookFurther; offset < most { // whoever is newer is writing now
			offset = most
			continue
		}
		records, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			Offset: offset, Topic: w.cfg.Topic, Partition: answer.Partition,
		}, answer, decompressor(w.client), nil)
		for _, r := range records.Records {
			if err := w.meet(r); err != nil {
				return err
			}
		}
		if next == offset && answer.HighWatermark > offset { // what cannot be read fences nobody
			next = behind(offset, records.Err)
		}
		w.seen, offset = next, next
		if offset >= answer.HighWatermark {
			return nil
		}
	}
}

// behind is where to go on after a batch at the offset that cannot be read. Only one that is too large tells where it ends.
func behind(offset int64, err error) int64 {
	var large *kgo.ErrDecompressTooLarge
	if errors.As(err, &large) {
		return max(offset+1, large.NextOffset)
	}
	return offset + 1
}

// decompressor is that of the client, which is bounded.
func decompressor(client *kgo.Client) kgo.Decompressor {
	return client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
}

// meet looks at a record of the partition.
func (w *writer) meet(r *kgo.Record) error {
	broker, epoch, ok := identify(r)
	if !ok || broker != w.cfg.Broker {
		return nil
	}
	first, own := w.own[r.ProducerID]
	own = own && r.ProducerEpoch >= first && (r.ProducerID != w.producer.id || r.ProducerEpoch <= w.producer.epoch) &&
		!slices.Contains(w.foreign, producer{id: r.ProducerID, epoch: r.ProducerEpoch})
	switch {
	case epoch > w.cfg.BrokerEpoch:
		w.terminal = fmt.Errorf("%w: broker %d, epoch %d, by epoch %d", metadata.ErrFenced, w.cfg.Broker, w.cfg.BrokerEpoch, epoch)
		return w.terminal
	case epoch == w.cfg.BrokerEpoch && !own:
		w.terminal = fmt.Errorf("%w: epoch %d of broker %d was used before, by another writer", metadata.ErrFenced, epoch, w.cfg.Broker)
		return w.terminal
	case !own:
		w.latest, w.hasLatest = producer{id: r.ProducerID, epoch: r.ProducerEpoch}, r.ProducerID >= 0
	}
	return nil
}

// identify tells whose record it is. The epoch is -1 where the record does not tell it.
func identify(r *kgo.Record) (broker int32, epoch int64, ok bool) {
	id, err := strconv.ParseInt(string(r.Key), 10, 32)
	if err != nil || id < 0 {
		return 0, 0, false
	}
	epoch = -1
	for _, h := range r.Headers {
		if h.Key != epochHeader {
			continue
		}
		if n, err := strconv.ParseInt(string(h.Value), 10, 64); err == nil && n >= 0 {
			epoch = n
		}
	}
	return int32(id), epoch, true
}

// fetch reads from the leader without waiting.
func (w *writer) fetch(ctx context.Context, offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 4 << 20
	topic, partition := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, topic.TopicID = w.cfg.Topic, w.place.topic
	partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = w.cfg.partition(), offset, 4<<20
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	response, err := w.client.Broker(int(w.place.leader)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := response.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return nil, errAnswer
	}
	return &answer.Topics[0].Partitions[0], nil
}

// bounds asks where the partition begins and ends.
func (w *writer) bounds(ctx context.Context) (start, end int64, err error) {
	for at, to := range map[int64]*int64{listStart: &start, listEnd: &end} {
		offsets, err := listOffsets(ctx, w.client, w.cfg.Topic, []int32{w.cfg.partition()}, at)
		if err != nil {
			return 0, 0, err
		}
		*to = offsets[w.cfg.partition()].offset
	}
	return start, end, nil
}
