package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/walstorage/segment"
)

// This file is the ordinary replica fetch, with bytes: what each leader epoch begins with, what walhop falls back on, and,
// for comparison, a way to replicate by itself.

// fetchBytes is how much one ordinary fetch asks for.
const fetchBytes = 1 << 20

// FetchFromLeader is the ordinary replica fetch as the replicator wants it (follower.LeaderFetcher): it asks at least once,
// truncates where the answer diverges, and returns nil only after an answer that did not.
func (b *broker) FetchFromLeader(ctx context.Context, id segment.TopicIDPartition, epoch int32, to int64) (leaderLEO int64, err error) {
	p := b.partition(id.Key())
	if p == nil {
		return 0, fmt.Errorf("broker %d has no replica of %s", b.id, id)
	}
	p.mu.Lock()
	leaderID := p.now.Leader
	p.mu.Unlock()
	for ctx.Err() == nil {
		answer, moved, err := p.fetchOnce(ctx, leaderID, epoch, to, 0)
		notYet := errors.Is(err, replica.ErrUnknownLeaderEpoch) || errors.Is(err, replica.ErrNotLeader)
		if notYet && pause(ctx, soon) {
			continue // the leader has not heard yet that it leads
		}
		if err != nil {
			return leaderLEO, err
		}
		if answer.Diverging != nil {
			continue // truncated
		}
		leaderLEO = answer.LeaderLEO
		if to < 0 {
			to = leaderLEO
		}
		if end, _ := p.log.End(); end >= to || !moved {
			return leaderLEO, nil
		}
	}
	return leaderLEO, ctx.Err()
}

// fetchOnce asks the leader for what lies behind this log's end, up to the offset to if that is not negative, and appends
// or truncates as the answer says. The answer is parked for up to wait where there is nothing. moved tells whether
// something was appended; an answer that made this log truncate has Diverging set.
func (p *partition) fetchOnce(ctx context.Context, leaderID, epoch int32, to int64, wait time.Duration) (a replica.Answer, moved bool, err error) {
	b := p.broker
	peer := b.peers[leaderID]
	if peer == nil {
		return a, false, fmt.Errorf("broker %d is not known", leaderID)
	}
	end, lastEpoch := p.log.End()
	request := newFetch(b.id, b.epoch)
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = int32(wait.Milliseconds()), 1, fetchBytes
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch = p.Partition, epoch
	part.FetchOffset, part.LastFetchedEpoch, part.LogStartOffset = end, lastEpoch, p.log.Start()
	part.PartitionMaxBytes = fetchBytes
	appendToTopic(request, p.TopicID, part)
	response, err := peer.ask(ctx, request)
	if err != nil {
		return a, false, err
	}
	fetched := response.(*kmsg.FetchResponse)
	if fetched.ErrorCode != codeNone {
		return a, false, errorOfReplica(fetched.ErrorCode)
	}
	if len(fetched.Topics) != 1 || len(fetched.Topics[0].Partitions) != 1 {
		return a, false, errors.New("the answer to a fetch is not about the partition asked for")
	}
	answered := &fetched.Topics[0].Partitions[0]
	a = decodeAnswer(answered)
	a.Partition = p.TopicIDPartition
	peer.records.Add(int64(len(answered.RecordBatches)))
	switch {
	case errors.Is(a.Err, replica.ErrOutOfRange):
		// The leader's log does not reach to this one's end, or begins above it: start anew there, as in Kafka.
		a.Diverging = &replica.Diverging{EndOffset: answered.LogStartOffset}
		return a, false, p.log.TruncateFullyAndStartAt(answered.LogStartOffset)
	case a.Err != nil:
		return a, false, a.Err
	case a.Diverging != nil:
		_, err := p.log.TruncateDiverging(unifiedlog.EpochEnd{Epoch: a.Diverging.Epoch, End: a.Diverging.EndOffset})
		b.truncations.Add(1)
		return a, false, err
	}
	limit := to
	if limit < 0 {
		limit = a.LeaderLEO
	}
	if batches := below(answered.RecordBatches, limit); len(batches) > 0 && end < limit {
		if err := p.log.AppendAsFollower(ctx, epoch, end, batches); err != nil {
			return a, false, err
		}
		moved = true
	}
	b.answered(leaderID, a)
	return a, moved, nil
}

// soon is the pause before something is tried again that will work in a moment.
const soon = 10 * time.Millisecond

