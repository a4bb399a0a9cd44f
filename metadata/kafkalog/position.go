package kafkalog

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What ListOffsets takes for a time, beside milliseconds.
const (
	listEnd   = -1
	listStart = -2
)

// position is an offset, and the leader epoch of the record before it where it is known, otherwise -1.
type position struct {
	offset int64
	epoch  int32
}

// listOffsets asks the leaders for the first offset at the time, or for the start or the end; the offset is -1 where there
// is none. An error that is not a retry is for good.
func listOffsets(ctx context.Context, client *kgo.Client, topic string, partitions []int32, at int64) (map[int32]position, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for _, n := range partitions {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = n, at
		asked.Partitions = append(asked.Partitions, partition)
	}
	req.Topics = append(req.Topics, asked)
	const doing = "asking for offsets"
	response, err := client.Request(ctx, req)
	if err != nil {
		return nil, retry{classify(err, doing, "")}
	}
	offsets := make(map[int32]position, len(partitions))
	for _, t := range response.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				classified := classify(err, doing, "DESCRIBE on topic "+topic)
				if kerr.IsRetriable(err) {
					return nil, retry{classified}
				}
				return nil, classified
			}
			offsets[p.Partition] = position{p.Offset, p.LeaderEpoch}
		}
	}
	if len(offsets) != len(partitions) {
		return nil, retry{errAnswer}
	}
	return offsets, nil
}
