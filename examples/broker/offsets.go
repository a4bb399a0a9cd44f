package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The times that stand for offsets in a ListOffsets request.
const (
	timeLatest        = -1
	timeEarliest      = -2
	timeMax           = -3 // the record with the largest timestamp
	timeEarliestLocal = -4
)

// answerListOffsets tells the offsets at the ends of partitions, or at times.
func (b *broker) answerListOffsets(ctx context.Context, request *kmsg.ListOffsetsRequest) kmsg.Response {
	response := respond[*kmsg.ListOffsetsResponse](request)
	for _, t := range request.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = t.Topic
		known, code := b.findTopic(t.Topic, [16]byte{}, false)
		for _, asked := range t.Partitions {
			answer := kmsg.NewListOffsetsResponseTopicPartition()
			answer.Partition, answer.ErrorCode = asked.Partition, code
			answer.Offset, answer.Timestamp, answer.LeaderEpoch = -1, -1, -1
			if code == codeNone {
				b.listOffset(ctx, known, asked, request.IsolationLevel == 1, &answer)
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}

func (b *broker) listOffset(ctx context.Context, t *topic, asked kmsg.ListOffsetsRequestTopicPartition, committed bool, answer *kmsg.ListOffsetsResponseTopicPartition) {
	p, code := b.findPartition(t, asked.Partition)
	if code != codeNone {
		answer.ErrorCode = code
		return
	}
	epoch, highWatermark, code := p.leadIn(asked.CurrentLeaderEpoch)
	if code != codeNone {
		answer.ErrorCode = code
		return
	}
	if start, ok := p.log.EpochStart(epoch); ok && highWatermark < start && asked.Timestamp != timeEarliest {
		// A new leader that has not heard of its followers yet may know less than what consumers have read (KIP-207).
		answer.ErrorCode = codeOffsetNotAvailable
		return
	}
	end := highWatermark
	if committed {
		end = p.log.LastStableOffset()
	}
	switch {
	case asked.Timestamp == timeLatest:
		answer.Offset, answer.LeaderEpoch = end, epoch
	case asked.Timestamp == timeEarliest || asked.Timestamp == timeEarliestLocal:
		answer.Offset = p.log.Start()
	case asked.Timestamp == timeMax:
		if timestamp, offset := p.log.LatestTime(); offset >= 0 && offset < end {
			answer.Offset, answer.Timestamp, answer.LeaderEpoch = offset, timestamp, epoch
		}
	case asked.Timestamp >= 0:
		found, ok, err := p.log.OffsetForTime(ctx, asked.Timestamp)
		switch {
		case err != nil:
			answer.ErrorCode = codeOfRead(err)
		case ok && found.Offset < end:
			answer.Offset, answer.Timestamp, answer.LeaderEpoch = found.Offset, found.Timestamp, found.LeaderEpoch
		}
	default:
		answer.ErrorCode = codeUnsupportedVersion
	}
}

// answerOffsetForLeaderEpoch tells where leader epochs have ended, so that a consumer sees whether what it has read is
// still there.
func (b *broker) answerOffsetForLeaderEpoch(request *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	response := respond[*kmsg.OffsetForLeaderEpochResponse](request)
	for _, t := range request.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		known, code := b.findTopic(t.Topic, [16]byte{}, false)
		for _, asked := range t.Partitions {
			answer := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			answer.Partition, answer.ErrorCode, answer.LeaderEpoch, answer.EndOffset = asked.Partition, code, -1, -1
			if code == codeNone {
				p, code := b.findPartition(known, asked.Partition)
				if code == codeNone {
					_, _, code = p.leadIn(asked.CurrentLeaderEpoch)
				}
				if answer.ErrorCode = code; code == codeNone {
					ended := p.log.EndOffsetForEpoch(asked.LeaderEpoch)
					answer.LeaderEpoch, answer.EndOffset = ended.Epoch, ended.End
				}
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}
