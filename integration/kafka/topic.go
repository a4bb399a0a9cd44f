package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Admin returns a client for what an administrator does, which is closed with the test.
func (c *Cluster) Admin(tb testing.TB) *kadm.Client {
	tb.Helper()
	return kadm.NewClient(c.Client(tb, kgo.MetadataMinAge(50*time.Millisecond))) // else an answer may be 5 s old
}

// Create creates a topic with a replica of each partition on every broker, and returns when each partition has a leader
// that serves it.
// Settings are pairs of a name and a value.
func (c *Cluster) Create(tb testing.TB, topic string, partitions int, settings ...string) {
	tb.Helper()
	configs := make(map[string]*string)
	for pair := range slices.Chunk(settings, 2) {
		configs[pair[0]] = &pair[1]
	}
	admin := c.Admin(tb)
	Eventually(tb, "creating "+topic, func(ctx context.Context) error { // one of that name may be on its way out
		_, err := admin.CreateTopic(ctx, int32(partitions), int16(len(c.brokers)), configs, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			tb.Fatal(err)
		}
		return err
	})
	Eventually(tb, topic+" has leaders", func(ctx context.Context) error {
		for p := range partitions {
			if _, err := partition(ctx, admin, topic, p); err != nil {
				return err
			}
		}
		ends, err := admin.ListEndOffsets(ctx, topic)
		return errors.Join(err, ends.Error())
	})
}

// Delete deletes a topic, and returns when clients are not told of it any more.
func (c *Cluster) Delete(tb testing.TB, topic string) {
	tb.Helper()
	admin := c.Admin(tb)
	_, err := admin.DeleteTopic(tb.Context(), topic)
	require.NoError(tb, err)
	Eventually(tb, topic+" is gone", func(ctx context.Context) error {
		if _, err := partition(ctx, admin, topic, 0); !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

// Leader returns the broker that leads a partition, once there is one.
func (c *Cluster) Leader(tb testing.TB, topic string, number int) *Broker {
	tb.Helper()
	admin := c.Admin(tb)
	var leader int32
	Eventually(tb, fmt.Sprintf("%s-%d has a leader", topic, number), func(ctx context.Context) error {
		p, err := partition(ctx, admin, topic, number)
		leader = p.Leader
		return err
	})
	return c.Broker(int(leader))
}

// MoveLeader makes another replica of a partition its leader and returns the new one: an election of the preferred one,
// after the order of the replicas was changed.
func (c *Cluster) MoveLeader(tb testing.TB, topic string, number int) *Broker {
	tb.Helper()
	admin := c.Admin(tb)
	before, err := partition(tb.Context(), admin, topic, number)
	require.NoError(tb, err)
	order := slices.Clone(before.Replicas)
	for order[0] == before.Leader || !slices.Contains(before.ISR, order[0]) {
		order = append(order[1:], order[0])
	}
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign(topic, int32(number), order)
	altered, err := admin.AlterPartitionAssignments(tb.Context(), move)
	require.NoError(tb, err)
	require.NoError(tb, altered.Error())
	elect := make(kadm.TopicsSet)
	elect.Add(topic, int32(number))
	Eventually(tb, fmt.Sprintf("%d leads %s-%d", order[0], topic, number), func(ctx context.Context) error {
		_, failed := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, elect)
		now, err := partition(ctx, admin, topic, number)
		if err == nil && now.Leader != order[0] {
			err = fmt.Errorf("%d leads it", now.Leader)
		}
		if err == nil {
			return nil
		}
		return errors.Join(err, failed)
	})
	return c.Broker(int(order[0]))
}

// AwaitISR waits until all brokers are in sync in a partition.
func (c *Cluster) AwaitISR(tb testing.TB, topic string, number int) {
	tb.Helper()
	admin := c.Admin(tb)
	Eventually(tb, fmt.Sprintf("all replicas of %s-%d are in sync", topic, number), func(ctx context.Context) error {
		p, err := partition(ctx, admin, topic, number)
		if err == nil && len(p.ISR) != len(c.brokers) {
			err = fmt.Errorf("%v are", p.ISR)
		}
		return err
	})
}

// DeleteRecords deletes the records of a partition below an offset, and returns when a client is told so. -1 deletes all.
func (c *Cluster) DeleteRecords(tb testing.TB, topic string, number int, below int64) {
	tb.Helper()
	admin := c.Admin(tb)
	var offsets kadm.Offsets
	offsets.AddOffset(topic, int32(number), below, -1)
	answers, err := admin.DeleteRecords(tb.Context(), offsets)
	require.NoError(tb, err)
	require.NoError(tb, answers.Error())
}

// AwaitStart waits until retention has deleted the records of a partition below an offset.
func (c *Cluster) AwaitStart(tb testing.TB, topic string, number int, atLeast int64) {
	tb.Helper()
	admin := c.Admin(tb)
	Eventually(tb, fmt.Sprintf("%s-%d begins at %d", topic, number, atLeast), func(ctx context.Context) error {
		starts, err := admin.ListStartOffsets(ctx, topic)
		if err != nil {
			return err
		}
		if start, _ := starts.Lookup(topic, int32(number)); start.Err != nil || start.Offset < atLeast {
			return fmt.Errorf("it begins at %d: %v", start.Offset, start.Err)
		}
		return nil
	})
}

// Throttle limits what clients of an id may produce, in bytes a second, on each broker. 0 lifts the limit.
func (c *Cluster) Throttle(tb testing.TB, clientID string, bytesPerSecond float64) {
	tb.Helper()
	answers, err := c.Admin(tb).AlterClientQuotas(tb.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &clientID}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: bytesPerSecond, Remove: bytesPerSecond == 0}},
	}})
	require.NoError(tb, err)
	for _, answer := range answers {
		require.NoError(tb, answer.Err, answer.ErrMessage)
	}
}

// partition returns what a client is told of a partition, or why there is no leader.
func partition(ctx context.Context, admin *kadm.Client, topic string, number int) (kadm.PartitionDetail, error) {
	all, err := admin.Metadata(ctx, topic)
	if err != nil {
		return kadm.PartitionDetail{}, err
	}
	if err := all.Topics[topic].Err; err != nil {
		return kadm.PartitionDetail{}, err
	}
	p, there := all.Topics[topic].Partitions[int32(number)]
	switch {
	case !there:
		return p, kerr.UnknownTopicOrPartition
	case p.Err != nil:
		return p, p.Err
	case p.Leader < 0:
		return p, kerr.LeaderNotAvailable
	}
	return p, nil
}
