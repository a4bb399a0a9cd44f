package kafka

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Broker is a broker of a cluster, running or not. Its ports and files stay its own when it is restarted.
type Broker struct {
	ID int

	tb                     testing.TB // of the cluster
	cluster                *Cluster
	port, sasl, controller int
	home, log4j2           string
	process                *Process
}

// Address returns host and port of its listener without authentication.
func (b *Broker) Address() string { return address(b.port) }

// SASL returns host and port of its listener with SASL PLAIN and without TLS, see [User].
func (b *Broker) SASL() string { return address(b.sasl) }

// Rack returns its broker.rack: "zone-1" for broker 1.
func (b *Broker) Rack() string { return fmt.Sprintf("zone-%d", b.ID) }

// Data returns the directory of its logs.
func (b *Broker) Data() string { return filepath.Join(b.home, "data") }

// Partition returns the directory of its replica of a partition.
func (b *Broker) Partition(topic string, partition int) string {
	return filepath.Join(b.Data(), fmt.Sprintf("%s-%d", topic, partition))
}

func (b *Broker) settings() string { return filepath.Join(b.home, "server.properties") }

func (b *Broker) log() string { return filepath.Join(b.home, "server.log") }

// Running tells whether the process runs, be it ready or not.
func (b *Broker) Running() bool { return b.process != nil && b.process.Running() }

// launch starts the process and waits for nothing.
func (b *Broker) launch(tb testing.TB) {
	tb.Helper()
	require.False(tb, b.Running(), "broker %d runs already", b.ID)
	b.process = Launch(b.tb, b.log(), "java", "-Xmx400m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", b.cluster.classpath(),
		"-Dlog4j2.configurationFile="+b.log4j2, "kafka.Kafka", b.settings())
}

// Start starts a broker that does not run, and returns when its clients are told of it. After [Broker.Kill] that takes
// as long as the controller keeps the session of the one before, about 3 s more.
func (b *Broker) Start(tb testing.TB) {
	tb.Helper()
	b.launch(tb)
	b.await(tb, func(told map[int32]bool) bool { return told[int32(b.ID)] })
}

// Stop ends it as an operator does, with SIGTERM: it hands its leaderships over and flushes its files.
func (b *Broker) Stop(tb testing.TB) {
	tb.Helper()
	require.True(tb, b.Running(), "broker %d does not run", b.ID)
	require.True(tb, b.process.stop(Patience), "broker %d had to be killed:\n%s", b.ID, b.logEnd(60))
}

// Kill ends it at once, with SIGKILL.
func (b *Broker) Kill(tb testing.TB) {
	tb.Helper()
	require.True(tb, b.Running(), "broker %d does not run", b.ID)
	b.process.Kill()
}

// Pause stops the process where it is, so that requests get no answer and connections stay.
func (b *Broker) Pause(tb testing.TB) {
	tb.Helper()
	b.process.signal(tb, syscall.SIGSTOP)
}

// Resume undoes [Broker.Pause].
func (b *Broker) Resume(tb testing.TB) {
	tb.Helper()
	b.process.signal(tb, syscall.SIGCONT)
}

// await asks the broker which brokers there are until the answer is good.
func (b *Broker) await(tb testing.TB, good func(told map[int32]bool) bool) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Address()))
	require.NoError(tb, err)
	defer client.Close()
	Eventually(tb, fmt.Sprintf("broker %d answers", b.ID), func(ctx context.Context) error {
		if !b.Running() {
			tb.Fatalf("broker %d has ended:\n%s", b.ID, b.logEnd(60))
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request := kmsg.NewPtrMetadataRequest()
		request.Topics = []kmsg.MetadataRequestTopic{}
		answer, err := client.SeedBrokers()[0].Request(ctx, request)
		if err != nil {
			return err
		}
		told := make(map[int32]bool)
		for _, broker := range answer.(*kmsg.MetadataResponse).Brokers {
			told[broker.NodeID] = true
		}
		if !good(told) {
			return fmt.Errorf("it tells of %v", told)
		}
		return nil
	})
}

// logEnd returns the last lines of what the process has printed.
func (b *Broker) logEnd(lines int) []byte {
	all, err := os.ReadFile(b.log())
	if err != nil {
		return []byte(err.Error())
	}
	for i := len(all); i > 0; {
		if i = bytes.LastIndexByte(all[:i], '\n'); i < 0 {
			break
		}
		if lines--; lines < 0 {
			return all[i+1:]
		}
	}
	return all
}
