package kafkalog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/metadata"
)

// refresh looks for added partitions, for a topic that was created again, and for records deleted before they were read,
// until ctx ends. Leaders are followed by the client itself.
func (s *subscription) refresh(ctx context.Context) {
	ticker := time.NewTicker(s.log.cfg.RefreshInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		limited, cancel := context.WithTimeout(ctx, s.log.cfg.OpenTimeout)
		topic, err := describe(limited, s.log.client, s.log.cfg.Topic)
		cancel()
		switch {
		case err != nil: // the next time is soon enough
		case topic.TopicID != s.topic:
			s.restart(topic)
		default:
			s.extend(topic)
			s.lookForDeleted(ctx, numbersOf(topic))
		}
	}
}

// lookForDeleted tells of records that are gone though they have not been read (M3). The next record of the partition would
// show it, but there may be none: then nobody would tell.
func (s *subscription) lookForDeleted(ctx context.Context, partitions []int32) {
	ctx, cancel := context.WithTimeout(ctx, s.log.cfg.OpenTimeout)
	defer cancel()
	starts, err := listOffsets(ctx, s.log.client, s.log.cfg.Topic, partitions, listStart)
	if err != nil { // the next time is soon enough
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range partitions {
		at, start := s.partitions[n], starts[n].offset
		if at == nil || start <= max(at.next, at.gone) {
			continue
		}
		at.gone = start
		s.lose(at, metadata.GapMissing)
		s.warn("records of the metadata topic were deleted before they were read", n, at.next, start)
		if s.wake != nil {
			s.wake()
		}
	}
}

// extend begins to read added partitions. They were added after Subscribe, so all that is in them is wanted.
func (s *subscription) extend(topic *kmsg.MetadataResponseTopic) {
	s.mu.Lock()
	added := make(map[int32]kgo.Offset)
	for _, n := range numbersOf(topic) {
		if s.partitions[n] == nil {
			s.partitions[n] = newReading(0)
			added[n] = kgo.NewOffset().At(0)
		}
	}
	client := s.client
	s.mu.Unlock()
	if len(added) == 0 {
		return
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.log.cfg.Topic: added})
	s.log.cfg.Logger.Info("the metadata topic has new partitions", slog.String("topic", s.log.cfg.Topic), slog.Int("partitions", len(added)))
}

// restart begins to read a topic that was created again, all of it, after a gap for each broker. Another client reads it:
// what the old one still brings is of the old topic, and offsets there mean nothing here (twmb/franz-go#1364).
func (s *subscription) restart(topic *kmsg.MetadataResponseTopic) {
	from := make(map[int32]kgo.Offset)
	for _, n := range numbersOf(topic) {
		from[n] = kgo.NewOffset().At(0)
	}
	client, err := newReader(s.log.cfg, from)
	if err != nil { // it has worked with the same settings before
		s.log.cfg.Logger.Error("the metadata topic was created again and cannot be read", slog.Any("err", err))
		return
	}
	s.mu.Lock()
	old := s.client
	s.client, s.topic, s.fetched = client, topic.TopicID, nil
	for n := range from {
		if s.partitions[n] == nil {
			s.partitions[n] = newReading(0)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.partitions)) {
		at := s.partitions[n]
		at.next, at.gone, at.damaged = 0, 0, false
		s.lose(at, metadata.GapMissing)
	}
	s.mu.Unlock()
	s.log.cfg.Logger.Warn("the metadata topic was created again", slog.String("topic", s.log.cfg.Topic))
	old.Close() // which wakes Next
}
