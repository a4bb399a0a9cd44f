package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/walstorage"
)

// Given a byte that has changed in the leader's log file, any of two batches, when a consumer or a follower fetches, then it gets
// an error or what lies before, and never the damage. When the leader is killed and recovers, then the log is cut there, and
// in the end all three are equal again, with everything that was acknowledged.
func TestFlippedByte(t *testing.T) {
	c := start(t, overFiles(t))
	_, err := c.controller.createTopic("t", 1, 3)
	require.NoError(t, err)
	client := newPlainClient(t, c)
	defer client.close()
	for n := range 5 {
		require.EqualValues(t, n, client.mustProduce("t", acksAll, fmt.Sprintf("record %d", n)))
	}
	good := settled(t, c, "t")[0][0]
	a := c.controller.current().Topics["t"].Partitions[0]
	path := filepath.Join(c.dir, fmt.Sprintf("broker-%d", a.Leader), "t-0", "00000000000000000000.log")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	size := len(good) / 5
	for at := size; at < 3*size; at++ {
		_, err := file.WriteAt([]byte{good[at] ^ 1<<(at%8)}, int64(at))
		require.NoError(t, err)
		for _, from := range []int64{0, 1, 2} {
			got, code := client.fetch("t", a.Leader, from)
			require.True(t, bytes.HasPrefix(good[int(from)*size:], got), "byte %d, fetched from %d", at, from)
			if ahead := at - int(from)*size; ahead >= 0 {
				require.LessOrEqual(t, len(got), ahead, "byte %d, fetched from %d", at, from)
				require.True(t, len(got) > 0 || code == codeCorruptMessage, "byte %d, fetched from %d: code %d", at, from, code)
			}
		}
		_, err = file.WriteAt(good[at:at+1], int64(at))
		require.NoError(t, err)
	}
	got, code := client.fetch("t", a.Leader, 1)
	require.Zero(t, code)
	require.Equal(t, good[size:], got, "nothing is wrong any more")

	require.NoError(t, c.kill(a.Leader))
	at := 2*size + 30
	_, err = file.WriteAt([]byte{^good[at]}, int64(at))
	require.NoError(t, err)
	require.NoError(t, c.start(t.Context(), a.Leader))
	client.mustProduce("t", acksAll, "one more")
	awaitInSync(t, c, "t", 0, 3)
	logs := settled(t, c, "t")[0]
	require.Equal(t, good, logs[0][:len(good)])
	require.Equal(t, logs[0], logs[1])
	require.Equal(t, logs[0], logs[2])
}

// fetch reads from partition 0, once.
func (p *plainClient) fetch(topic string, broker int32, from int64) (batches []byte, code int16) {
	p.t.Helper()
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(12)
	request.ReplicaID, request.MaxBytes, request.MaxWaitMillis, request.MinBytes = -1, 1<<20, int32(time.Second.Milliseconds()), 1
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = from, 1<<20
	request.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	answer := ask[*kmsg.FetchResponse](p, broker, request).Topics[0].Partitions[0]
	return answer.RecordBatches, answer.ErrorCode
}

// Given a broker that died and whose next start fails before it has opened its logs, when it starts at last, then its logs are
// recovered all the same, and what it has kept is not forgotten: nobody has said that they were closed.
func TestNothingIsCleanThatWasNotClosed(t *testing.T) {
	cfg := overFiles(t)
	c := start(t, cfg)
	_, err := c.controller.createTopic("t", 1, 3)
	require.NoError(t, err)
	client := newPlainClient(t, c)
	defer client.close()
	for range 3 {
		client.mustProduce("t", acksAll, "x")
	}
	id := c.controller.current().Topics["t"].Partitions[0].Leader
	settled(t, c, "t")
	b := c.broker(id)
	require.NoError(t, b.keep())
	clean := filepath.Join(b.dir, cleanFile)
	require.NoError(t, c.kill(id))
	require.NoFileExists(t, clean)
	before, err := readCheckpoint(filepath.Join(b.dir, highWatermarkFile))
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"t-0": 3}, before)

	refused := b.brokerConfig
	refused.storage = func(context.Context, int32, string) (walstorage.WalStorageManager, error) {
		return nil, errStoreStopped
	}
	_, err = startBroker(t.Context(), refused)
	require.ErrorIs(t, err, errStoreStopped)
	require.NoFileExists(t, clean)
	after, err := readCheckpoint(filepath.Join(b.dir, highWatermarkFile))
	require.NoError(t, err)
	require.Equal(t, before, after)

	require.NoError(t, c.start(t.Context(), id))
	awaitInSync(t, c, "t", 0, 3)
	c.close()
	require.FileExists(t, clean)
}
