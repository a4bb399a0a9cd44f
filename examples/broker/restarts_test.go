package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/walstorage/segment"
)

var rounds = flag.Int("rounds", 10, "how many times TestRestarts kills a broker")

const restartPartitions = 3

// ledger is what a producer was told of its records: which are acknowledged, by partition, in the order of sending.
type ledger struct {
	mu    sync.Mutex
	acked map[int32]map[int]int64 // number of the record, and its offset
	count int
	grown chan struct{}
}

func (l *ledger) note(r *kgo.Record, err error) {
	if err != nil {
		return
	}
	n, _ := strconv.Atoi(string(r.Value))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[r.Partition][n] = r.Offset
	l.count++
	close(l.grown)
	l.grown = make(chan struct{})
}

// await waits for so many further acknowledged records.
func (l *ledger) await(t *testing.T, more int, limit time.Duration) {
	t.Helper()
	l.mu.Lock()
	target := l.count + more
	l.mu.Unlock()
	timeout := time.After(limit)
	for {
		l.mu.Lock()
		count, grown := l.count, l.grown
		l.mu.Unlock()
		if count >= target {
			return
		}
		select {
		case <-grown:
		case <-timeout:
			require.FailNow(t, "nothing is acknowledged any more", "%d of %d", count, target)
		}
	}
}

// underLoad is three brokers and two producers: an idempotent one with acks=all, whose acknowledgements are noted, and one with
// acks=1, whose records may be lost.
type underLoad struct {
	*cluster
	acknowledged *ledger
	end          func() // of the load
}

func newUnderLoad(t *testing.T) *underLoad {
	t.Helper()
	cfg := overFiles(t)
	cfg.segmentBytes = 1 << 20
	c := start(t, cfg)
	_, err := c.controller.createTopic("t", restartPartitions, 3)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	quick := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordDeliveryTimeout(time.Minute), kgo.ProduceRequestTimeout(10 * time.Second),
	}
	safe := client(t, c, append(quick, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MaxBufferedRecords(200))...)
	fast := client(t, c, append(quick, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())...)
	l := &underLoad{cluster: c, acknowledged: &ledger{acked: map[int32]map[int]int64{}, grown: make(chan struct{})}}
	for n := range int32(restartPartitions) {
		l.acknowledged.acked[n] = map[int]int64{}
	}
	var load sync.WaitGroup
	load.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			// It blocks while MaxBufferedRecords are on their way.
			safe.Produce(ctx, &kgo.Record{Topic: "t", Partition: int32(n % restartPartitions), Value: strconv.AppendInt(nil, int64(n), 10)}, l.acknowledged.note)
		}
	})
	load.Go(func() {
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			<-ticker.C
			fast.Produce(ctx, &kgo.Record{Topic: "t", Partition: int32(n % restartPartitions), Value: fmt.Appendf(nil, "fast %d", n)}, nil)
		}
	})
	l.end = func() {
		cancel()
		load.Wait()
		safe.Close()
		fast.Close()
	}
	return l
}

// compare ends the load, waits until all replicas have everything, and counts the acknowledged records that are not there
// once and in order, and the logs that differ from the first.
func (l *underLoad) compare(t *testing.T) (lost, differences int) {
	t.Helper()
	l.end()
	for part, replicas := range settled(t, l.cluster, "t") {
		for _, log := range replicas[1:] {
			if !bytes.Equal(replicas[0], log) {
				differences++
			}
		}
		lost += missing(t, replicas[0], l.acknowledged.acked[int32(part)])
	}
	return lost, differences
}

// Given three brokers under load, when again and again a random one is killed, often the leader, sometimes with the end of
// its logs torn off, sometimes two at once, and started again, then every record that was acknowledged with acks=all is
// there in the end, once and in order, and all three logs are equal, byte for byte.
func TestRestarts(t *testing.T) {
	require.Positive(t, *rounds)
	c := newUnderLoad(t)
	acknowledged := c.acknowledged
	random := rand.New(rand.NewPCG(uint64(*rounds), 7))
	truncations, torn := int64(0), 0
	for round := range *rounds {
		acknowledged.await(t, 50, 30*time.Second)
		victim := c.controller.current().Topics["t"].Partitions[random.IntN(restartPartitions)].Leader
		if round%3 == 2 || victim < 0 {
			victim = int32(random.IntN(len(c.ids)))
		}
		victims := []int32{victim}
		if round%5 == 4 { // and another one: what is left may not acknowledge until one of them is back
			victims = append(victims, without(c.ids, victim)[random.IntN(2)])
		}
		for _, id := range victims {
			truncations += c.broker(id).truncations.Load()
			require.NoError(t, c.kill(id))
		}
		if len(victims) == 1 {
			acknowledged.await(t, 50, 30*time.Second) // by the two that are left
			if round%4 == 1 {
				torn += tear(t, c.cluster, victim, random)
			}
		}
		for _, id := range victims {
			require.NoError(t, c.start(t.Context(), id))
		}
		for part := range restartPartitions {
			awaitInSync(t, c.cluster, "t", part, 3)
		}
	}
	lost, differences := c.compare(t)
	for _, id := range c.ids {
		truncations += c.broker(id).truncations.Load()
	}
	t.Logf("%d records acknowledged, %d truncations, %d tails torn", acknowledged.count, truncations, torn)
	fmt.Printf("restarts: %d rounds, %d acknowledged lost, %d differences\n", *rounds, lost, differences)
	require.Zero(t, lost)
	require.Zero(t, differences)
	if *rounds >= 20 {
		require.Positive(t, truncations, "no tail was ever truncated")
		require.Positive(t, torn)
	}
}

