package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/internal/batch/batchtest"
)

// Given a consumer at the end of a partition, when it asks and there is nothing, then its request is parked until there is
// something below the high watermark, or the time that it gave is over.
func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, slow(30*time.Millisecond, 10*time.Millisecond, nil)).start(t)
		defer c.close()
		defer client.close()
		leader := c.controller.current().Topics["t"].Partitions[0].Leader
		begun := time.Now()
		got, code := client.fetch("t", leader, 1)
		require.Zero(t, code)
		require.Empty(t, got)
		require.Equal(t, time.Second, time.Since(begun))

		begun = time.Now()
		time.AfterFunc(100*time.Millisecond, func() { client.produce("t", acksOne, "x") })
		got, code = client.fetch("t", leader, 1)
		require.Zero(t, code)
		require.NotEmpty(t, got)
		require.Greater(t, time.Since(begun), 140*time.Millisecond, "what is not replicated is not shown")
		require.Less(t, time.Since(begun), 300*time.Millisecond)
	})
}

// Given fewer replicas in sync than min.insync.replicas, when a record is produced, then acks=all is refused and acks=1 is
// not, and what acks=1 brought is acknowledged to nobody as replicated.
func TestMinInSyncReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, nil).start(t)
		defer c.close()
		defer client.close()
		a := c.controller.current().Topics["t"].Partitions[0]
		for _, id := range without(a.Replicas, a.Leader) {
			require.NoError(t, c.kill(id))
		}
		synctest.Wait() // until the leader has heard of it
		require.Equal(t, codeNotEnoughReplicas, client.produce("t", acksAll, "x").ErrorCode)
		require.Equal(t, codeNone, client.produce("t", acksOne, "x").ErrorCode)
		require.NoError(t, c.start(t.Context(), without(a.Replicas, a.Leader)[0]))
		awaitISR(t, c, "t", 2)
		require.Equal(t, codeNone, client.produce("t", acksAll, "x").ErrorCode)
	})
}

// idempotent is a batch of an idempotent producer.
func idempotent(producer int64, sequence int32, values ...string) []byte {
	spec := batchtest.NewSpec(0, -1, values...)
	spec.BaseTimestamp = time.Now().UnixMilli()
	spec.MaxTimestamp = spec.BaseTimestamp
	spec.ProducerID, spec.ProducerEpoch, spec.BaseSequence = producer, 0, sequence
	return spec.Bytes()
}

// Given an idempotent producer, when it sends a batch again, also to a new leader, then it is told the offset that the batch
// has, and nothing is appended; when it leaves one out, it is told so.
func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, nil).start(t)
		defer c.close()
		defer client.close()
		init := ask[*kmsg.InitProducerIDResponse](client, 0, kmsg.NewPtrInitProducerIDRequest())
		require.Zero(t, init.ErrorCode)
		other := ask[*kmsg.InitProducerIDResponse](client, 1, kmsg.NewPtrInitProducerIDRequest())
		require.NotEqual(t, init.ProducerID, other.ProducerID)
		send := func(sequence int32, values ...string) kmsg.ProduceResponseTopicPartition {
			leader := c.controller.current().Topics["t"].Partitions[0].Leader
			return ask[*kmsg.ProduceResponse](client, leader, produceRequest("t", 0, acksAll, idempotent(init.ProducerID, sequence, values...))).Topics[0].Partitions[0]
		}
		first := send(0, "a", "b")
		require.Zero(t, first.ErrorCode)
		require.EqualValues(t, 1, first.BaseOffset)
		require.Equal(t, first.BaseOffset, send(0, "a", "b").BaseOffset)
		require.Equal(t, codeOutOfOrderSequence, send(7, "c").ErrorCode)

		require.NoError(t, c.kill(c.controller.current().Topics["t"].Partitions[0].Leader))
		client.mustProduce("t", acksAll, "the new leader leads")
		require.Equal(t, first.BaseOffset, send(0, "a", "b").BaseOffset)
		require.EqualValues(t, 4, send(2, "c").BaseOffset)
	})
}

