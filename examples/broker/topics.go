package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// zone is the zone, or rack, that a broker pretends to be in.
func zone(id int32) string { return "zone-" + string(rune('a'+id%26)) }

// answerMetadata tells which brokers and topics there are and who leads. A topic that is asked for and missing is created,
// if the client allows it.
func (b *broker) answerMetadata(ctx context.Context, request *kmsg.MetadataRequest) kmsg.Response {
	response := respond[*kmsg.MetadataResponse](request)
	if request.AllowAutoTopicCreation || request.Version < 4 {
		for _, t := range request.Topics {
			if t.Topic != nil && b.controller.current().Topics[*t.Topic] == nil && legalName(*t.Topic) {
				_, _ = b.controller.createTopic(*t.Topic, b.defaultPartitions, b.defaultReplicas())
				b.controller.settle(ctx, settleLimit)
			}
		}
	}
	m := b.controller.current()
	response.ClusterID = &m.Cluster
	for _, id := range slices.Sorted(maps.Keys(m.alive)) {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Rack = id, kmsg.StringPtr(zone(id))
		broker.Host, broker.Port = b.network.address(id)
		response.Brokers = append(response.Brokers, broker)
	}
	response.ControllerID = b.id // whichever is asked does what a controller does
	all := request.Topics == nil || request.Version == 0 && len(request.Topics) == 0
	if all {
		for _, name := range slices.Sorted(maps.Keys(m.Topics)) {
			response.Topics = append(response.Topics, describeTopic(m, m.Topics[name]))
		}
	}
	for _, asked := range request.Topics {
		t, code := m.byID[asked.TopicID], codeUnknownTopicID
		if asked.Topic != nil {
			t, code = m.Topics[*asked.Topic], codeUnknownTopicOrPartition
			if !legalName(*asked.Topic) {
				code = codeInvalidTopic
			}
		}
		if t != nil {
			response.Topics = append(response.Topics, describeTopic(m, t))
			continue
		}
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID, topic.ErrorCode = asked.Topic, asked.TopicID, code
		response.Topics = append(response.Topics, topic)
	}
	return response
}

// settleLimit is how long a client that creates topics waits until they have leaders that know it.
const settleLimit = 5 * time.Second

func (b *broker) defaultReplicas() int { return len(b.ids) }

func describeTopic(m *image, t *topic) kmsg.MetadataResponseTopic {
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID = kmsg.StringPtr(t.Name), t.ID
	for n, a := range t.Partitions {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = int32(n), a.Leader, a.Epoch, a.Replicas, a.ISR
		if a.Leader < 0 {
			p.ErrorCode = codeLeaderNotAvailable
		}
		for _, id := range a.Replicas {
			if _, alive := m.alive[id]; !alive {
				p.OfflineReplicas = append(p.OfflineReplicas, id)
			}
		}
		topic.Partitions = append(topic.Partitions, p)
	}
	return topic
}

// answerDescribeCluster tells the brokers, as Metadata does.
func (b *broker) answerDescribeCluster(request *kmsg.DescribeClusterRequest) kmsg.Response {
	response := respond[*kmsg.DescribeClusterResponse](request)
	m := b.controller.current()
	response.ClusterID, response.ControllerID = m.Cluster, b.id
	response.EndpointType = max(1, request.EndpointType)
	for _, id := range slices.Sorted(maps.Keys(m.alive)) {
		broker := kmsg.NewDescribeClusterResponseBroker()
		broker.NodeID, broker.Rack = id, kmsg.StringPtr(zone(id))
		broker.Host, broker.Port = b.network.address(id)
		response.Brokers = append(response.Brokers, broker)
	}
	return response
}

// maxPartitions is how many partitions a topic may have: each costs files and a directory on every broker.
const maxPartitions = 1000

