package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/walstorage/segment"
)

// This file carries package replica's messages over Kafka's protocol: a report is a Fetch request that asks for no bytes.
// What Fetch has no field for goes into tagged fields, which who does not know them passes over.

const (
	fetchVersion = 17 // of the brokers' own requests

	tagReports   = 1176 // in the request: counter (8 bytes), full (1)
	tagReport    = 1176 // in a partition of the request: wanting (1), what is known of the leader (3 x 8)
	tagLeaderLEO = 1176 // in a partition of the answer: the leader's log end offset (8)
)

// replicaErrors are the refusals of reports and fetches, and their codes.
var replicaErrors = []struct {
	code int16
	err  error
}{
	{codeNotLeaderOrFollower, replica.ErrNotLeader},
	{codeFencedLeaderEpoch, replica.ErrOldLeaderEpoch},
	{codeUnknownLeaderEpoch, replica.ErrUnknownLeaderEpoch},
	{codeReplicaNotAvailable, replica.ErrNotReplica},
	{codeOffsetOutOfRange, replica.ErrOutOfRange},
	{codeOffsetMovedToTieredStorage, replica.ErrMovedToTier},
	{codeStaleBrokerEpoch, replica.ErrOldBrokerEpoch},
	{codeFetchSessionIDNotFound, replica.ErrUnknownSession},
	{codeBrokerNotAvailable, replica.ErrClosed},
}

func codeOfReplica(err error) int16 {
	for _, e := range replicaErrors {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	if err != nil {
		return codeUnknownServerError
	}
	return codeNone
}

func errorOfReplica(code int16) error {
	for _, e := range replicaErrors {
		if code == e.code {
			return e.err
		}
	}
	if code != codeNone {
		return fmt.Errorf("error code %d", code)
	}
	return nil
}

// sendReports is the follower's transport for reports (replica.Send).
func (b *broker) sendReports(ctx context.Context, leaderID int32, r replica.Reports) ([]replica.Answer, error) {
	peer := b.peers[leaderID]
	if peer == nil {
		return nil, fmt.Errorf("broker %d is not known", leaderID)
	}
	response, err := peer.ask(ctx, encodeReports(r))
	if err != nil {
		return nil, err
	}
	return decodeAnswers(response.(*kmsg.FetchResponse))
}

func encodeReports(r replica.Reports) *kmsg.FetchRequest {
	request := newFetch(r.Replica, r.BrokerEpoch)
	counter := append(binary.BigEndian.AppendUint64(nil, r.Counter), 0)
	if r.Full {
		counter[8] = 1
	}
	request.UnknownTags.Set(tagReports, counter)
	for _, report := range r.Parts {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch = report.Partition.Partition, report.LeaderEpoch
		p.FetchOffset, p.LastFetchedEpoch, p.LogStartOffset = report.LogEndOffset, report.LastEpoch, report.LogStart
		rest := []byte{0}
		if report.Wanting {
			rest[0] = 1
		}
		for _, offset := range []int64{report.Known.LogEndOffset, report.Known.HighWatermark, report.Known.LogStart} {
			rest = binary.BigEndian.AppendUint64(rest, uint64(offset))
		}
		p.UnknownTags.Set(tagReport, rest)
		appendToTopic(request, report.Partition.TopicID, p)
	}
	return request
}

// newFetch is a Fetch request of a replica, without a session and without partitions.
func newFetch(id int32, brokerEpoch int64) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(fetchVersion)
	request.ReplicaState.ID, request.ReplicaState.Epoch = id, brokerEpoch
	request.SessionEpoch = -1
	return request
}

// appendToTopic adds a partition, which mostly is of the topic of the one before it.
func appendToTopic(request *kmsg.FetchRequest, id uuid.UUID, p kmsg.FetchRequestTopicPartition) {
	if n := len(request.Topics); n == 0 || request.Topics[n-1].TopicID != id {
		t := kmsg.NewFetchRequestTopic()
		t.TopicID = id
		request.Topics = append(request.Topics, t)
	}
	t := &request.Topics[len(request.Topics)-1]
	t.Partitions = append(t.Partitions, p)
}

// tag returns a tagged field of the size given, nil if there is none.
func tag(tags *kmsg.Tags, key uint32, size int) (value []byte) {
	tags.Each(func(k uint32, v []byte) {
		if k == key && len(v) == size {
			value = v
		}
	})
	return value
}

