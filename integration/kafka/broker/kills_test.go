package broker

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/integration/kafka"
)

// leader is the broker that leads partition 0 of a topic.
func (b *brokers) leader(t *testing.T, topic string) int32 {
	t.Helper()
	for _, p := range b.state(t).Partitions {
		if p.Topic == topic && p.Partition == 0 {
			return p.Leader
		}
	}
	t.Fatalf("there is no topic %s", topic)
	return -1
}

// stop ends a broker as kill -9 would, startAgain starts it.
func (b *brokers) stop(t *testing.T, broker int32) {
	t.Helper()
	b.ask(t, http.MethodPost, fmt.Sprintf("/brokers/%d/stop", broker))
}

func (b *brokers) startAgain(t *testing.T, broker int32) {
	t.Helper()
	b.ask(t, http.MethodPost, fmt.Sprintf("/brokers/%d/start", broker))
}

// Given Kafka's own producer under way with acks=all, when the leader is killed, later started, and then the next one is,
// then the producer has nothing to complain of, its records are there once and in order, and the three logs are equal.
func TestFailoverUnderKafkasProducer(t *testing.T) {
	const topic, n = "performance", 12_000
	b := start(t, topic+":1")
	reached := func(offset int64) {
		t.Helper()
		kafka.Eventually(t, fmt.Sprint("record ", offset, " is there"), func(context.Context) error {
			for _, r := range b.state(t).Partitions[0].Replicas {
				if r.End > offset {
					return nil
				}
			}
			return fmt.Errorf("%+v", b.state(t).Partitions)
		})
	}
	type result struct{ out, complaints string }
	ended := make(chan result, 1)
	go func() {
		out, complaints, _ := b.shell(t, fmt.Sprintf("kafka-producer-perf-test --bootstrap-server $BROKERS --topic %s --num-records %d --payload-monotonic --throughput 3000 "+
			"--command-property acks=all linger.ms=2 retry.backoff.ms=50 reconnect.backoff.ms=50 metadata.max.age.ms=2000", topic, n))
		ended <- result{out, complaints}
	}()
	for _, at := range []int64{1000, 5000} {
		reached(at)
		old := b.leader(t, topic)
		b.stop(t, old)
		reached(at + 2000) // at the new leader
		b.startAgain(t, old)
		b.inSync(t)
	}
	r := <-ended
	require.Contains(t, r.out, fmt.Sprint(n, " records sent"), r.complaints)
	require.NotContains(t, r.out+r.complaints, "Exception")

	var values []string
	for _, record := range b.all(t, topic) {
		values = append(values, string(record.Value))
	}
	require.Equal(t, numbers(0, n), values)
	b.finish(t, topic)
	t.Attr("failover-of-kafkas-producer", fmt.Sprintf("2 failovers, %d records with acks=all once and in order, the logs are equal", n))
}

// Given a leader that has acknowledged records with acks=1 and is killed before any of them has left it, when another one
// leads and has records of its own in their place, and the old one is started, then the old one gives its own up and takes
// the new one's, and no consumer ever sees them.
func TestTruncatedTail(t *testing.T) {
	t.Parallel()
	const topic = "tail"
	b := start(t, topic+":1", "-linger", "500ms") // so long does a leader keep what it will upload
	all := b.client(t, kgo.DefaultProduceTopic(topic), kgo.MetadataMinAge(50*time.Millisecond))
	var want []string
	produce := func(values ...string) {
		t.Helper()
		var records []*kgo.Record
		for _, v := range values {
			records = append(records, kgo.StringRecord(v))
		}
		require.NoError(t, all.ProduceSync(t.Context(), records...).FirstErr())
		want = append(want, values...)
	}
	produce("before-0", "before-1", "before-2")
	one := b.client(t, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.ProducerLinger(0))
	require.NoError(t, one.Ping(t.Context()))

	truncated := 0
	for round := 0; truncated == 0; round++ {
		require.Less(t, round, 5, "each time the records had left the leader before it was killed")
		b.settle(t)
		old := b.leader(t, topic)
		records := []*kgo.Record{kgo.StringRecord(fmt.Sprint("tail-", round, "-0")), kgo.StringRecord(fmt.Sprint("tail-", round, "-1"))}
		require.NoError(t, one.ProduceSync(t.Context(), records...).FirstErr())
		b.stop(t, old)
		kept := kafka.LogBytes(t, b.partition(int(old), topic))
		require.Contains(t, string(kept), fmt.Sprint("tail-", round, "-1"), "it was acknowledged, so it was written")

		produce(fmt.Sprint("after-", round, "-0"), fmt.Sprint("after-", round, "-1"), fmt.Sprint("after-", round, "-2"))
		leads := kafka.LogBytes(t, b.partition(int(b.leader(t, topic)), topic))
		if strings.Contains(string(leads), fmt.Sprint("tail-", round, "-")) {
			want = want[:len(want)-3] // it has been quick: they are no tail
			want = append(want, fmt.Sprint("tail-", round, "-0"), fmt.Sprint("tail-", round, "-1"), fmt.Sprint("after-", round, "-0"), fmt.Sprint("after-", round, "-1"), fmt.Sprint("after-", round, "-2"))
		} else {
			truncated += len(records)
		}
		b.startAgain(t, old)
	}
	b.settle(t)
	require.Equal(t, strings.Join(want, "\n")+"\n", b.kcat(t, "", "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"))
	b.finish(t, topic)
	t.Attr("truncated-tail", fmt.Sprintf("%d records with acks=1 that a killed leader alone had are gone from it, the logs are equal", truncated))
}

// Given three topics under load, when the process with all three brokers is killed with SIGKILL and started again on what it
// has left, then the producers go on, no record that was acknowledged with acks=all is lost or there twice, and the logs are
// equal. Nothing is flushed on the way, so this holds for the death of processes, not of machines.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	topics := []string{"killed-a", "killed-b", "killed-c"} // led by three brokers
	b := start(t, strings.Join(topics, ":1,")+":1")
	loads := map[string]*load{}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, topic := range topics {
		l := &load{name: "safe", client: b.client(t, kgo.DefaultProduceTopic(topic), kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerLinger(0),
			kgo.MaxBufferedRecords(100), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))}
		loads[topic] = l
		running.Go(func() { l.run(ctx) })
	}
	awaitAll := func() {
		t.Helper()
		for _, l := range loads {
			l.await(t, 100)
		}
	}
	const kills = 2
	for range kills {
		awaitAll()
		b.process.Kill()
		b.again(t)
		awaitAll()
	}
	stop()
	running.Wait()
	b.settle(t)
	records := 0
	for _, topic := range topics {
		lost, all := loads[topic].check(t, b.all(t, topic))
		require.Zero(t, lost, "records of %s", topic)
		records += all
	}
	b.finish(t, topics...)
	t.Attr("killed-process", strconv.Itoa(kills)+" times, 0 of "+strconv.Itoa(records)+" acknowledged records lost, the logs are equal")
}
