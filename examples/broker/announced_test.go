package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Given a client that looks for version 0 of Produce before it compresses anything (confluentinc/librdkafka#4956), when it
// asks for the versions, then it finds it, as with Kafka (KAFKA-18659). TestBadRequests shows that the old versions are not
// answered all the same.
func TestProduceIsAnnouncedFromVersion0(t *testing.T) {
	c := start(t, overFiles(t))
	client := newPlainClient(t, c)
	defer client.close()
	found := false
	for _, v := range ask[*kmsg.ApiVersionsResponse](client, 0, kmsg.NewPtrApiVersionsRequest()).ApiKeys {
		if v.ApiKey == kmsg.Produce.Int16() {
			found = true
			require.Zero(t, v.MinVersion)
		}
	}
	require.True(t, found)
}
