package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
)

// programVariable names the program of examples/broker, as .ci/integration has built it.
const programVariable = "WALHOP_BROKER"

// brokers is a running examples/broker.
type brokers struct {
	kafka.Tools
	process        *kafka.Process
	dir, bootstrap string
	admin          string // the URL of its endpoint
	commands       string // the directory of the tools, for a shell
}

var (
	brokerLine = regexp.MustCompile(`(?m)^broker \d+ in .*: (.*)$`)
	adminLine  = regexp.MustCompile(`(?m)^state, stop and start: (.*)$`)
)

// start starts the program with topics, such as "t:1", and further flags. It ends with the test, which fails if it has
// logged an error.
func start(t *testing.T, topics string, flags ...string) *brokers {
	t.Helper()
	b := &brokers{Tools: kafka.NewTools(t), dir: t.TempDir(), commands: writeCommands(t)}
	b.launch(t, append([]string{"-ports", "0", "-admin", "0", "-topics", topics}, flags...)...)
	return b
}

// again starts the program anew, after it has ended, on what it has left and at its ports.
func (b *brokers) again(t *testing.T, flags ...string) {
	t.Helper()
	ports := strings.ReplaceAll(b.bootstrap, loopback, "")
	b.launch(t, append([]string{"-ports", ports, "-admin", "0"}, flags...)...)
}

const loopback = "127.0.0.1:"

func (b *brokers) launch(t *testing.T, flags ...string) {
	t.Helper()
	program := os.Getenv(programVariable)
	if program == "" {
		t.Fatalf("%s is not set: make integration builds the program and sets it", programVariable)
	}
	printed := filepath.Join(t.TempDir(), "printed")
	b.process = kafka.Launch(t, printed, program, append([]string{"-for", "10m", "-dir", b.dir}, flags...)...)
	t.Cleanup(func() {
		text, _ := os.ReadFile(printed)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "the broker has been killed") {
				continue // that is how a log of a broker that has ended by stop fails
			}
			if strings.Contains(line, " ERROR ") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "broker:") {
				t.Errorf("it has logged %q", line)
			}
		}
		if t.Failed() {
			t.Logf("the end of what it has printed:\n%s", text[max(0, len(text)-8000):])
		}
	})
	kafka.Eventually(t, "the brokers are there", func(context.Context) error {
		text, err := os.ReadFile(printed)
		require.NoError(t, err)
		require.True(t, b.process.Running(), "it has ended: %s", text)
		found, admin := brokerLine.FindAllSubmatch(text, -1), adminLine.FindSubmatch(text)
		if len(found) != 3 || admin == nil {
			return fmt.Errorf("it has printed: %s", text)
		}
		var addresses []string
		for _, line := range found {
			addresses = append(addresses, string(line[1]))
		}
		b.bootstrap, b.admin = strings.Join(addresses, ","), string(admin[1])
		return nil
	})
}

// state is what the program tells of itself, as far as it matters here.
type state struct {
	Partitions []struct {
		Topic     string
		Partition int32
		Leader    int32
		Epoch     int32
		ISR       []int32
		Replicas  []struct {
			Broker int32
			End    int64
		}
	}
}

func (b *brokers) state(t *testing.T) (s state) {
	t.Helper()
	require.NoError(t, json.Unmarshal(b.ask(t, http.MethodGet, "/"), &s))
	return s
}

// ask sends a request to the endpoint.
func (b *brokers) ask(t *testing.T, method, path string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.admin+path, nil)
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s %s: %s", method, path, body)
	return body
}

// settle waits until all three replicas of each partition are in sync and have the same.
func (b *brokers) settle(t *testing.T) {
	t.Helper()
	kafka.Eventually(t, "the replicas are equal", func(context.Context) error {
		s := b.state(t)
		for _, p := range s.Partitions {
			if len(p.ISR) != 3 || len(p.Replicas) != 3 || p.Replicas[0].End != p.Replicas[1].End || p.Replicas[0].End != p.Replicas[2].End {
				return fmt.Errorf("%+v", p)
			}
		}
		return nil
	})
}

// partition returns the directory of a broker's replica of partition 0.
func (b *brokers) partition(broker int, topic string) string {
	return filepath.Join(b.dir, fmt.Sprintf("broker-%d", broker), topic+"-0")
}

// create creates a topic with three replicas, and returns when its leaders lead: with acks=0 a record that comes before is
// lost, as with Kafka.
func (b *brokers) create(t *testing.T, topic string, partitions int32) {
	t.Helper()
	client := b.client(t)
	_, err := kadm.NewClient(client).CreateTopic(t.Context(), partitions, 3, nil, topic)
	require.NoError(t, err)
	for partition := range partitions {
		b.awaitEnd(t, client, topic, partition, 0)
	}
}

// awaitEnd waits until consumers can read up to an offset of a partition. They must not be able to read further.
func (b *brokers) awaitEnd(t *testing.T, client *kgo.Client, topic string, partition int32, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	kafka.Eventually(t, fmt.Sprintf("%s-%d ends at %d", topic, partition, want), func(context.Context) error {
		ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
		require.NoError(t, ctx.Err(), "%s-%d does not end at %d: %v, %v", topic, partition, want, ends, err)
		if err != nil {
			return err
		}
		end, _ := ends.Lookup(topic, partition)
		if end.Err != nil || end.Offset < want {
			return fmt.Errorf("it ends at %d, %w", end.Offset, end.Err)
		}
		require.Equal(t, want, end.Offset, "the end of %s-%d", topic, partition)
		return nil
	})
}

// finish ends the program, and demands that the three logs of each topic's partition 0 are equal, byte for byte, and pass
// Kafka's own tool.
func (b *brokers) finish(t *testing.T, topics ...string) {
	t.Helper()
	b.process.Stop(t)
	var dirs []string
	for _, topic := range topics {
		log := kafka.LogBytes(t, b.partition(0, topic))
		for broker := range 3 {
			dirs = append(dirs, b.partition(broker, topic))
			require.True(t, bytes.Equal(log, kafka.LogBytes(t, b.partition(broker, topic))), "the log of %s at broker %d is not that at broker 0", topic, broker)
		}
	}
	require.Empty(t, b.Judge(t, false, dirs...))
}

// client returns a client, which is closed with the test.
func (b *brokers) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(b.bootstrap, ",")...)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// all reads partition 0 of a topic up to its end with franz-go.
func (b *brokers) all(t *testing.T, topic string) (records []*kgo.Record) {
	t.Helper()
	b.settle(t)
	end := int64(0)
	for _, p := range b.state(t).Partitions {
		if p.Topic == topic {
			end = p.Replicas[0].End
		}
	}
	client := b.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	ctx, cancel := context.WithTimeout(t.Context(), kafka.Patience)
	defer cancel()
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "at %d of %d", next, end)
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			records = append(records, r)
		})
	}
	return records
}
