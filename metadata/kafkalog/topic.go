package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Pauses between two attempts at a request that the cluster could not answer for now.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// pauses waits longer each time. The zero value is ready to use.
type pauses struct{ next time.Duration }

// wait returns the error of the context if that ends first.
func (p *pauses) wait(ctx context.Context) error {
	p.next = min(max(2*p.next, firstPause), mostPause)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reach waits for a broker of the cluster to answer. Only what a pause may mend is tried again.
func reach(ctx context.Context, client *kgo.Client) error {
	const doing, needs = "asking for its brokers", "a connection"
	var pause pauses
	var last error
	for {
		err := client.Ping(ctx)
		if err == nil {
			return nil
		}
		err = classify(err, doing, needs)
		if !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrAuthentication) && !errors.Is(err, ErrAuthorization) {
			err = fmt.Errorf("%w: %w", ErrUnreachable, err) // TLS has failed, say
		}
		last = telling(last, err)
		if errors.Is(err, ErrAuthentication) || errors.Is(err, ErrAuthorization) || pause.wait(ctx) != nil {
			return last
		}
	}
}

// topicAdmin creates and verifies the topic.
type topicAdmin struct {
	cfg   Config
	admin *kadm.Client
}

// open returns the topic's limit of a record batch, once the topic is there and fits.
func (a topicAdmin) open(ctx context.Context) (limit int, err error) {
	var pause pauses
	for created := false; ; {
		limit, err = a.verify(ctx)
		switch {
		case err == nil:
			return limit, nil
		case errors.Is(err, kerr.UnknownTopicOrPartition) && !created:
			if err = a.create(ctx); err == nil {
				created = true
			}
		}
		// A topic just created is not known to every broker at once, nor is a new leader.
		if again := err == nil || isPassing(err); !again || pause.wait(ctx) != nil {
			return 0, err
		}
	}
}

// create creates the topic. That another broker has been faster is no error.
func (a topicAdmin) create(ctx context.Context) error {
	text := func(s string) *string { return &s }
	_, err := a.admin.CreateTopic(ctx, a.cfg.Partitions, a.cfg.ReplicationFactor, map[string]*string{
		"cleanup.policy":         text("delete"),
		"retention.ms":           text(strconv.FormatInt(a.retention(), 10)),
		"min.insync.replicas":    text(strconv.Itoa(a.cfg.MinInSyncReplicas)),
		"message.timestamp.type": text("LogAppendTime"),
	}, a.cfg.Topic)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return nil
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return fmt.Errorf("%w: %s cannot be created with %d replicas: set Config.ReplicationFactor to no more than there are brokers: %w",
			ErrTopic, a.cfg.Topic, a.cfg.ReplicationFactor, err)
	case errors.Is(err, kerr.PolicyViolation), errors.Is(err, kerr.InvalidConfig), errors.Is(err, kerr.InvalidPartitions):
		return fmt.Errorf("%w: %s cannot be created: %w", ErrTopic, a.cfg.Topic, err)
	case err != nil:
		return classify(err, "creating topic "+a.cfg.Topic, "CREATE on topic "+a.cfg.Topic+", or on the cluster")
	}
	a.cfg.Logger.Info("created the metadata topic", slog.String("topic", a.cfg.Topic), slog.Int("partitions", int(a.cfg.Partitions)),
		slog.Int("replicas", int(a.cfg.ReplicationFactor)), slog.Duration("retention", a.cfg.SegmentRetention+a.cfg.RetentionMargin))
	return nil
}

// retention is the retention.ms that events need (M6).
func (a topicAdmin) retention() int64 {
	return (a.cfg.SegmentRetention + a.cfg.RetentionMargin).Milliseconds()
}

