package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
)

// writer is the producing half. One call at a time uses it.
type writer struct {
	cfg     Config
	client  *kgo.Client
	encoder *encoder
	place   place

	producer producer
	// known says that producer may be used. Otherwise the next batch begins a new producer epoch: of the same producer id
	// if there is one, or of the predecessor's.
	known bool
	// proven says that producer is this writer's alone: its epoch was given by the cluster, or its first batch has been read
	// back.
	proven bool
	// own holds the producer ids that this writer has used, each with its first epoch: records of theirs are its own.
	own map[int64]int16
	// foreign holds producers of such an id that have turned out to be another writer's, see prove.
	foreign []producer

	watch
	terminal error // why nothing can ever be published again
}

// place is where the writer's partition is.
type place struct {
	leader int32 // -1 if it is not known
	topic  [16]byte
}

func newWriter(cfg Config, client *kgo.Client, limit int) *writer {
	w := &writer{cfg: cfg, client: client, encoder: newEncoder(cfg), own: make(map[int64]int16)}
	w.encoder.limit = limit
	w.producer.id, w.place.leader, w.seen = -1, -1, -1
	return w
}

func tooLarge(size, limit int) error {
	return fmt.Errorf("%w: it takes %d bytes, and the topic takes batches of %d (max.message.bytes)", metadata.ErrInvalid, size, limit)
}

// publish sends the events in as few batches as the topic's limit allows.
func (w *writer) publish(ctx context.Context, events []*metadata.Event) (stored int, size int64, err error) {
	for {
		batches, wrong := w.encoder.encode(events[stored:], &w.cfg)
		if len(batches) == 0 {
			return stored, size, wrong
		}
		if w.terminal != nil {
			return stored, size, w.terminal
		}
		if !w.known || time.Since(w.looked) >= lookInterval { // L6
			if err := w.look(ctx); err != nil {
				return stored, size, err // nothing has been sent
			}
		}
		err := w.sendAll(ctx, batches, &stored, &size)
		if !errors.Is(err, errTogether) {
			return stored, size, cmp.Or(err, wrong)
		}
		w.encoder.single = true
	}
}

// errTogether says that the events of a batch are too large together.
var errTogether = errors.New("kafkalog: the topic's max.message.bytes has been lowered")

// sendAll sends the batches one after the other and counts what is stored.
func (w *writer) sendAll(ctx context.Context, batches []batch, stored *int, size *int64) error {
	for _, b := range batches {
		if err := w.send(ctx, b); err != nil {
			return err
		}
		*stored += b.events
		*size += int64(len(b.bytes))
	}
	return nil
}

// send sends a batch until there is an answer. An error that is not [metadata.ErrUnknownOutcome] says that nothing of the
// batch is stored.
func (w *writer) send(ctx context.Context, b batch) error {
	var pause pauses
	var last error
	unsure := false // an attempt of this batch may be stored, or land later
	for {
		err := w.attempt(ctx, b, &unsure)
		if err == nil {
			return nil
		}
		last = telling(last, err)
		if again(err) && pause.wait(ctx) == nil {
			continue
		}
		if unsure {
			w.known = false                                               // what is still on its way is refused once the next epoch has written
			return fmt.Errorf("%w: %v", metadata.ErrUnknownOutcome, last) // whatever it is, it is not certain (M1)
		}
		return last
	}
}

// retry is an error after which the batch may be sent again.
type retry struct{ error }

func (r retry) Unwrap() error { return r.error }

func again(err error) bool {
	var r retry
	return errors.As(err, &r)
}

// attempt sends the batch once.
func (w *writer) attempt(ctx context.Context, b batch, unsure *bool) error {
	if err := ctx.Err(); err != nil {
		return classify(err, "publishing", "")
	}
	if err := w.locate(ctx); err != nil {
		return retry{err}
	}
	if err := w.introduce(ctx); err != nil {
		return err
	}
	b.stamp(w.producer)
	answer, err := w.produce(ctx, b)
	if err != nil {
		w.place.leader = -1
		if !neverSent(err) {
			*unsure = true
		}
		return retry{classify(err, "publishing", "")}
	}
	err = kerr.ErrorForCode(answer.ErrorCode)
	switch {
	case err == nil, errors.Is(err, kerr.DuplicateSequenceNumber): // an earlier attempt was stored
		if err := w.prove(ctx, b, answer.BaseOffset); err != nil {
			return w.unproven(ctx, err, unsure)
		}
		w.producer = w.producer.after(b.events)
		w.wrote(answer.BaseOffset, b.events)
		return nil
	case errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.ProducerFenced):
		// Another writer of this broker id has taken over (L6). Which one is newer is told by its records.
		if err := w.look(ctx); err != nil {
			return err
		}
		if !w.hasLatest || w.latest.id != w.producer.id {
			w.producer.id = -1 // whoever it was has left no trace
		}
		w.known = false
		return retry{err}
	case errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.UnknownProducerID), errors.Is(err, kerr.InvalidProducerIDMapping):
		// The partition has lost what it knew of this producer: it was created again, or an unclean leader was elected.
		w.known = false
		return retry{err}
	case errors.Is(err, kerr.NotEnoughReplicasAfterAppend), errors.Is(err, kerr.RequestTimedOut), errors.Is(err, kerr.UnknownServerError),
		errors.Is(err, kerr.KafkaStorageError),
		errors.Is(err, kerr.NotLeaderForPartition): // also said of what has been appended, by one that stops being the leader meanwhile
		*unsure = true // the next attempt has the same sequence, so the broker knows the batch if it has it
		w.place.leader = -1
		return retry{err}
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		if b.events > 1 {
			return fmt.Errorf("%w: %w", errTogether, err)
		}
		return fmt.Errorf("%w: %w", tooLarge(len(b.bytes), w.encoder.limit), err)
	case kerr.IsRetriable(err):
		w.place.leader = -1
		return retry{classify(err, "publishing", "")}
	}
	return classify(err, "publishing", "WRITE on topic "+w.cfg.Topic)
}

