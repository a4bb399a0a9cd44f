package main

import (
	"bytes"
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
	const records = 90
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

// Given each codec, when a client produces with it and another consumes what is committed, then it reads the same. This
// broker carries bytes and knows no codec.
func TestCodecs(t *testing.T) {
	c := start(t, overFiles(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		producer := client(t, c, kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation())
		var sent []*kgo.Record
		for n := range 100 {
			sent = append(sent, &kgo.Record{Topic: name, Key: fmt.Append(nil, n), Value: bytes.Repeat([]byte{byte(n)}, 500)})
		}
		require.NoError(t, producer.ProduceSync(ctx, sent...).FirstErr(), name)
		consumer := client(t, c, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		var got []*kgo.Record
		for len(got) < len(sent) {
			fetches := consumer.PollFetches(ctx)
			require.NoError(t, fetches.Err0(), name)
			got = append(got, fetches.Records()...)
		}
		require.Len(t, got, len(sent))
		for n := range sent {
			require.Equal(t, sent[n].Value, got[n].Value, name)
			require.EqualValues(t, n, got[n].Offset, name)
		}
	}
}