// What a producer may not send is refused with Kafka's code, and nothing is appended.
func TestRefusedBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, nil).start(t)
		defer c.close()
		defer client.close()
		leader := c.controller.current().Topics["t"].Partitions[0].Leader
		change := func(do func(b []byte)) []byte {
			b := batchNow("x")
			do(b)
			return b
		}
		for name, test := range map[string]struct {
			acks    int16
			records []byte
			code    int16
		}{
			"no batch":           {acksOne, nil, codeCorruptMessage},
			"a part of one":      {acksOne, batchNow("x")[:65], codeCorruptMessage},
			"two":                {acksOne, append(batchNow("x"), batchNow("y")...), codeCorruptMessage},
			"a flipped bit":      {acksOne, change(func(b []byte) { b[65] ^= 4 }), codeCorruptMessage},
			"of another format":  {acksOne, change(func(b []byte) { b[16] = 1 }), codeUnsupportedForFormat},
			"a control batch":    {acksOne, func() []byte { s := batchtest.NewSpec(0, -1, "x"); s.Attributes = 0x20; return s.Bytes() }(), codeInvalidRecord},
			"of a transaction":   {acksOne, func() []byte { s := batchtest.NewSpec(0, -1, "x"); s.Attributes = 0x10; return s.Bytes() }(), codeInvalidRecord},
			"a wrong count":      {acksOne, func() []byte { s := batchtest.NewSpec(0, -1, "x"); s.LastOffsetDelta = 9; return s.Bytes() }(), codeInvalidRecord},
			"of the far future":  {acksOne, batchtest.Make(0, -1, "x"), codeInvalidTimestamp}, // in a bubble it is the year 2000
			"too large":          {acksOne, batchtest.Sized(0, -1, maxBatch+1, 'x'), codeMessageTooLarge},
			"acks of two":        {2, batchNow("x"), codeInvalidRequiredAcks},
			"all that is needed": {acksOne, batchNow("x"), codeNone},
		} {
			response := ask[*kmsg.ProduceResponse](client, leader, produceRequest("t", 0, test.acks, test.records))
			require.Equal(t, test.code, response.Topics[0].Partitions[0].ErrorCode, name)
		}
		request := produceRequest("t", 0, acksAll, batchNow("x"))
		request.TransactionID = kmsg.StringPtr("of a transaction")
		require.Equal(t, codeInvalidRequest, ask[*kmsg.ProduceResponse](client, leader, request).Topics[0].Partitions[0].ErrorCode)
		elsewhere := without(c.ids, leader)[0]
		for topic, code := range map[string]int16{"t": codeNotLeaderOrFollower, "no such": codeUnknownTopicOrPartition} {
			request := produceRequest(topic, 0, acksOne, batchNow("x"))
			require.Equal(t, code, ask[*kmsg.ProduceResponse](client, elsewhere, request).Topics[0].Partitions[0].ErrorCode)
		}
		require.Equal(t, codeUnknownTopicOrPartition, ask[*kmsg.ProduceResponse](client, leader, produceRequest("t", 1, acksOne, batchNow("x"))).Topics[0].Partitions[0].ErrorCode)
		require.EqualValues(t, 2, client.mustProduce("t", acksOne, "nothing else was appended"))
	})
}

// Offsets at the ends and by time, with the fences of leader epochs.
func TestOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, nil).start(t)
		defer c.close()
		defer client.close()
		begun := time.Now()
		for n := range 3 {
			time.Sleep(time.Minute)
			client.mustProduce("t", acksAll, fmt.Sprint(n))
		}
		leader := c.controller.current().Topics["t"].Partitions[0].Leader
		at := func(time int64, epoch int32, committed int8) kmsg.ListOffsetsResponseTopicPartition {
			request := kmsg.NewPtrListOffsetsRequest()
			request.SetVersion(8)
			request.ReplicaID, request.IsolationLevel = -1, committed
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Timestamp, part.CurrentLeaderEpoch = time, epoch
			request.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
			return ask[*kmsg.ListOffsetsResponse](client, leader, request).Topics[0].Partitions[0]
		}
		minute := func(n int) int64 { return begun.Add(time.Duration(n) * time.Minute).UnixMilli() }
		require.EqualValues(t, 0, at(timeEarliest, -1, 0).Offset)
		require.EqualValues(t, 0, at(timeEarliestLocal, -1, 0).Offset)
		require.EqualValues(t, 4, at(timeLatest, -1, 0).Offset)
		require.EqualValues(t, 4, at(timeLatest, 0, 1).Offset)
		require.EqualValues(t, 3, at(timeMax, -1, 0).Offset)
		require.EqualValues(t, 2, at(minute(2), -1, 0).Offset)
		require.EqualValues(t, 3, at(minute(2)+1000, -1, 0).Offset)
		require.EqualValues(t, -1, at(minute(9), -1, 0).Offset)
		require.Equal(t, codeUnknownLeaderEpoch, at(timeLatest, 1, 0).ErrorCode)
		require.Equal(t, codeUnsupportedVersion, at(-9, -1, 0).ErrorCode)

		require.NoError(t, c.kill(leader))
		client.mustProduce("t", acksAll, "of the next epoch")
		leader = c.controller.current().Topics["t"].Partitions[0].Leader
		require.Equal(t, codeFencedLeaderEpoch, at(timeLatest, 0, 0).ErrorCode)
		request := kmsg.NewPtrOffsetForLeaderEpochRequest()
		request.SetVersion(4)
		request.ReplicaID = -1
		part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		part.CurrentLeaderEpoch, part.LeaderEpoch = 1, 0
		request.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{part}}}
		answer := ask[*kmsg.OffsetForLeaderEpochResponse](client, leader, request).Topics[0].Partitions[0]
		require.Zero(t, answer.ErrorCode)
		require.EqualValues(t, 4, answer.EndOffset)
	})
}

