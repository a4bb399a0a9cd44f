package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Given Kafka's own admin client, which fails with a null pointer where the settings of a created topic are null, when a
// topic is created, then they are an empty list, whichever way it ended.
func TestCreatedTopicHasAListOfSettings(t *testing.T) {
	c := start(t, overFiles(t))
	client := newPlainClient(t, c)
	defer client.close()
	for _, code := range []int16{codeNone, codeTopicAlreadyExists} {
		request := kmsg.NewPtrCreateTopicsRequest()
		request.SetVersion(7)
		request.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 1, ReplicationFactor: 3}}
		answer := ask[*kmsg.CreateTopicsResponse](client, 0, request)
		require.Len(t, answer.Topics, 1)
		require.Equal(t, code, answer.Topics[0].ErrorCode)
		require.NotNil(t, answer.Topics[0].Configs)
	}
}
