package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/walstorage/segment"
)

const (
	acksAll  = -1
	acksNone = 0
	acksOne  = 1
)

// maxBatch is the largest batch that a producer may send (max.message.bytes).
const maxBatch = 1 << 20

// maxProduceWait is how long an answer waits for replicas at most, whatever the client says.
const maxProduceWait = 5 * time.Minute

// appended is one partition's part of a produce request, once it is in the leader's log.
type appended struct {
	partition *partition
	epoch     int32
	end       int64 // the offset after it
	answer    *kmsg.ProduceResponseTopicPartition
}

// answerProduce appends, and for acks=all the answer waits until the high watermark has passed what was appended.
func (b *broker) answerProduce(ctx context.Context, request *kmsg.ProduceRequest) (reply, error) {
	response := respond[*kmsg.ProduceResponse](request)
	refused := codeNone
	switch {
	case request.TransactionID != nil:
		refused = codeInvalidRequest // there are no transactions here
	case request.Acks != acksAll && request.Acks != acksOne && request.Acks != acksNone:
		refused = codeInvalidRequiredAcks
	}
	for _, t := range request.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		topic.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		response.Topics = append(response.Topics, topic)
	}
	var waiting []appended
	failed := false
	for i := range request.Topics {
		t := &request.Topics[i]
		known, code := b.findTopic(t.Topic, t.TopicID, request.Version >= 13)
		for j := range t.Partitions {
			answer := &response.Topics[i].Partitions[j]
			*answer = kmsg.NewProduceResponseTopicPartition()
			answer.Partition, answer.BaseOffset = t.Partitions[j].Partition, -1
			if answer.ErrorCode = max(refused, code); answer.ErrorCode != codeNone {
				failed = true
				continue
			}
			a := b.produce(ctx, known, request.Acks, t.Partitions[j].Records, answer)
			if answer.ErrorCode != codeNone {
				failed = true
				continue
			}
			waiting = append(waiting, a)
		}
	}
	switch request.Acks {
	case acksNone:
		// Nothing is answered; an error closes the connection, so that the client asks anew who leads.
		if failed {
			return reply{}, errUnacknowledged
		}
		return reply{}, nil
	case acksAll:
		until := time.Now().Add(min(time.Duration(request.TimeoutMillis)*time.Millisecond, maxProduceWait))
		return reply{response: response, complete: func(ctx context.Context) { awaitReplicas(ctx, until, waiting) }}, nil
	}
	return reply{response: response}, nil
}

var errUnacknowledged = errors.New("a produce request without acknowledgement has failed")

// produce appends one partition's batch and fills in its answer.
func (b *broker) produce(ctx context.Context, t *topic, acks int16, records []byte, answer *kmsg.ProduceResponseTopicPartition) appended {
	p, code := b.findPartition(t, answer.Partition)
	if code == codeNone {
		code = checkBatch(records)
	}
	if code != codeNone {
		answer.ErrorCode = code
		return appended{}
	}
	epoch, first, last, code := p.appendAsLeader(ctx, acks, records)
	answer.ErrorCode, answer.BaseOffset, answer.LogStartOffset = code, first, p.log.Start()
	return appended{partition: p, epoch: epoch, end: last + 1, answer: answer}
}

// checkBatch checks that a producer has sent one whole batch of format 2, and nothing of a transaction. What else a leader
// checks, checksum, sizes, timestamps and sequence numbers, the log does. The records stay what they are: this broker knows
// no codec.
func checkBatch(records []byte) int16 {
	h, err := batch.ParseHeader(records)
	switch {
	case errors.Is(err, batch.ErrUnsupportedMagic):
		return codeUnsupportedForFormat
	case err != nil || h.Length != len(records):
		return codeCorruptMessage
	case h.Attributes&(batch.Transactional|batch.Control) != 0:
		return codeInvalidRecord
	}
	return codeNone
}

// awaitReplicas waits until each append is on enough replicas, will not be, or the time is over.
func awaitReplicas(ctx context.Context, until time.Time, waiting []appended) {
	for _, a := range waiting { // one after the other takes as long as the longest
		code := codeRequestTimedOut
		a.partition.await(ctx, time.Until(until), func() bool {
			done, what := a.partition.acknowledged(a.epoch, a.end)
			if done {
				code = what
			}
			return done
		})
		if a.answer.ErrorCode = code; code != codeNone {
			a.answer.BaseOffset = -1
		}
	}
}

// findTopic finds a topic by its id or its name.
func (b *broker) findTopic(name string, id [16]byte, byID bool) (*topic, int16) {
	m := b.controller.current()
	if byID {
		if t := m.byID[id]; t != nil {
			return t, codeNone
		}
		return nil, codeUnknownTopicID
	}
	if t := m.Topics[name]; t != nil {
		return t, codeNone
	}
	return nil, codeUnknownTopicOrPartition
}

// findPartition finds this broker's replica.
func (b *broker) findPartition(t *topic, n int32) (*partition, int16) {
	if n < 0 || int(n) >= len(t.Partitions) {
		return nil, codeUnknownTopicOrPartition
	}
	p := b.partition(segment.PartitionKey{TopicID: t.ID, Partition: n})
	if p == nil {
		return nil, codeNotLeaderOrFollower
	}
	return p, codeNone
}
