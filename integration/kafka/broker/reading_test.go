package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Given values of 900 kB that do not compress, when each client writes one, then each reads all of them, also if it asks for
// less at a time; and what is too large is refused by name.
func TestLargeRecords(t *testing.T) {
	t.Parallel()
	b := start(t, "large:1")
	value := func(size int) []byte {
		raw := make([]byte, size)
		chacha := rand.NewChaCha8([32]byte{byte(size)})
		_, _ = chacha.Read(raw)
		return []byte(base64.RawStdEncoding.EncodeToString(raw))[:size]
	}
	want := [][]byte{value(900_001), value(900_002), value(900_003)}
	file := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(file, want[0], 0o600))
	b.kcat(t, "", "-P", "-t", "large", "-p", "0", "-z", "gzip", file)
	client := b.client(t, kgo.DefaultProduceTopic("large"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Value: want[1]}).FirstErr())
	b.Produce(t, b.bootstrap, "large", []string{"\t" + string(want[2])})

	sums := func(values [][]byte) (sums []string) {
		for _, v := range values {
			sums = append(sums, fmt.Sprintf("%d %x", len(v), sha256.Sum256(v)))
		}
		return sums
	}
	for _, limit := range []string{"10000000", "1000"} {
		got := b.kcat(t, "", "-C", "-t", "large", "-p", "0", "-o", "beginning", "-e", "-q", "-X", "fetch.message.max.bytes="+limit)
		require.Equal(t, sums(want), sums(bytes.Split(bytes.TrimSuffix([]byte(got), []byte("\n")), []byte("\n"))), "at most %s bytes at a time", limit)
	}
	var read [][]byte
	for _, r := range b.all(t, "large") {
		read = append(read, r.Value)
	}
	require.Equal(t, sums(want), sums(read))
	read = nil
	for _, line := range b.Consume(t, b.bootstrap, "large", 0, 0, 3, "--command-property", "max.partition.fetch.bytes=1000") {
		_, v, _ := strings.Cut(line, "\t")
		read = append(read, []byte(v))
	}
	require.Equal(t, sums(want), sums(read))

	greedy := b.client(t, kgo.DefaultProduceTopic("large"), kgo.ProducerBatchMaxBytes(3<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.ErrorIs(t, greedy.ProduceSync(t.Context(), &kgo.Record{Value: value(2 << 20)}).FirstErr(), kerr.MessageTooLarge)
	require.NoError(t, os.WriteFile(file, value(2<<20), 0o600))
	_, complaints, _ := b.shell(t, `kcat -b $BROKERS -P -t large -p 0 -X message.max.bytes=4000000 `+file)
	require.Contains(t, complaints, "Message size too large")
	b.awaitEnd(t, client, "large", 0, 3)
}

// listed is a partition in the list of kcat.
var listed = regexp.MustCompile(`(?m)^    partition (\d+), leader (\d), replicas: (\S+), isrs: (\S+)$`)

// Given a topic of 60 partitions that Kafka's own tool has created, when records are written to all of them, then kcat lists
// them, led by all three brokers, and each partition has its own records in order; and when the topic is deleted, it is gone.
func TestManyPartitions(t *testing.T) {
	t.Parallel()
	const partitions, each = 60, 20
	b := start(t, "")
	out, complaints, status := b.shell(t, fmt.Sprint("kafka-topics --bootstrap-server $BROKERS --create --topic many --replication-factor 3 --partitions ", partitions))
	require.Zero(t, status, complaints)
	require.Contains(t, out, "Created topic many.")

	client := b.client(t, kgo.DefaultProduceTopic("many"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for i := range partitions * each {
		records = append(records, &kgo.Record{Partition: int32(i % partitions), Value: fmt.Append(nil, i)})
	}
	require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())

	leaders := map[string]int{}
	for _, p := range listed.FindAllStringSubmatch(b.kcat(t, "", "-L", "-t", "many"), -1) {
		leaders[p[2]]++
		replicas, inSync := strings.Split(p[3], ","), strings.Split(p[4], ",")
		require.ElementsMatch(t, []string{"0", "1", "2"}, replicas)
		require.ElementsMatch(t, replicas, inSync)
	}
	require.Equal(t, map[string]int{"0": partitions / 3, "1": partitions / 3, "2": partitions / 3}, leaders)

	next := make([]int, partitions)
	for i := range next {
		next[i] = i
	}
	for line := range strings.Lines(b.kcat(t, "", "-C", "-t", "many", "-o", "beginning", "-e", "-q", "-f", "%p %o %s\n")) {
		var partition, offset, n int
		_, err := fmt.Sscan(line, &partition, &offset, &n)
		require.NoError(t, err)
		require.Equal(t, next[partition], n)
		require.Equal(t, n/partitions, offset)
		next[partition] += partitions
	}
	for i, n := range next {
		require.Equal(t, i+partitions*each, n, "what comes after all of partition %d", i)
	}
	require.Len(t, b.Consume(t, b.bootstrap, "many", partitions-1, 0, each), each)

	_, complaints, status = b.shell(t, "kafka-topics --bootstrap-server $BROKERS --delete --topic many")
	require.Zero(t, status, complaints)
	require.NotContains(t, b.kcat(t, "", "-L"), `topic "many"`)
}

// Given records a second apart, when clients ask by time, from the beginning, from the end or so many before it, then each
// begins where it has asked to.
func TestWhereReadersBegin(t *testing.T) {
	t.Parallel()
	const n = 60
	b := start(t, "times:1")
	begin := time.Now().Add(-time.Hour).UnixMilli()
	client := b.client(t, kgo.DefaultProduceTopic("times"))
	for i := range n { // a batch each
		record := &kgo.Record{Value: fmt.Append(nil, i), Timestamp: time.UnixMilli(begin + 1000*int64(i))}
		require.NoError(t, client.ProduceSync(t.Context(), record).FirstErr())
	}
	b.awaitEnd(t, client, "times", 0, n)
	between := begin + 1000*40 - 500 // nothing has this time

	for _, c := range []struct {
		from string
		want int
	}{
		{"beginning", 0},
		{"17", 17},
		{"-5", n - 5},
		{fmt.Sprint("s@", begin), 0},
		{fmt.Sprint("s@", begin+30_000), 30},
		{fmt.Sprint("s@", between), 40},
		{"s@0", 0},
	} {
		got := strings.Fields(b.kcat(t, "", "-C", "-t", "times", "-p", "0", "-o", c.from, "-e", "-q"))
		require.Equal(t, numbers(c.want, n), got, "from %s", c.from)
	}
	got := strings.Fields(b.kcat(t, "", "-C", "-t", "times", "-p", "0", "-o", fmt.Sprint("s@", begin+30_000), "-o", fmt.Sprint("e@", between), "-e", "-q"))
	require.Equal(t, numbers(30, 40), got)

	query := func(at any) string {
		return strings.TrimSpace(b.kcat(t, "", "-Q", "-t", fmt.Sprint("times:0:", at)))
	}
	require.Equal(t, "times [0] offset 40", query(between))
	require.Equal(t, "times [0] offset 0", query(-2))
	require.Equal(t, fmt.Sprint("times [0] offset ", n), query(-1))

	for _, c := range []struct {
		from kgo.Offset
		want int
	}{
		{kgo.NewOffset().AtStart(), 0},
		{kgo.NewOffset().AfterMilli(between), 40},
		{kgo.NewOffset().AfterMilli(begin + 30_000), 30},
		{kgo.NewOffset().AtEnd().Relative(-3), n - 3},
		{kgo.NewOffset().At(59), 59},
	} {
		require.Equal(t, numbers(c.want, n), readTo(t, b, c.from, n-c.want), "%+v", c.from)
	}

	for at, want := range map[string]string{"max-timestamp": fmt.Sprintf("times:0:%d\n", n-1), fmt.Sprint(between): "times:0:40\n"} {
		out, complaints, _ := b.shell(t, "kafka-get-offsets --bootstrap-server $BROKERS --topic times --time "+at)
		require.Equal(t, want, out, "%s: %s", at, complaints)
	}
}

// numbers returns the texts of the numbers from on and below to.
func numbers(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, strconv.Itoa(i))
	}
	return texts
}

