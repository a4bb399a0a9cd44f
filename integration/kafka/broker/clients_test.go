package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Real clients produce with every codec, with acks=1 and acks=all, idempotent ones too, and each of them consumes what all
// have produced: the same records, in the same order. The logs of the three brokers are equal and pass Kafka's tool.
func TestClients(t *testing.T) {
	const topic = "clients"
	b := start(t, topic+":1")

	// Given records of four producers with five codecs
	var want []string // those whose content is known, key and value
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		acks, kgoAcks := "all", []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks())}
		if i%2 == 1 {
			acks, kgoAcks = "1", []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}
		}
		lines := func(client string) (lines []string) {
			for n := range 20 {
				lines = append(lines, fmt.Sprintf("%s-%d\t%s with %s, %s", client, n, client, codec, strings.Repeat("again ", 20)))
			}
			want = append(want, lines...)
			return lines
		}

		client := b.client(t, append(kgoAcks, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codecs[codec]))...)
		var records []*kgo.Record
		for _, line := range lines("franz-go") {
			key, value, _ := strings.Cut(line, "\t")
			records = append(records, kgo.KeyStringRecord(key, value))
		}
		require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())

		idempotent := fmt.Sprintf("enable.idempotence=%t", acks == "all")
		b.Kcat(t, b.bootstrap, strings.Join(lines("kcat"), "\n")+"\n", "-P", "-t", topic, "-p", "0", "-K", "\t",
			"-z", codec, "-X", "acks="+acks, "-X", idempotent)

		b.Produce(t, b.bootstrap, topic, lines("console"), "--compression-codec", codec,
			"--command-property", "acks="+acks, "--command-property", idempotent)

		t.Attr("producer-performance", codec+", acks="+acks+": "+
			b.Perform(t, b.bootstrap, topic, 5000, 100, "acks="+acks, idempotent, "compression.type="+codec, "linger.ms=2"))
	}

	// When each consumer reads the partition from its beginning
	var byFranz, known []string
	for _, r := range b.all(t, topic) {
		line := string(r.Key) + "\t" + string(r.Value)
		byFranz = append(byFranz, line)
		if r.Key != nil {
			known = append(known, line)
		}
	}
	byKcat := strings.Split(strings.TrimSuffix(b.Kcat(t, b.bootstrap, "", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K", "\t"), "\n"), "\n")
	byConsole := b.Consume(t, b.bootstrap, topic, 0, 0, len(byFranz))
	for i, line := range byConsole {
		byConsole[i] = strings.TrimPrefix(line, "null") // the key of a record without one
	}

	// Then all of them get the same.
	require.Equal(t, want, known)
	require.Len(t, byFranz, len(want)+5*5000)
	require.Equal(t, byFranz, byKcat)
	require.Equal(t, byFranz, byConsole)
	b.finish(t, topic)
	t.Attr("clients", fmt.Sprintf("%d records of 4 producers and 5 codecs, the same to 3 consumers and on 3 brokers", len(byFranz)))
}
