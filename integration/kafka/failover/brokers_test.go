package failover

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
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
}

var (
	brokerLine = regexp.MustCompile(`(?m)^broker \d+ in .*: (.*)$`)
	adminLine  = regexp.MustCompile(`(?m)^state, stop and start: (.*)$`)
)

// start starts the program with topics, such as "t:1", which ends with the test.
func start(t *testing.T, topics string) *brokers {
	t.Helper()
	program := os.Getenv(programVariable)
	if program == "" {
		t.Fatalf("%s is not set: make integration builds the program and sets it", programVariable)
	}
	b := &brokers{Tools: kafka.NewTools(t), dir: t.TempDir()}
	printed := filepath.Join(t.TempDir(), "printed")
	b.process = kafka.Launch(t, printed, program, "-ports", "0", "-admin", "0", "-for", "10m", "-dir", b.dir, "-topics", topics)
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(printed)
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
	return b
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

// finish ends the program, and demands that the three logs of a topic's partition 0 are equal, byte for byte, and pass
// Kafka's own tool. It returns their bytes.
func (b *brokers) finish(t *testing.T, topic string) []byte {
	t.Helper()
	b.process.Stop(t)
	var logs [][]byte
	var dirs []string
	for broker := range 3 {
		dirs = append(dirs, b.partition(broker, topic))
		logs = append(logs, logBytes(t, dirs[broker]))
		require.True(t, bytes.Equal(logs[0], logs[broker]), "the log of broker %d is not that of broker 0", broker)
	}
	require.Empty(t, b.Judge(t, false, dirs...))
	return logs[0]
}

// logBytes returns the bytes of all segments of a partition.
func logBytes(t *testing.T, dir string) (all []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	slices.Sort(files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, content...)
	}
	return all
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
