package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Given three brokers that replicate through the store, when an unmodified client produces with acks=all and consumes,
// then it reads what it has written, once and in order, and all three logs are equal.
func TestProduceAndConsume(t *testing.T) {
	c := start(t, overFiles(t))
	_, err := c.controller.createTopic("orders", 3, 3)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	producer := client(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	const records = 300
	for i := range records {
		record := &kgo.Record{Topic: "orders", Partition: int32(i % 3), Value: fmt.Appendf(nil, "%d", i)}
		require.NoError(t, producer.ProduceSync(ctx, record).FirstErr())
	}
	consumer := client(t, c, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := map[int32]int{0: 0, 1: 1, 2: 2}
	for read := 0; read < records; {
		fetches := consumer.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		fetches.EachRecord(func(r *kgo.Record) {
			require.Equal(t, fmt.Sprint(next[r.Partition]), string(r.Value))
			next[r.Partition] += 3
			read++
		})
	}
}