// answerReports is the leader's end. It is asked with a Fetch request that has the tag of reports.
func (b *broker) answerReports(ctx context.Context, request *kmsg.FetchRequest, counter []byte) kmsg.Response {
	response := request.ResponseKind().(*kmsg.FetchResponse)
	response.SetVersion(request.GetVersion())
	if b.tracker == nil {
		response.ErrorCode = codeBrokerNotAvailable
		return response
	}
	r := replica.Reports{
		Replica: request.ReplicaState.ID, BrokerEpoch: request.ReplicaState.Epoch,
		Counter: binary.BigEndian.Uint64(counter), Full: counter[8] == 1,
	}
	m := b.controller.current()
	for _, t := range request.Topics {
		id := segment.TopicIDPartition{TopicID: t.TopicID}
		if known := m.byID[t.TopicID]; known != nil {
			id.Topic = known.Name
		}
		for i := range t.Partitions {
			p := &t.Partitions[i]
			id.Partition = p.Partition
			rest := tag(&p.UnknownTags, tagReport, 25)
			if rest == nil {
				response.ErrorCode = codeInvalidRequest
				return response
			}
			r.Parts = append(r.Parts, replica.Report{
				Partition: id, LeaderEpoch: p.CurrentLeaderEpoch,
				LogEndOffset: p.FetchOffset, LastEpoch: p.LastFetchedEpoch, LogStart: p.LogStartOffset, Wanting: rest[0] == 1,
				Known: replica.Known{LogEndOffset: offsetAt(rest, 1), HighWatermark: offsetAt(rest, 9), LogStart: offsetAt(rest, 17)},
			})
		}
	}
	answers, err := b.tracker.Handle(ctx, r)
	if err != nil {
		response.ErrorCode = codeOfReplica(err)
		return response
	}
	for _, a := range answers {
		encodeAnswer(response, a)
	}
	return response
}

func offsetAt(b []byte, at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// encodeAnswer adds an answer, and returns its partition.
func encodeAnswer(response *kmsg.FetchResponse, a replica.Answer) *kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode = a.Partition.Partition, codeOfReplica(a.Err)
	p.HighWatermark, p.LogStartOffset = a.HighWatermark, a.LogStart
	p.CurrentLeader.LeaderEpoch, p.RecordBatches = a.LeaderEpoch, []byte{}
	p.UnknownTags.Set(tagLeaderLEO, binary.BigEndian.AppendUint64(nil, uint64(a.LeaderLEO)))
	if a.Diverging != nil {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = a.Diverging.Epoch, a.Diverging.EndOffset
	}
	if n := len(response.Topics); n == 0 || response.Topics[n-1].TopicID != a.Partition.TopicID {
		t := kmsg.NewFetchResponseTopic()
		t.TopicID = a.Partition.TopicID
		response.Topics = append(response.Topics, t)
	}
	t := &response.Topics[len(response.Topics)-1]
	t.Partitions = append(t.Partitions, p)
	return &t.Partitions[len(t.Partitions)-1]
}

func decodeAnswers(response *kmsg.FetchResponse) (answers []replica.Answer, err error) {
	if response.ErrorCode != codeNone {
		return nil, errorOfReplica(response.ErrorCode)
	}
	for _, t := range response.Topics {
		for i := range t.Partitions {
			a := decodeAnswer(&t.Partitions[i])
			a.Partition.TopicID = t.TopicID
			answers = append(answers, a)
		}
	}
	return answers, nil
}

func decodeAnswer(p *kmsg.FetchResponseTopicPartition) replica.Answer {
	a := replica.Answer{
		Partition:   segment.TopicIDPartition{Partition: p.Partition},
		Err:         errorOfReplica(p.ErrorCode),
		LeaderEpoch: p.CurrentLeader.LeaderEpoch, LeaderLEO: -1, HighWatermark: -1, LogStart: -1,
	}
	if leo := tag(&p.UnknownTags, tagLeaderLEO, 8); leo != nil && a.Err == nil {
		a.LeaderLEO, a.HighWatermark, a.LogStart = offsetAt(leo, 0), p.HighWatermark, p.LogStartOffset
	}
	if p.DivergingEpoch.EndOffset >= 0 {
		a.Diverging = &replica.Diverging{Epoch: p.DivergingEpoch.Epoch, EndOffset: p.DivergingEpoch.EndOffset}
	}
	return a
}
