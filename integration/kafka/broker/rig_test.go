package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
)

// programVariable names the program of examples/broker, as .ci/integration has built it.
const programVariable = "WALHOP_BROKER"

// replicas is how many brokers the example runs.
const replicas = 3

// example is examples/broker: three brokers in one process.
type example struct {
	kafka.Tools
	dir       string
	tools     string   // the directory of the commands, see shell
	addresses []string // of the brokers 0, 1 and 2
	endpoint  string   // where brokers are stopped and started
	args      []string
	cmd       *exec.Cmd
	ended     chan error // gets how the process has ended, once
}

// start starts the example with flags added to its own, and returns when the brokers answer.
func start(t *testing.T, flags ...string) *example {
	t.Helper()
	e := &example{Tools: kafka.NewTools(t), dir: t.TempDir()}
	ports := freePorts(replicas + 1)
	for _, port := range ports[:replicas] {
		e.addresses = append(e.addresses, fmt.Sprint("127.0.0.1:", port))
	}
	e.endpoint = fmt.Sprint("http://127.0.0.1:", ports[replicas])
	e.args = append([]string{
		"-dir", e.dir, "-for", "5m", "-ports", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ports[:replicas])), ","), "[]"),
		"-admin", fmt.Sprint(ports[replicas]),
	}, flags...)
	t.Cleanup(func() { e.end(t) })
	e.launch(t)
	return e
}

// launch starts the process. What it logs goes to one file, run after run.
func (e *example) launch(t *testing.T) {
	t.Helper()
	program := os.Getenv(programVariable)
	if program == "" {
		t.Fatalf("%s is not set: make integration builds the program and sets it", programVariable)
	}
	log, err := os.OpenFile(e.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(program, e.args...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	e.cmd, e.ended = cmd, ended
	eventually(t, 20*time.Second, "the example answers", func() error {
		_, err := e.look(t)
		return err
	})
}

func (e *example) log() string { return filepath.Join(e.dir, "output") }

// interrupt ends the process in good order.
func (e *example) interrupt(t *testing.T) {
	t.Helper()
	e.finish(t, syscall.SIGTERM, func(err error) { require.NoError(t, err) })
}

// kill ends it as it stands.
func (e *example) kill(t *testing.T) {
	t.Helper()
	e.finish(t, syscall.SIGKILL, func(err error) { require.Error(t, err) })
}

func (e *example) finish(t *testing.T, signal os.Signal, check func(error)) {
	t.Helper()
	require.NoError(t, e.cmd.Process.Signal(signal))
	select {
	case err := <-e.ended:
		e.cmd = nil
		check(err)
	case <-time.After(20 * time.Second):
		t.Fatalf("the example has not ended 20 s after %v", signal)
	}
}

// end ends what still runs, and shows the log of a test that has failed.
func (e *example) end(t *testing.T) {
	if e.cmd != nil {
		_ = e.cmd.Process.Kill()
		<-e.ended
	}
	log, _ := os.ReadFile(e.log())
	if t.Failed() {
		t.Logf("the end of what the example has logged:\n%s", log[max(0, len(log)-8000):])
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, " ERROR ") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "broker:") {
			t.Errorf("the example has logged %q", line)
		}
	}
}

// bootstrap is the brokers' addresses as the tools and kcat take them.
func (e *example) bootstrap() string { return strings.Join(e.addresses, ",") }

// client is a client of franz-go, closed with the test.
func (e *example) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(e.addresses...), kgo.MetadataMinAge(50 * time.Millisecond)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// create creates a topic with three replicas.
func (e *example) create(t *testing.T, topic string, partitions int32) {
	t.Helper()
	_, err := kadm.NewClient(e.client(t)).CreateTopic(t.Context(), partitions, replicas, nil, topic)
	require.NoError(t, err)
}

// state is what the endpoint tells, as far as tests look at it.
type state struct {
	Partitions []struct {
		Topic     string
		Partition int32
		Leader    int32
		ISR       []int32
		Replicas  []struct {
			Broker             int32
			End, HighWatermark int64
		}
	}
}

func (e *example) look(t *testing.T) (s state, err error) {
	t.Helper()
	data, err := e.ask(t, http.MethodGet, "/")
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// change stops or starts a broker: "stop" ends it as kill -9 would.
func (e *example) change(t *testing.T, broker int32, how string) {
	t.Helper()
	_, err := e.ask(t, http.MethodPost, fmt.Sprintf("/brokers/%d/%s", broker, how))
	require.NoError(t, err)
}

func (e *example) ask(t *testing.T, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, e.endpoint+path, nil)
	require.NoError(t, err)
	request.Close = true // no connection is kept, which would be a goroutine that is left
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, body)
	}
	return body, err
}

// leader is the broker that leads a partition.
func (e *example) leader(t *testing.T, topic string, partition int32) int32 {
	t.Helper()
	s, err := e.look(t)
	require.NoError(t, err)
	for _, p := range s.Partitions {
		if p.Topic == topic && p.Partition == partition {
			return p.Leader
		}
	}
	t.Fatalf("there is no partition %s-%d", topic, partition)
	return -1
}

// awaitWhole waits until all replicas of all partitions are in sync, and all of each have the same end and high watermark.
func (e *example) awaitWhole(t *testing.T) {
	t.Helper()
	eventually(t, 30*time.Second, "all replicas have all", func() error {
		s, err := e.look(t)
		for _, p := range s.Partitions {
			whole := len(p.ISR) == replicas && len(p.Replicas) == replicas
			for _, r := range p.Replicas {
				whole = whole && r.End == p.Replicas[0].End && r.HighWatermark == r.End
			}
			if !whole {
				return fmt.Errorf("%+v", p)
			}
		}
		return err
	})
}

// awaitEnd waits until consumers can read up to an offset of a partition, and fails if they can read further.
func (e *example) awaitEnd(t *testing.T, client *kgo.Client, topic string, partition int32, want int64) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("%s-%d ends at %d", topic, partition, want), func() error {
		ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
		if err != nil {
			return err
		}
		end, _ := ends.Lookup(topic, partition)
		if end.Err != nil || end.Offset < want {
			return fmt.Errorf("it ends at %d, %v", end.Offset, end.Err)
		}
		require.Equal(t, want, end.Offset, "the end of %s-%d", topic, partition)
		return nil
	})
}

// partition is the directory of a broker's replica.
func (e *example) partition(broker int, topic string, partition int) string {
	return filepath.Join(e.dir, fmt.Sprintf("broker-%d", broker), fmt.Sprintf("%s-%d", topic, partition))
}

// logOf returns the segments of a replica one after the other, with their names.
func (e *example) logOf(t *testing.T, broker int, topic string, partition int) (names []string, data []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(e.partition(broker, topic, partition), "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	slices.Sort(files)
	for _, file := range files {
		names = append(names, filepath.Base(file))
		segment, err := os.ReadFile(file)
		require.NoError(t, err)
		data = append(data, segment...)
	}
	return names, data
}

// eventually asks again every 20 ms until there is no error.
func eventually(t *testing.T, patience time.Duration, what string, condition func() error) {
	t.Helper()
	limit, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: not so after %v: %v", what, patience, err)
		}
	}
}

// freePorts returns ports of the loopback interface nobody listens on, below those that connections are given, so that they
// stay free while a broker is away.
func freePorts(n int) (ports []int) {
	for len(ports) < n {
		port := 20000 + rand.IntN(12000)
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil || slices.Contains(ports, port) {
			continue
		}
		_ = listener.Close()
		ports = append(ports, port)
	}
	return ports
}
