package main

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// producerIDBlock is the producer ids that this broker may still give out. None is given out twice, by any broker.
type producerIDBlock struct {
	mu         sync.Mutex
	next, last int64 // last not included
}

// answerInitProducerID gives an idempotent producer its id. A transactional one is refused.
func (b *broker) answerInitProducerID(request *kmsg.InitProducerIDRequest) kmsg.Response {
	response := respond[*kmsg.InitProducerIDResponse](request)
	response.ProducerID, response.ProducerEpoch = -1, -1
	if request.TransactionalID != nil {
		response.ErrorCode = codeInvalidRequest // see noGroups
		return response
	}
	id, err := b.nextProducerID()
	if err != nil {
		response.ErrorCode = codeUnknownServerError
		return response
	}
	response.ProducerID, response.ProducerEpoch = id, 0
	return response
}

func (b *broker) nextProducerID() (int64, error) {
	block := &b.producers
	block.mu.Lock()
	defer block.mu.Unlock()
	if block.next == block.last {
		first, err := b.controller.nextProducerIDs()
		if err != nil {
			return 0, err
		}
		block.next, block.last = first, first+producerIDs
	}
	block.next++
	return block.next - 1, nil
}