// verify looks at the topic as it is.
func (a topicAdmin) verify(ctx context.Context) (limit int, err error) {
	topic := a.cfg.Topic
	details, err := a.admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return 0, classify(err, "looking for topic "+topic, "DESCRIBE on topic "+topic)
	}
	detail := details[topic]
	if detail.Err != nil {
		return 0, classify(detail.Err, "looking for topic "+topic, "DESCRIBE on topic "+topic)
	}
	for _, partition := range detail.Partitions {
		if partition.Err != nil { // it has no leader yet
			return 0, classify(partition.Err, fmt.Sprintf("looking for partition %d of topic %s", partition.Partition, topic), "")
		}
	}
	if n := len(detail.Partitions); n < int(a.cfg.Partitions) { // M2: the place of a key would change when some are added
		return 0, fmt.Errorf("%w: %s has %d partitions and Config.Partitions is %d: add partitions to the topic, or set Partitions to %d or less on every broker",
			ErrTopic, topic, n, a.cfg.Partitions, n)
	}
	resources, err := a.admin.DescribeTopicConfigs(ctx, topic)
	if err == nil && len(resources) == 1 {
		err = resources[0].Err
	}
	if err != nil {
		return 0, classify(err, "reading the settings of topic "+topic, "DESCRIBE_CONFIGS on topic "+topic)
	}
	settings := settings{}
	for _, resource := range resources {
		for _, c := range resource.Configs {
			settings[c.Key] = c.MaybeValue()
		}
	}
	replicas := len(detail.Partitions[0].Replicas)
	if limit, err = a.judge(settings, replicas); err != nil {
		return 0, err
	}
	return limit, nil
}

// settings are a topic's settings by name. What a cluster does not tell is not judged.
type settings map[string]string

// number returns a setting, or otherwise if it is not told.
func (s settings) number(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(s[name], 10, 64); err == nil {
		return n
	}
	return otherwise
}

// judge refuses settings with which events would be lost, and warns of those that are less than was asked for.
func (a topicAdmin) judge(s settings, replicas int) (limit int, err error) {
	topic, wrong := a.cfg.Topic, func(format string, args ...any) error {
		return fmt.Errorf("%w: "+a.cfg.Topic+" has "+format, append([]any{ErrTopic}, args...)...)
	}
	if policy := s["cleanup.policy"]; slices.Contains(strings.FieldsFunc(policy, func(r rune) bool { return r == ',' || r == ' ' }), "compact") {
		return 0, wrong("cleanup.policy=%s: all events of a broker have one key, so compaction would drop all but the last: set it to delete", policy)
	}
	warn := func(setting string, is, want any) {
		a.cfg.Logger.Warn("a setting of the metadata topic should be changed",
			slog.String("topic", topic), slog.String("setting", setting), slog.Any("is", is), slog.Any("want", want))
	}
	least, want := a.cfg.SegmentRetention.Milliseconds(), a.retention()
	switch is := s.number("retention.ms", -1); {
	case is >= 0 && is < least:
		return 0, wrong("retention.ms=%d, and segments are kept for %d ms (Config.SegmentRetention): set it to %d or more", is, least, want)
	case is >= 0 && is < want:
		warn("retention.ms", is, want)
	}
	if is := s.number("retention.bytes", -1); is >= 0 {
		warn("retention.bytes", is, -1)
	}
	limit = int(s.number("max.message.bytes", 1<<20))
	if need := a.cfg.MaxEventBytes + maxRecordOverhead; limit < need {
		return 0, wrong("max.message.bytes=%d, and an event takes up to %d (L8): set it to that or more, or lower Config.MaxEventBytes and leader.Config.MaxEventBytes",
			limit, need)
	}
	inSync := int(s.number("min.insync.replicas", 1))
	switch {
	case replicas > 0 && inSync > replicas:
		return 0, wrong("min.insync.replicas=%d and %d replicas, so nothing can be written to it: lower the one or raise the other", inSync, replicas)
	case inSync < a.cfg.MinInSyncReplicas:
		warn("min.insync.replicas", inSync, a.cfg.MinInSyncReplicas)
	}
	if replicas < int(a.cfg.ReplicationFactor) {
		warn("replication factor", replicas, a.cfg.ReplicationFactor)
	}
	if is := s["message.timestamp.type"]; is != "" && is != "LogAppendTime" {
		warn("message.timestamp.type", is, "LogAppendTime")
	}
	if s["unclean.leader.election.enable"] == "true" {
		warn("unclean.leader.election.enable", true, false)
	}
	return limit, nil
}