// Topics are created and deleted by request, within limits, and described.
func TestTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, nil).start(t)
		defer c.close()
		defer client.close()
		for i, test := range []struct {
			topic      kmsg.CreateTopicsRequestTopic
			only       bool
			code       int16
			partitions int32
		}{
			{kmsg.CreateTopicsRequestTopic{Topic: "new", NumPartitions: 4, ReplicationFactor: 3}, true, codeNone, 0},
			{kmsg.CreateTopicsRequestTopic{Topic: "new", NumPartitions: 4, ReplicationFactor: 3}, false, codeNone, 4},
			{kmsg.CreateTopicsRequestTopic{Topic: "new", NumPartitions: 4, ReplicationFactor: 3}, false, codeTopicAlreadyExists, 0},
			{kmsg.CreateTopicsRequestTopic{Topic: "default", NumPartitions: -1, ReplicationFactor: -1}, false, codeNone, 1},
			{kmsg.CreateTopicsRequestTopic{Topic: "../x", NumPartitions: 1, ReplicationFactor: 1}, false, codeInvalidTopic, 0},
			{kmsg.CreateTopicsRequestTopic{Topic: "x", NumPartitions: 1 << 30, ReplicationFactor: 1}, false, codeInvalidPartitions, 0},
			{kmsg.CreateTopicsRequestTopic{Topic: "x", NumPartitions: 1, ReplicationFactor: 4}, false, codeInvalidReplicationFactor, 0},
			{kmsg.CreateTopicsRequestTopic{Topic: "x", NumPartitions: 1, ReplicationFactor: 1, Configs: make([]kmsg.CreateTopicsRequestTopicConfig, 1)}, false, codeInvalidConfig, 0},
			{kmsg.CreateTopicsRequestTopic{Topic: "x", ReplicaAssignment: make([]kmsg.CreateTopicsRequestTopicReplicaAssignment, 1)}, false, codeInvalidReplicaAssignment, 0},
		} {
			request := kmsg.NewPtrCreateTopicsRequest()
			request.SetVersion(7)
			request.ValidateOnly, request.Topics = test.only, []kmsg.CreateTopicsRequestTopic{test.topic}
			answer := ask[*kmsg.CreateTopicsResponse](client, 0, request).Topics[0]
			require.Equal(t, test.code, answer.ErrorCode, i)
			require.Equal(t, test.code == codeNone, answer.ErrorMessage == nil, i)
			if test.partitions > 0 {
				require.Equal(t, test.partitions, answer.NumPartitions)
			}
		}
		for n, a := range c.controller.current().Topics["new"].Partitions { // at once, since the answer waited for the leaders
			request := produceRequest("new", int32(n), acksAll, batchNow("x"))
			require.Zero(t, ask[*kmsg.ProduceResponse](client, a.Leader, request).Topics[0].Partitions[0].ErrorCode)
		}
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.SetVersion(12)
		metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("new")}, {Topic: kmsg.StringPtr("no")}}
		described := ask[*kmsg.MetadataResponse](client, 1, metadata)
		require.Len(t, described.Topics[0].Partitions, 4)
		require.Equal(t, codeUnknownTopicOrPartition, described.Topics[1].ErrorCode)
		require.Len(t, described.Brokers, 3)
		require.Equal(t, "zone-b", *described.Brokers[1].Rack)
		metadata.AllowAutoTopicCreation = true
		require.Zero(t, ask[*kmsg.MetadataResponse](client, 1, metadata).Topics[1].ErrorCode, "as Kafka does")

		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.SetVersion(6)
		remove.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: described.Topics[0].TopicID}, {Topic: kmsg.StringPtr("never")}}
		removed := ask[*kmsg.DeleteTopicsResponse](client, 2, remove)
		require.Zero(t, removed.Topics[0].ErrorCode)
		require.Equal(t, "new", *removed.Topics[0].Topic)
		require.Equal(t, codeUnknownTopicOrPartition, removed.Topics[1].ErrorCode)
		require.Nil(t, c.controller.current().Topics["new"])

		configs := kmsg.NewPtrDescribeConfigsRequest()
		configs.SetVersion(4)
		configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t", ConfigNames: []string{"min.insync.replicas"}}}
		settings := ask[*kmsg.DescribeConfigsResponse](client, 2, configs).Resources[0].Configs
		require.Len(t, settings, 1)
		require.Equal(t, "2", *settings[0].Value)
		require.Len(t, ask[*kmsg.DescribeClusterResponse](client, 2, kmsg.NewPtrDescribeClusterRequest()).Brokers, 3)
	})
}

// What is not here is said clearly.
func TestNoGroupsAndNoTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := inBubble(t, 0, nil).start(t)
		defer c.close()
		defer client.close()
		group := kmsg.NewPtrFindCoordinatorRequest()
		group.SetVersion(4)
		group.CoordinatorKeys = []string{"group"}
		answer := ask[*kmsg.FindCoordinatorResponse](client, 0, group).Coordinators[0]
		require.Equal(t, codeInvalidRequest, answer.ErrorCode)
		require.Equal(t, noGroups, *answer.ErrorMessage)
		transaction := kmsg.NewPtrInitProducerIDRequest()
		transaction.TransactionalID = kmsg.StringPtr("transaction")
		require.Equal(t, codeInvalidRequest, ask[*kmsg.InitProducerIDResponse](client, 0, transaction).ErrorCode)
	})
}