// pause waits, and tells whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// below returns the first batch and those after it that begin below the offset to: a range that was asked for has an end
// (F5), and where compaction has taken what lay before it, the first batch leads past it.
func below(batches []byte, to int64) []byte {
	s := batch.NewScanner(batches)
	n := 0
	for s.Next() && (n == 0 || s.BaseOffset() < to) {
		n = s.End()
	}
	return batches[:n]
}

// answerFetch is the leader's end of the ordinary fetch.
func (b *broker) answerReplicaFetch(ctx context.Context, f *frame, request *kmsg.FetchRequest) (kmsg.Response, error) {
	response := request.ResponseKind().(*kmsg.FetchResponse)
	response.SetVersion(request.GetVersion())
	if len(request.Topics) != 1 || len(request.Topics[0].Partitions) != 1 {
		response.ErrorCode = codeInvalidRequest // this broker's followers ask for one partition at a time
		return response, nil
	}
	t := &request.Topics[0]
	asked := &t.Partitions[0]
	r := replica.Report{
		Partition: segment.TopicIDPartition{TopicID: t.TopicID, Partition: asked.Partition}, LeaderEpoch: asked.CurrentLeaderEpoch,
		LogEndOffset: asked.FetchOffset, LastEpoch: asked.LastFetchedEpoch, LogStart: asked.LogStartOffset,
	}
	id, brokerEpoch := request.ReplicaState.ID, request.ReplicaState.Epoch
	a, err := b.Check(id, brokerEpoch, r)
	if err == nil && a.Diverging == nil && a.LeaderLEO == r.LogEndOffset && request.MaxWaitMillis > 0 {
		p := b.partition(r.Partition.Key())
		p.recordFetch(id, r.LogEndOffset, a.LeaderLEO)
		p.await(ctx, time.Duration(request.MaxWaitMillis)*time.Millisecond, func() bool {
			end, _ := p.log.End()
			return end > r.LogEndOffset
		})
		a, err = b.Check(id, brokerEpoch, r)
	}
	a.Partition, a.Err = r.Partition, err
	p := b.partition(r.Partition.Key())
	if p != nil && errors.Is(err, replica.ErrOutOfRange) {
		a.LogStart = p.log.Start()
	}
	part := encodeAnswer(response, a)
	if p == nil || err != nil || a.Diverging != nil {
		return response, nil
	}
	p.recordFetch(id, r.LogEndOffset, a.LeaderLEO)
	if err := f.hold(ctx, 2*fetchBytes); err != nil {
		return nil, err
	}
	part.RecordBatches, err = readWhole(func(dst []byte) (int, error) { return p.log.Read(ctx, r.LogEndOffset, dst) }, fetchBytes, true)
	if err != nil {
		part.ErrorCode = codeOfRead(err)
	}
	f.keep(2 * int64(len(part.RecordBatches)))
	return response, nil
}

// fetchSample is what a leader knows of a follower that replicates by ordinary fetch: Kafka's own rule, which suits where
// a fetch brings the bytes.
type fetchSample struct {
	end       int64
	caughtUp  time.Time
	lastFetch time.Time
	lastLEO   int64 // of the leader, at the last fetch
}

// recordFetch notes a fetch, where there are no reports.
func (p *partition) recordFetch(id int32, end, leaderLEO int64) {
	if p.broker.replicate != byFetch {
		return
	}
	now := time.Now()
	p.mu.Lock()
	if p.leads {
		s := p.fetches[id]
		switch {
		case end >= leaderLEO:
			s.caughtUp = now
		case end >= s.lastLEO && !s.lastFetch.IsZero():
			s.caughtUp = s.lastFetch
		}
		s.end, s.lastFetch, s.lastLEO = end, now, leaderLEO
		p.fetches[id] = s
	}
	p.mu.Unlock()
	p.advance()
}

// ordinary follows a leader by ordinary fetch alone.
type ordinary struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// ordinaryWait is how long a leader parks a fetch (replica.fetch.wait.max.ms).
const ordinaryWait = 500 * time.Millisecond

func (p *partition) startFetching(leaderID, epoch int32) *ordinary {
	ctx, cancel := context.WithCancel(context.Background())
	o := &ordinary{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(o.ended)
		for ctx.Err() == nil {
			if _, _, err := p.fetchOnce(ctx, leaderID, epoch, -1, ordinaryWait); err != nil {
				pause(ctx, soon)
			}
		}
	}()
	return o
}

func (o *ordinary) stop() {
	o.cancel()
	<-o.ended
}
