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
	"github.com/walhop/walhop/internal/batch"
)

// Under load, the leader is killed, another one leads, and the old one is started again, until an old leader had records
// that nobody else had: no record that was acknowledged with acks=all is lost, in the end the three logs are equal, byte
// for byte, and what the old leader alone had is gone from its log.
func TestFailover(t *testing.T) {
	const topic, least, most = "failover", 3, 12
	b := start(t, topic+":1")
	quick := []kgo.Opt{
		kgo.DefaultProduceTopic(topic), kgo.MetadataMinAge(50 * time.Millisecond), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(100),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}
	safe := &load{client: b.client(t, append(quick, kgo.RequiredAcks(kgo.AllISRAcks()))...), name: "safe"}
	fast := &load{client: b.client(t, append(quick, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())...), name: "fast"}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { safe.run(ctx) })
	running.Go(func() { fast.run(ctx) })
	defer running.Wait()
	defer stop()

	rounds, truncated := 0, int64(0)
	for rounds < least || truncated == 0 && rounds < most {
		rounds++
		safe.await(t, 100)
		old := b.state(t).Partitions[0].Leader
		b.ask(t, http.MethodPost, fmt.Sprintf("/brokers/%d/stop", old))
		had := end(t, b.partition(int(old), topic))
		var epoch int32
		kafka.Eventually(t, "another broker leads", func(context.Context) error {
			p := b.state(t).Partitions[0]
			if epoch = p.Epoch; p.Leader < 0 || p.Leader == old {
				return fmt.Errorf("%d leads", p.Leader)
			}
			return nil
		})
		safe.await(t, 100)
		leader := b.state(t).Partitions[0].Leader
		truncated += max(0, had-b.epochStart(t, int(leader), topic, epoch))
		b.ask(t, http.MethodPost, fmt.Sprintf("/brokers/%d/start", old))
		b.inSync(t)
	}
	stop()
	running.Wait()
	require.Positive(t, truncated, "in %d rounds no leader had a record that the others had not, so this has shown little", rounds)

	records := b.all(t, topic)
	lost, safes := safe.check(t, records)
	require.Zero(t, lost, "records acknowledged with acks=all that are lost")
	gone, fasts := fast.check(t, records)
	b.finish(t, topic)
	t.Attr("failover", fmt.Sprintf("%d failovers, 0 of %d records with acks=all lost, %d of %d with acks=1; %d truncated; the logs are equal",
		rounds, safes, gone, fasts, truncated))
}

// inSync waits until all replicas are in sync, under load.
func (b *brokers) inSync(t *testing.T) {
	t.Helper()
	kafka.Eventually(t, "the old leader is in sync again", func(context.Context) error {
		if p := b.state(t).Partitions[0]; len(p.ISR) != 3 {
			return fmt.Errorf("%v are", p.ISR)
		}
		return nil
	})
}

// end returns the offset after a log's last batch.
func end(t *testing.T, dir string) (end int64) {
	t.Helper()
	for s := batch.NewScanner(kafka.LogBytes(t, dir)); s.Next(); {
		end = s.Header().NextOffset()
	}
	return end
}

// epochStart returns the offset at which a leader epoch begins in a replica's log.
func (b *brokers) epochStart(t *testing.T, broker int, topic string, epoch int32) (start int64) {
	t.Helper()
	start = -1
	for s := batch.NewScanner(kafka.LogBytes(t, b.partition(broker, topic))); s.Next() && start < 0; {
		if s.Header().LeaderEpoch >= epoch {
			start = s.Header().BaseOffset
		}
	}
	require.GreaterOrEqual(t, start, int64(0), "a batch of epoch %d", epoch)
	return start
}

// load produces numbered records, and notes which are acknowledged.
type load struct {
	client *kgo.Client
	name   string

	mu    sync.Mutex
	acked map[int]int64 // number, offset
}

func (l *load) run(ctx context.Context) {
	l.mu.Lock()
	l.acked = make(map[int]int64)
	l.mu.Unlock()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		// It blocks while too many are on their way.
		l.client.Produce(ctx, kgo.StringRecord(l.name+" "+strconv.Itoa(n)), func(r *kgo.Record, err error) {
			if err == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.acked[n] = r.Offset
			}
		})
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), kafka.Patience)
	defer cancel()
	_ = l.client.Flush(limited)
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// await waits for so many more acknowledged records.
func (l *load) await(t *testing.T, more int) {
	t.Helper()
	target := l.count() + more
	kafka.Eventually(t, "records are acknowledged", func(context.Context) error {
		if now := l.count(); now < target {
			return fmt.Errorf("%d of %d", now, target)
		}
		return nil
	})
}

// check returns how many of the acknowledged records are not where the producer was told, and how many there are. One that
// is there twice fails the test if the producer is idempotent.
func (l *load) check(t *testing.T, records []*kgo.Record) (missing, all int) {
	t.Helper()
	at := make(map[int]int64)
	for _, r := range records {
		name, text, _ := strings.Cut(string(r.Value), " ")
		if name != l.name {
			continue
		}
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		_, twice := at[n]
		require.False(t, twice && l.name == "safe", "record %d is there twice", n)
		at[n] = r.Offset
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, offset := range l.acked {
		if found, there := at[n]; !there || l.name == "safe" && found != offset {
			missing++
		}
	}
	return missing, len(l.acked)
}