// Given three brokers under load, when leaders are moved while everybody lives, then nothing that was acknowledged is lost, and
// all three logs are equal: the old leader's unreplicated tail is truncated under its feet (B5).
func TestLeadersMove(t *testing.T) {
	c := newUnderLoad(t)
	random := rand.New(rand.NewPCG(1, 8))
	for range *rounds {
		c.acknowledged.await(t, 30, 30*time.Second)
		part := random.IntN(restartPartitions)
		a := c.controller.current().Topics["t"].Partitions[part]
		_ = moveLeader(c.cluster, "t", part, without(a.ISR, a.Leader)[0]) // unless that has changed meanwhile
		awaitInSync(t, c.cluster, "t", part, 3)
	}
	lost, differences := c.compare(t)
	require.Zero(t, lost)
	require.Zero(t, differences)
}

// tear cuts the ends of the logs of a broker that has died, as a power cut does, and returns of how many.
func tear(t *testing.T, c *cluster, id int32, random *rand.Rand) (n int) {
	t.Helper()
	for part, a := range c.controller.current().Topics["t"].Partitions {
		require.NotContains(t, a.ISR, id, "the others have what it loses")
		files, err := filepath.Glob(filepath.Join(c.dir, fmt.Sprintf("broker-%d", id), fmt.Sprintf("t-%d", part), "*.log"))
		require.NoError(t, err)
		slices.Sort(files)
		active := files[len(files)-1]
		info, err := os.Stat(active)
		require.NoError(t, err)
		if cut := min(info.Size(), random.Int64N(2000)); cut > 0 {
			require.NoError(t, os.Truncate(active, info.Size()-cut))
			n++
		}
	}
	return n
}

func awaitInSync(t *testing.T, c *cluster, topic string, part, n int) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		m := c.controller.current()
		if len(m.Topics[topic].Partitions[part].ISR) == n {
			return
		}
		select {
		case <-m.replaced:
		case <-timeout:
			require.FailNow(t, "the ISR has not become as it should", "%+v", c.state())
		}
	}
}

// settled waits until all replicas have everything, and returns the bytes of their log files, by partition and replica.
func settled(t *testing.T, c *cluster, topic string) (logs [][][]byte) {
	t.Helper()
	top := c.controller.current().Topics[topic]
	for part := range top.Partitions {
		key := segment.PartitionKey{TopicID: top.ID, Partition: int32(part)}
		a := c.controller.current().Topics[topic].Partitions[part]
		leader := c.broker(a.Leader).partition(key)
		same := func() bool {
			end, _ := leader.log.End()
			for _, id := range c.ids {
				if at, _ := c.broker(id).partition(key).log.End(); at != end {
					return false
				}
			}
			return leader.log.HighWatermark() == end
		}
		// Not by leader.await: the last thing to happen may be that another one truncates its tail.
		require.Eventually(t, same, 30*time.Second, 2*time.Millisecond, "%+v", c.state())
		var replicas [][]byte
		for _, id := range c.ids {
			replicas = append(replicas, logBytes(t, filepath.Join(c.dir, fmt.Sprintf("broker-%d", id), fmt.Sprintf("%s-%d", topic, part))))
		}
		logs = append(logs, replicas)
	}
	return logs
}

// logBytes returns the segments of a directory as one.
func logBytes(t *testing.T, dir string) (all []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	slices.Sort(files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, data...)
	}
	return all
}

// missing counts the acknowledged records that are not in the log, or more than once, or out of order, or elsewhere than
// the producer was told.
func missing(t *testing.T, log []byte, acked map[int]int64) (lost int) {
	t.Helper()
	found := map[int]int64{}
	last := -1
	for _, r := range records(t, log) {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			continue // of the other producer
		}
		if _, twice := found[n]; twice || n <= last {
			t.Logf("record %d at offset %d is there twice, or out of order", n, r.Offset)
			lost++
		}
		found[n], last = r.Offset, n
	}
	for n, offset := range acked {
		if at, ok := found[n]; !ok || at != offset {
			t.Logf("record %d was acknowledged at offset %d, and is at %d (%t)", n, offset, at, ok)
			lost++
		}
	}
	return lost
}
