package filelog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/metadata/internal/testevent"
)

// cpu returns the time that this process has spent on a CPU.
func cpu(t testing.TB) time.Duration {
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// share returns what part of a core the process takes while f's work goes on, in real time.
func share(t testing.TB) float64 {
	begun, used := time.Now(), cpu(t)
	<-time.After(300 * time.Millisecond)
	return float64(cpu(t)-used) / float64(time.Since(begun))
}

// Polling for three files takes at most 6 % of a core. The least of several measurements counts, as whatever else runs
// adds to them, and there are as many as it takes, up to a dozen. Where the machine is so slow at waking up, or so busy,
// that a bare timer of 1 ms with one fstat takes more than that, polling is held to that timer.
func TestPollingCost(t *testing.T) {
	dir := t.TempDir()
	for broker := range int32(3) {
		log := open(t, filelog.Config{Dir: dir, Broker: broker, BrokerEpoch: 1})
		publish(t, log, events(broker, 1, 0)...)
	}
	reader := open(t, filelog.Config{Dir: dir, Broker: 0, BrokerEpoch: 1, PollInterval: filelog.DefaultPollInterval})
	runtime.GC()
	polling, timer := 1.0, 1.0
	limit := 0.0
	for range 12 {
		sub := subscribe(t, reader)
		polling = min(polling, share(t))
		require.NoError(t, sub.Close())

		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			file, err := os.Open(dir)
			if !assert.NoError(t, err) {
				return
			}
			defer file.Close()
			ticker := time.NewTimer(time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-stop:
					return
				case <-ticker.C:
				}
				_, err := file.Stat()
				assert.NoError(t, err)
				ticker.Reset(time.Millisecond)
			}
		}()
		timer = min(timer, share(t))
		close(stop)
		<-stopped
		limit = max(0.06, timer)
		if raceEnabled {
			limit = max(0.30, 3*timer) // the race detector multiplies what the program itself does
		}
		if polling <= limit {
			break
		}
	}
	t.Logf("polling: %.1f %% of a core, a bare timer of 1 ms: %.1f %%", 100*polling, 100*timer)
	assert.LessOrEqual(t, polling, limit)
}

// BenchmarkPublish has the limit and ours side by side: what the disk takes for a write and an fsync, then Publish,
// then the time until a subscription in the same process has the event.
func BenchmarkPublish(b *testing.B) {
	event := testevent.Sized(8, 8)
	encoded, err := event.MarshalBinary()
	require.NoError(b, err)
	event.Segment.ID.BrokerID, event.Segment.ID.BrokerEpoch = 1, 1

	b.Run("limit=write+fsync", func(b *testing.B) {
		file, err := os.Create(filepath.Join(b.TempDir(), "file"))
		require.NoError(b, err)
		defer file.Close()
		for b.Loop() {
			_, err := file.Write(encoded)
			require.NoError(b, err)
			require.NoError(b, file.Sync())
		}
	})
	b.Run("publish", func(b *testing.B) {
		log := open(b, filelog.Config{Dir: b.TempDir(), Broker: 1, BrokerEpoch: 1})
		b.ReportAllocs()
		event.Sequence = 0
		for b.Loop() {
			publish(b, log, event)
			event.Sequence++
		}
	})
	b.Run("publish-to-deliver", func(b *testing.B) {
		log := open(b, filelog.Config{Dir: b.TempDir(), Broker: 1, BrokerEpoch: 1, PollInterval: filelog.DefaultPollInterval})
		sub := subscribe(b, log)
		event.Sequence = 0
		var waits []time.Duration
		for b.Loop() {
			event.Segment.ID = testevent.ID(1, 1, uint32(event.Sequence))
			begun := time.Now()
			done := make(chan metadata.Item, 1)
			go func() {
				item, _ := sub.Next(b.Context())
				done <- item
			}()
			publish(b, log, event)
			require.NotNil(b, (<-done).Event)
			waits = append(waits, time.Since(begun))
			event.Sequence++
		}
		slices.Sort(waits)
		b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-us")
		b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-us")
	})
}

// BenchmarkPoll is one look at the files, by the number of brokers: what the interval is stretched for.
func BenchmarkPoll(b *testing.B) {
	for _, brokers := range []int32{1, 3, 30, 100} {
		b.Run(fmt.Sprintf("brokers=%d", brokers), func(b *testing.B) {
			dir := b.TempDir()
			for broker := range brokers {
				log := open(b, filelog.Config{Dir: dir, Broker: broker, BrokerEpoch: 1})
				publish(b, log, events(broker, 1, 0)...)
			}
			look := filelog.Poll(b, dir)
			b.ReportAllocs()
			for b.Loop() {
				look()
			}
		})
	}
}

// BenchmarkNext is the cost of reading one event from the files.
func BenchmarkNext(b *testing.B) {
	log := open(b, filelog.Config{Dir: b.TempDir(), Broker: 1, BrokerEpoch: 1})
	event := testevent.Sized(8, 8)
	const written = 2000
	var batch []*metadata.Event
	for n := range int64(written) {
		event.Sequence, event.Segment.ID = n, testevent.ID(1, 1, uint32(n))
		batch = append(batch, event.Clone())
	}
	publish(b, log, batch...)
	b.ReportAllocs()
	var sub metadata.Subscription
	for n := 0; b.Loop(); n++ {
		if n%written == 0 {
			b.StopTimer()
			sub = subscribeFrom(b, log, time.Unix(0, 0))
			b.StartTimer()
		}
		item, err := sub.Next(b.Context())
		if err != nil || item.Event == nil {
			b.Fatal(err, item.Gap)
		}
	}
}
