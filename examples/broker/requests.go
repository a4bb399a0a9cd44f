package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// supported are the requests that this broker answers, and in which versions. What is not here closes the connection, but
// for a version of ApiVersions that is too new.
func supported() []kmsg.ApiVersionsResponseApiKey {
	return []kmsg.ApiVersionsResponseApiKey{
		{ApiKey: kmsg.Produce.Int16(), MinVersion: 3, MaxVersion: 13},
		{ApiKey: kmsg.Fetch.Int16(), MinVersion: 4, MaxVersion: 17},
		{ApiKey: kmsg.ListOffsets.Int16(), MinVersion: 1, MaxVersion: 11},
		{ApiKey: kmsg.Metadata.Int16(), MinVersion: 0, MaxVersion: 13},
		{ApiKey: kmsg.FindCoordinator.Int16(), MinVersion: 0, MaxVersion: 6},
		{ApiKey: kmsg.ApiVersions.Int16(), MinVersion: 0, MaxVersion: 4},
		{ApiKey: kmsg.CreateTopics.Int16(), MinVersion: 2, MaxVersion: 7},
		{ApiKey: kmsg.DeleteTopics.Int16(), MinVersion: 0, MaxVersion: 6},
		{ApiKey: kmsg.InitProducerID.Int16(), MinVersion: 0, MaxVersion: 5},
		{ApiKey: kmsg.OffsetForLeaderEpoch.Int16(), MinVersion: 2, MaxVersion: 4},
		{ApiKey: kmsg.DescribeConfigs.Int16(), MinVersion: 1, MaxVersion: 4},
		{ApiKey: kmsg.DescribeCluster.Int16(), MinVersion: 0, MaxVersion: 2},
	}
}

// apiVersionsKey is the request with which a client begins.
const apiVersionsKey = 18

var errUnsupported = errors.New("a request, or a version of it, that this broker does not answer")

// answer answers a request. An error closes the connection.
func (b *broker) answer(ctx context.Context, f *frame) (reply, error) {
	versions := supported()
	known := false
	for _, v := range versions {
		known = known || v.ApiKey == f.key && v.MinVersion <= f.version && f.version <= v.MaxVersion
	}
	if f.key == apiVersionsKey {
		response, err := answerAPIVersions(f, versions, known)
		return reply{response: response}, err
	}
	if !known {
		return reply{}, errUnsupported
	}
	request, err := f.request()
	if err != nil {
		return reply{}, err
	}
	switch request := request.(type) {
	case *kmsg.ProduceRequest:
		return b.answerProduce(ctx, request)
	case *kmsg.FetchRequest:
		response, err := b.answerFetch(ctx, f, request)
		return reply{response: response}, err
	default:
		response, err := b.answerAtOnce(ctx, request)
		return reply{response: response}, err
	}
}

// answerAtOnce answers what waits for nothing.
func (b *broker) answerAtOnce(ctx context.Context, request kmsg.Request) (kmsg.Response, error) {
	switch request := request.(type) {
	case *kmsg.ListOffsetsRequest:
		return b.answerListOffsets(ctx, request), nil
	case *kmsg.OffsetForLeaderEpochRequest:
		return b.answerOffsetForLeaderEpoch(request), nil
	case *kmsg.MetadataRequest:
		return b.answerMetadata(ctx, request), nil
	case *kmsg.DescribeClusterRequest:
		return b.answerDescribeCluster(request), nil
	case *kmsg.DescribeConfigsRequest:
		return b.answerDescribeConfigs(request), nil
	case *kmsg.CreateTopicsRequest:
		return b.answerCreateTopics(ctx, request), nil
	case *kmsg.DeleteTopicsRequest:
		return b.answerDeleteTopics(request), nil
	case *kmsg.InitProducerIDRequest:
		return b.answerInitProducerID(request), nil
	case *kmsg.FindCoordinatorRequest:
		return answerFindCoordinator(request), nil
	}
	return nil, errUnsupported
}

// answerAPIVersions tells what is supported. A client whose version is too new learns it by an answer of version 0, from
// which it goes on with an older one.
func answerAPIVersions(f *frame, versions []kmsg.ApiVersionsResponseApiKey, known bool) (kmsg.Response, error) {
	response := kmsg.NewPtrApiVersionsResponse()
	response.ApiKeys = announce(versions)
	if !known {
		response.ErrorCode = codeUnsupportedVersion
		return response, nil
	}
	if _, err := f.request(); err != nil {
		return nil, err
	}
	response.SetVersion(f.version)
	return response, nil
}

// announce is what clients are told of the versions: that Produce begins with 0, as Kafka tells them (KAFKA-18659). kcat and
// others compress nothing unless they see that (confluentinc/librdkafka#4956), and then use the newest.
func announce(versions []kmsg.ApiVersionsResponseApiKey) []kmsg.ApiVersionsResponseApiKey {
	for i := range versions {
		if versions[i].ApiKey == kmsg.Produce.Int16() {
			versions[i].MinVersion = 0
		}
	}
	return versions
}

// respond makes the answer that belongs to a request.
func respond[R kmsg.Response](request kmsg.Request) R {
	response := request.ResponseKind()
	response.SetVersion(request.GetVersion())
	return response.(R)
}

// noGroups is what is said to a client that wants what this broker has not.
const noGroups = "this broker has no consumer groups and no transactions: assign partitions, and use no transactional id"

// answerFindCoordinator refuses: groups and transactions begin with it.
func answerFindCoordinator(request *kmsg.FindCoordinatorRequest) kmsg.Response {
	response := respond[*kmsg.FindCoordinatorResponse](request)
	response.ErrorCode, response.ErrorMessage, response.NodeID = codeInvalidRequest, kmsg.StringPtr(noGroups), -1
	for _, key := range request.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.ErrorCode, c.ErrorMessage = key, -1, codeInvalidRequest, kmsg.StringPtr(noGroups)
		response.Coordinators = append(response.Coordinators, c)
	}
	return response
}