// neverSent tells whether an error of a request says that it has not left this process.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// produce is one produce request.
func (w *writer) produce(ctx context.Context, b batch) (*kmsg.ProduceResponseTopicPartition, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = timeoutMillis(ctx)
	topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, topic.TopicID = w.cfg.Topic, w.place.topic
	partition.Partition, partition.Records = w.cfg.partition(), b.bytes
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	response, err := w.client.Broker(int(w.place.leader)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := response.(*kmsg.ProduceResponse)
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return nil, errAnswer
	}
	return &answer.Topics[0].Partitions[0], nil
}

var errAnswer = errors.New("the broker's answer is not to the question")

// attemptLimit is how long a broker may wait for its replicas. It is told to the broker in the request, and the client gives
// one that is not heard of up so much and 5 s later: a leader that is gone without a word holds a call up no longer than an
// election takes.
const attemptLimit = 5 * time.Second

func timeoutMillis(ctx context.Context) int32 {
	limit := attemptLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	return int32(max(limit.Milliseconds(), 1))
}

// locate finds the leader of the partition.
func (w *writer) locate(ctx context.Context) error {
	if w.place.leader >= 0 {
		return nil
	}
	detail, err := describe(ctx, w.client, w.cfg.Topic)
	if err != nil {
		return err
	}
	for _, partition := range detail.Partitions {
		if partition.Partition != w.cfg.partition() {
			continue
		}
		if partition.Leader < 0 {
			return classify(kerr.LeaderNotAvailable, "publishing", "")
		}
		if w.place.topic != detail.TopicID {
			w.seen = -1 // the topic was created again: its offsets mean something else
		}
		w.place = place{partition.Leader, detail.TopicID}
		return nil
	}
	return classify(kerr.UnknownTopicOrPartition, "publishing", "")
}

// describe asks for the topic's partitions and their leaders.
func describe(ctx context.Context, client *kgo.Client, name string) (*kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	response, err := client.Request(ctx, req)
	if err != nil {
		return nil, classify(err, "looking for topic "+name, "")
	}
	answer := response.(*kmsg.MetadataResponse)
	if len(answer.Topics) != 1 {
		return nil, errAnswer
	}
	return &answer.Topics[0], classify(kerr.ErrorForCode(answer.Topics[0].ErrorCode), "looking for topic "+name, "DESCRIBE on topic "+name)
}

// introduce makes the writer a producer that the partition accepts: with the next epoch of its own producer id, of the
// predecessor's, or with a new one.
func (w *writer) introduce(ctx context.Context) error {
	if w.known {
		return nil
	}
	p := w.producer
	switch {
	case !w.hasLatest:
	case p.id < 0, p.id == w.latest.id && p.epoch < w.latest.epoch:
		p = w.latest
	}
	w.hasLatest = false
	if p.id < 0 || p.epoch == math.MaxInt16 {
		fresh, err := w.freshProducer(ctx)
		if err != nil {
			return err
		}
		p, w.proven = fresh, true
	} else {
		p.epoch++
		w.proven = false
	}
	p.sequence = 0
	if _, ok := w.own[p.id]; !ok {
		w.own[p.id] = p.epoch
	}
	w.producer, w.known = p, true
	return nil
}

// freshProducer asks for a producer id that nobody has used.
func (w *writer) freshProducer(ctx context.Context) (producer, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = math.MaxInt32 // there is no transaction
	response, err := w.client.Request(ctx, req)
	if err == nil {
		answer := response.(*kmsg.InitProducerIDResponse)
		if err = kerr.ErrorForCode(answer.ErrorCode); err == nil {
			return producer{id: answer.ProducerID, epoch: answer.ProducerEpoch}, nil
		}
	}
	needs := "WRITE on topic " + w.cfg.Topic
	err = classify(err, "asking for a producer id", needs)
	if isPassing(err) {
		err = retry{err}
	}
	return producer{}, err
}
