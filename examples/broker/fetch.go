package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxFetch is how many bytes of records an answer to a consumer has at most (fetch.max.bytes), beyond a first batch that is
	// larger; maxFetchWait how long one is parked.
	maxFetch     = 8 << 20
	maxFetchWait = 30 * time.Second
)

// wanted is one partition of a consumer's fetch.
type wanted struct {
	partition *partition // nil if there is an error
	epoch     int32
	offset    int64
	bytes     int
	answer    *kmsg.FetchResponseTopicPartition
}

// answerFetch tells whose fetch it is: a follower's report, a follower's ordinary fetch, or a consumer's.
func (b *broker) answerFetch(ctx context.Context, f *frame, request *kmsg.FetchRequest) (kmsg.Response, error) {
	if request.Version >= fetchVersion && request.ReplicaState.ID >= 0 {
		if counter := tag(&request.UnknownTags, tagReports, 9); counter != nil {
			return b.answerReports(ctx, request, counter), nil
		}
		return b.answerReplicaFetch(ctx, f, request)
	}
	return b.answerConsumer(ctx, f, request)
}

// answerConsumer answers a consumer: with what lies below the high watermark, or, for read_committed, below the last stable
// offset. It waits until there are MinBytes, or MaxWait has passed.
func (b *broker) answerConsumer(ctx context.Context, f *frame, request *kmsg.FetchRequest) (kmsg.Response, error) {
	response := respond[*kmsg.FetchResponse](request)
	if request.SessionID != 0 {
		response.ErrorCode = codeFetchSessionIDNotFound // no sessions: the client sends everything again
		return response, nil
	}
	for _, t := range request.Topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		topic.Partitions = make([]kmsg.FetchResponseTopicPartition, len(t.Partitions))
		response.Topics = append(response.Topics, topic)
	}
	var list []*wanted
	var partitions []*partition
	for i := range request.Topics {
		t := &request.Topics[i]
		known, code := b.findTopic(t.Topic, t.TopicID, request.Version >= 13)
		for j := range t.Partitions {
			asked := &t.Partitions[j]
			w := &wanted{offset: asked.FetchOffset, epoch: asked.CurrentLeaderEpoch, bytes: int(asked.PartitionMaxBytes), answer: &response.Topics[i].Partitions[j]}
			*w.answer = kmsg.NewFetchResponseTopicPartition()
			w.answer.Partition, w.answer.ErrorCode = asked.Partition, code
			if code == codeNone {
				w.partition, w.answer.ErrorCode = b.findPartition(known, asked.Partition)
			}
			list = append(list, w)
			if w.partition != nil {
				partitions = append(partitions, w.partition)
			}
		}
	}
	committed := request.IsolationLevel == 1
	least := max(0, int(request.MinBytes))
	limit := max(0, min(time.Duration(request.MaxWaitMillis)*time.Millisecond, maxFetchWait))
	held := false
	var err error
	await(ctx, limit, partitions, func() bool {
		there, final := false, false
		for _, w := range list {
			has, ends := w.look(committed)
			there, final = there || has, final || ends
		}
		if !there {
			return final || least == 0
		}
		if !held {
			held = true
			if err = f.hold(ctx, 2*int64(min(maxFetch, max(0, int(request.MaxBytes))))); err != nil {
				return true
			}
		}
		read, failed := b.read(ctx, list, committed, int(request.MaxBytes))
		return read >= least || final || failed
	})
	total := 0
	for _, w := range list {
		if w.answer.RecordBatches == nil {
			w.answer.RecordBatches = []byte{} // clients do not expect null
		}
		total += len(w.answer.RecordBatches)
	}
	f.keep(2 * int64(total)) // the records, and the answer with them
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return response, err
}

// look brings an answer's offsets up to date. It tells whether there is something to read, and whether the answer is final:
// an error.
func (w *wanted) look(committed bool) (there, final bool) {
	if w.partition == nil {
		return false, true
	}
	_, highWatermark, code := w.partition.leadIn(w.epoch)
	w.answer.ErrorCode = code
	if code != codeNone {
		w.answer.RecordBatches = nil
		return false, true
	}
	end, _ := w.partition.log.End()
	start := w.partition.log.Start()
	w.answer.HighWatermark, w.answer.LastStableOffset, w.answer.LogStartOffset = highWatermark, w.partition.log.LastStableOffset(), start
	if w.offset < start || w.offset > end {
		w.answer.ErrorCode = codeOffsetOutOfRange
		w.answer.HighWatermark = -1
		return false, true
	}
	return w.offset < w.limit(committed), false
}

// limit is the offset that a consumer may read up to.
func (w *wanted) limit(committed bool) int64 {
	if committed {
		return w.answer.LastStableOffset
	}
	return w.answer.HighWatermark
}

// read fills the answers, up to maxBytes together, and returns how many bytes there are. The first batch is given whatever
// its size is, so that a consumer always gets on.
func (b *broker) read(ctx context.Context, list []*wanted, committed bool, maxBytes int) (total int, failed bool) {
	left := max(0, min(maxBytes, maxFetch))
	for _, w := range list {
		w.answer.RecordBatches = nil
		if w.partition == nil || w.answer.ErrorCode != codeNone || w.offset >= w.limit(committed) {
			continue
		}
		size := max(0, min(w.bytes, left))
		if size == 0 && total > 0 {
			continue
		}
		batches, err := readWhole(func(dst []byte) (int, error) {
			return w.partition.log.Fetch(ctx, w.offset, w.limit(committed), dst)
		}, size, total == 0)
		if err == nil && committed {
			err = w.addAborted(ctx)
		}
		if err != nil {
			w.answer.ErrorCode, failed = codeOfRead(err), true
			continue
		}
		w.answer.RecordBatches = batches
		total += len(batches)
		left -= min(left, len(batches))
	}
	return total, failed
}

// addAborted tells a consumer of committed records which transactions it has to leave out. This broker has none of its own,
// but may have been given a log that has.
func (w *wanted) addAborted(ctx context.Context) error {
	aborted, err := w.partition.log.AbortedTransactions(ctx, w.offset, w.answer.LastStableOffset)
	w.answer.AbortedTransactions = nil
	for _, t := range aborted {
		a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		a.ProducerID, a.FirstOffset = t.ProducerID, t.First
		w.answer.AbortedTransactions = append(w.answer.AbortedTransactions, a)
	}
	return err
}
