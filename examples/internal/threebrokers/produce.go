package threebrokers

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

const (
	recordBytes     = 1000
	recordsPerBatch = 16
	tick            = 5 * time.Millisecond
)

// produce appends batches to the partitions in turn, at the rate asked for, until the time is over or ctx has ended. It
// catches up where the machine made it late, so the rate holds on average.
func (c *cluster) produce(ctx context.Context, load Load) error {
	topic := uuid.New()
	var partitions []*replicated
	for i := range load.Partitions {
		r := c.create("produced", topic, int32(i))
		if err := c.elect(r, 1); err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		partitions = append(partitions, r)
	}
	begun := time.Now()
	perSecond := load.Rate * 1e6 / (recordsPerBatch * recordBytes)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for sent := 0; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		elapsed := min(time.Since(begun), load.Duration)
		for due := int(elapsed.Seconds() * perSecond); sent < due; sent++ {
			if err := c.append(partitions[sent%len(partitions)], sent); err != nil {
				return err
			}
		}
		if elapsed == load.Duration {
			return nil
		}
	}
}

// append appends one batch at the leader: with acks=1 the producer would have its answer now.
func (c *cluster) append(r *replicated, n int) error {
	now := time.Now()
	epoch, _ := r.leader().log.Epoch()
	end, _ := r.leader().log.End() // nobody else appends to it
	c.latency.appending(r.Key(), end+recordsPerBatch, now, len(r.replicas)-1)
	batch := newBatch(recordsPerBatch, recordBytes, now.UnixMilli(), byte('a'+n%26))
	if _, _, err := r.leader().log.Append(c.ctx, epoch, batch); err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}