// legalName tells whether a topic may be called so. The name becomes that of a directory.
func legalName(name string) bool {
	if name == "" || len(name) > 249 || name == "." || name == ".." {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// answerCreateTopics creates topics.
func (b *broker) answerCreateTopics(ctx context.Context, request *kmsg.CreateTopicsRequest) kmsg.Response {
	response := respond[*kmsg.CreateTopicsResponse](request)
	for _, asked := range request.Topics {
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic = asked.Topic
		t, code, says := b.createTopic(asked, request.ValidateOnly)
		if topic.ErrorCode = code; says != "" {
			topic.ErrorMessage = &says
		}
		topic.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // at null Kafka's own client fails
		if t != nil {
			topic.TopicID, topic.NumPartitions, topic.ReplicationFactor = t.ID, int32(len(t.Partitions)), int16(len(t.Partitions[0].Replicas))
		}
		response.Topics = append(response.Topics, topic)
	}
	b.controller.settle(ctx, min(settleLimit, time.Duration(request.TimeoutMillis)*time.Millisecond))
	return response
}

func (b *broker) createTopic(asked kmsg.CreateTopicsRequestTopic, validateOnly bool) (t *topic, code int16, says string) {
	partitions, replicas := int(asked.NumPartitions), int(asked.ReplicationFactor)
	if partitions == -1 {
		partitions = b.defaultPartitions
	}
	if replicas == -1 {
		replicas = b.defaultReplicas()
	}
	switch {
	case !legalName(asked.Topic):
		return nil, codeInvalidTopic, "a name has 1 to 249 of A-Z a-z 0-9 . _ -"
	case len(asked.ReplicaAssignment) > 0:
		return nil, codeInvalidReplicaAssignment, "replicas are assigned by the controller alone"
	case len(asked.Configs) > 0:
		return nil, codeInvalidConfig, "topics have no configuration of their own here"
	case partitions < 1 || partitions > maxPartitions:
		return nil, codeInvalidPartitions, "a topic has 1 to 1000 partitions"
	case replicas < 1 || replicas > len(b.controller.current().alive):
		return nil, codeInvalidReplicationFactor, "there are not so many brokers"
	}
	if validateOnly {
		if b.controller.current().Topics[asked.Topic] != nil {
			return nil, codeTopicAlreadyExists, errTopicExists.Error()
		}
		return nil, codeNone, ""
	}
	t, err := b.controller.createTopic(asked.Topic, partitions, replicas)
	switch {
	case errors.Is(err, errTopicExists):
		return nil, codeTopicAlreadyExists, err.Error()
	case errors.Is(err, errTooFewBrokers):
		return nil, codeInvalidReplicationFactor, err.Error()
	case err != nil:
		return nil, codeUnknownServerError, "the controller cannot write"
	}
	return t, codeNone, ""
}

// answerDeleteTopics deletes topics, by name or by id.
func (b *broker) answerDeleteTopics(request *kmsg.DeleteTopicsRequest) kmsg.Response {
	response := respond[*kmsg.DeleteTopicsResponse](request)
	asked := request.Topics
	for _, name := range request.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr(name)})
	}
	for _, a := range asked {
		answer := kmsg.NewDeleteTopicsResponseTopic()
		answer.Topic, answer.TopicID = a.Topic, a.TopicID
		var t *topic
		var code int16
		if a.Topic != nil {
			t, code = b.findTopic(*a.Topic, [16]byte{}, false)
		} else {
			t, code = b.findTopic("", a.TopicID, true)
		}
		if t != nil {
			answer.Topic, answer.TopicID = kmsg.StringPtr(t.Name), t.ID
			if err := b.controller.deleteTopic(t.ID); err != nil {
				code = codeUnknownServerError
			}
		}
		answer.ErrorCode = code
		response.Topics = append(response.Topics, answer)
	}
	return response
}

// answerDescribeConfigs tells the few settings that clients look at. They are the same for every topic, and none can be
// changed.
func (b *broker) answerDescribeConfigs(request *kmsg.DescribeConfigsRequest) kmsg.Response {
	response := respond[*kmsg.DescribeConfigsResponse](request)
	settings := []struct{ name, value string }{
		{"cleanup.policy", "delete"},
		{"max.message.bytes", strconv.Itoa(maxBatch)},
		{"message.timestamp.type", "CreateTime"},
		{"min.insync.replicas", strconv.Itoa(b.minISR)},
	}
	for _, asked := range request.Resources {
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = asked.ResourceType, asked.ResourceName
		if asked.ResourceType == kmsg.ConfigResourceTypeTopic && b.controller.current().Topics[asked.ResourceName] == nil {
			r.ErrorCode = codeUnknownTopicOrPartition
			response.Resources = append(response.Resources, r)
			continue
		}
		for _, s := range settings {
			if asked.ConfigNames != nil && !slices.Contains(asked.ConfigNames, s.name) {
				continue
			}
			c := kmsg.NewDescribeConfigsResponseResourceConfig()
			c.Name, c.Value, c.ReadOnly, c.IsDefault = s.name, kmsg.StringPtr(s.value), true, true
			c.Source, c.ConfigType = kmsg.ConfigSourceDefaultConfig, kmsg.ConfigTypeString
			r.Configs = append(r.Configs, c)
		}
		response.Resources = append(response.Resources, r)
	}
	return response
}