// readTo reads n values of the topic "times" with franz-go, and no more.
func readTo(t *testing.T, b *brokers, from kgo.Offset, n int) (values []string) {
	t.Helper()
	client := b.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"times": {0: from}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(values) < n {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// Given consumers at the end of a log, which let their fetches wait for 10 s, when nothing comes, then they hardly ask; and
// when a record comes, they have it at once.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	b := start(t, "poll:1")
	b.kcat(t, "first\n", "-P", "-t", "poll", "-p", "0")
	var asked fetchCounter
	client := b.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"poll": {0: kgo.NewOffset().At(1)}}),
		kgo.FetchMaxWait(10*time.Second), kgo.WithHooks(&asked))
	idle, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.Empty(t, client.PollFetches(idle).Records())
	require.Positive(t, asked.Load())
	require.LessOrEqual(t, asked.Load(), int64(2), "fetches in 2 s")

	got := make(chan string, 1)
	go func() {
		out, _, _ := b.shell(t, `kcat -b $BROKERS -C -t poll -p 0 -o 1 -c 1 -q -X fetch.wait.max.ms=10000`)
		got <- out
	}()
	begun := time.Now()
	require.NoError(t, b.client(t, kgo.DefaultProduceTopic("poll")).ProduceSync(t.Context(), kgo.StringRecord("second")).FirstErr())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.Equal(t, "second", string(client.PollFetches(ctx).Records()[0].Value))
	require.Less(t, time.Since(begun), 5*time.Second, "of 10 s that it might have waited")
	require.Equal(t, "second\n", <-got)
	require.Less(t, time.Since(begun), 5*time.Second)
}

// fetchCounter counts the Fetch requests of a client.
type fetchCounter struct{ atomic.Int64 }

func (c *fetchCounter) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == kmsg.Fetch.Int16() {
		c.Add(1)
	}
}
