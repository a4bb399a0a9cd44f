package broker

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// acknowledgements are the values of acks. A producer with all is idempotent unless it is told otherwise; with the others
// it cannot be.
var acknowledgements = []string{"0", "1", "all"}

// how is what a writer is told.
type how struct {
	codec, acks string
	idempotent  bool
}

func (h how) String() string {
	name := h.codec
	if h.acks == "all" && !h.idempotent {
		name += "-not-idempotent"
	}
	return name
}

// writers send records of key and value, in their order, into partition 0 of a topic, and return what has to be read: all
// of it, but for the performance tool, which makes its own.
var writers = []struct {
	name  string
	write func(t *testing.T, b *brokers, topic string, h how, records []string) []string
}{
	{"kcat", writeKcat},
	{"franz-go", writeFranz},
	{"console-producer", writeConsole},
	{"producer-performance", writePerformance},
}

func writeKcat(t *testing.T, b *brokers, topic string, h how, records []string) []string {
	args := []string{"-P", "-t", topic, "-p", "0", "-K", "\t", "-z", h.codec, "-X", "acks=" + h.acks}
	if h.idempotent {
		args = append(args, "-X", "enable.idempotence=true")
	}
	b.kcat(t, strings.Join(records, "\n")+"\n", args...)
	return records
}

func writeFranz(t *testing.T, b *brokers, topic string, h how, records []string) []string {
	options := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[h.codec])}
	options = append(options, kgo.RequiredAcks(map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[h.acks]))
	if !h.idempotent {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1)) // or retries could change the order
	}
	client := b.client(t, options...)
	var batch []*kgo.Record
	for _, record := range records {
		key, value, _ := strings.Cut(record, "\t")
		batch = append(batch, &kgo.Record{Key: []byte(key), Value: []byte(value)})
	}
	require.NoError(t, client.ProduceSync(t.Context(), batch...).FirstErr())
	return records
}

func writeConsole(t *testing.T, b *brokers, topic string, h how, records []string) []string {
	b.Produce(t, b.bootstrap, topic, records, "--compression-codec", h.codec, "--request-required-acks", h.acks,
		"--command-property", fmt.Sprint("enable.idempotence=", h.idempotent))
	return records
}

func writePerformance(t *testing.T, b *brokers, topic string, h how, records []string) (want []string) {
	out := b.Java(t, "", "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", b.bootstrap, "--topic", topic,
		"--num-records", strconv.Itoa(len(records)), "--payload-monotonic", "--throughput", "-1",
		"--command-property", "acks="+h.acks, "compression.type="+h.codec, fmt.Sprint("enable.idempotence=", h.idempotent))
	require.Contains(t, out, fmt.Sprint(len(records), " records sent"))
	for i := range records {
		want = append(want, fmt.Sprint("\t", i))
	}
	return want
}

// readers read n records of partition 0 from an offset on: key, tab and value. A key that is null is empty.
var readers = []struct {
	name string
	read func(t *testing.T, b *brokers, topic string, n int) []string
}{
	{"kcat", func(t *testing.T, b *brokers, topic string, _ int) []string {
		out := b.kcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K", "\t")
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}},
	{"franz-go", func(t *testing.T, b *brokers, topic string, n int) (got []string) {
		client := b.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		for len(got) < n {
			fetches := client.PollFetches(t.Context())
			require.NoError(t, fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) { got = append(got, fmt.Sprintf("%s\t%s", r.Key, r.Value)) })
		}
		return got
	}},
	{"console-consumer", func(t *testing.T, b *brokers, topic string, n int) []string {
		return b.Consume(t, b.bootstrap, topic, 0, 0, n, "--formatter-property", "null.literal=")
	}},
}

// variants are what a writer is told in turn. kcat and franz-go are told everything. The tools of Kafka have one client
// between them and take seconds to start: the console producer is told each codec with all and once with another, the
// performance tool each codec once.
func variants(writer, acks string) (list []how) {
	for i, codec := range codecs {
		h := how{codec: codec, acks: acks, idempotent: acks == "all"}
		switch writer {
		case "console-producer":
			if acks != "all" && acks != acknowledgements[i%2] {
				continue
			}
		case "producer-performance":
			if acks != acknowledgements[i%3] {
				continue
			}
		default:
			if acks == "all" {
				list = append(list, how{codec: codec, acks: acks})
			}
		}
		list = append(list, h)
	}
	return list
}

// Given three brokers that replicate through the store alone, when each client writes with each codec and each kind of
// acknowledgement, then each client reads what each has written, once and in order, and it is in the logs as the writer was
// told to send it. The logs of the three brokers are equal and pass Kafka's tool.
func TestEveryClientReadsEveryClient(t *testing.T) {
	t.Parallel()
	b := start(t, "")
	var topics []string
	for _, acks := range acknowledgements {
		topics = append(topics, "acks-"+acks)
		b.create(t, "acks-"+acks, 1)
	}
	t.Run("each", func(t *testing.T) {
		for _, acks := range acknowledgements {
			t.Run("acks="+acks, func(t *testing.T) {
				t.Parallel()
				writeAndRead(t, b, "acks-"+acks, acks)
			})
		}
	})
	b.settle(t)
	b.finish(t, topics...)
}

func writeAndRead(t *testing.T, b *brokers, topic, acks string) {
	client := b.client(t)
	var want, batches []string
	for _, writer := range writers {
		for _, h := range variants(writer.name, acks) {
			written := t.Run(fmt.Sprintf("%s/%s", writer.name, h), func(t *testing.T) {
				var records []string
				for n := range 30 {
					records = append(records, fmt.Sprintf("%s-%d\t%s %s", writer.name, n, h, strings.Repeat("abc", n)))
				}
				want = append(want, writer.write(t, b, topic, h, records)...)
				batches = append(batches, fmt.Sprintf("%s idempotent=%t", h.codec, h.idempotent))
				b.awaitEnd(t, client, topic, 0, int64(len(want))) // with acks=0 it may come later
			})
			if !written {
				return // nothing after it would be as it should
			}
		}
	}
	for _, reader := range readers {
		t.Run("read-by-"+reader.name, func(t *testing.T) {
			require.Equal(t, want, reader.read(t, b, topic, len(want)))
		})
	}
	t.Run("in-the-log", func(t *testing.T) {
		require.Equal(t, slices.Compact(batches), told(t, b.Dump(t, b.partition(0, topic))))
	})
}

// described is the line of Kafka's own tool for a batch.
var described = regexp.MustCompile(`(?m)^baseOffset: .* producerId: (\S+) .* compresscodec: (\S+) .*$`)

// told returns what the batches of a log tell of their writers, which may have needed more than one each.
func told(t *testing.T, dump string) (all []string) {
	t.Helper()
	for _, batch := range described.FindAllStringSubmatch(dump, -1) {
		all = append(all, fmt.Sprintf("%s idempotent=%t", strings.ToLower(batch[2]), batch[1] != "-1"))
	}
	require.NotEmpty(t, all, dump)
	return slices.Compact(all)
}
