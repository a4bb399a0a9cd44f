package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/internal/sim"
)

// screen is what a program prints, which a test may read meanwhile.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func defaults() settings {
	return settings{ports: "0", lasts: time.Minute, minISR: 2, linger: 2 * time.Millisecond, replicate: string(byStore), topics: "orders:2"}
}

// running starts the program, and returns the brokers' addresses, the endpoint, and what ends it.
func running(t *testing.T, s settings) (seeds []string, endpoint string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out screen
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, &out, s) }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "ends in ") }, 20*time.Second, 5*time.Millisecond)
	for _, m := range regexp.MustCompile(`broker \d in zone-[abc]: (\S+)`).FindAllStringSubmatch(out.String(), -1) {
		seeds = append(seeds, m[1])
	}
	require.Len(t, seeds, 3)
	return seeds, regexp.MustCompile(`http://\S+`).FindString(out.String()), func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// Given the program in a directory that stays, when a broker is stopped and started over HTTP, and then the whole program is
// ended and started again, then what was produced is still there.
func TestRun(t *testing.T) {
	s := defaults()
	s.dir = t.TempDir()
	seeds, endpoint, end := running(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	produce := func(seeds []string, value string) {
		client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(20*time.Millisecond))
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte(value)}).FirstErr())
	}
	produce(seeds, "first")
	post := func(path string, want int) {
		response, err := http.Post(endpoint+path, "", nil)
		require.NoError(t, err)
		defer response.Body.Close()
		require.Equal(t, want, response.StatusCode, path)
	}
	post("/brokers/0/stop", http.StatusOK)
	post("/brokers/0/stop", http.StatusConflict)
	post("/brokers/7/start", http.StatusConflict)
	post("/brokers/x/start", http.StatusConflict)
	produce(seeds, "second")
	shown := look(t, endpoint)
	require.False(t, shown.Brokers[0].Running)
	require.Len(t, shown.Partitions, 2)
	for _, p := range shown.Partitions {
		require.Equal(t, []int32{1, 2}, without(sorted(p.ISR), 0))
		require.NotEqual(t, int32(0), p.Leader)
	}
	post("/brokers/0/start", http.StatusOK)
	post("/brokers/0/start", http.StatusConflict)
	require.Eventually(t, func() bool { // a log that was not opened again is not closed in order either
		for _, p := range look(t, endpoint).Partitions {
			if len(p.ISR) < 3 {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
	http.DefaultClient.CloseIdleConnections()
	end()
	for _, id := range []string{"0", "1", "2"} {
		require.FileExists(t, filepath.Join(s.dir, "broker-"+id, cleanFile))
	}

	seeds, endpoint, end = running(t, s)
	defer end()
	require.NotEmpty(t, look(t, endpoint).Cluster)
	http.DefaultClient.CloseIdleConnections()
	produce(seeds, "third")
	consumer, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer consumer.Close()
	found := map[string]int{}
	for len(found) < 3 {
		fetches := consumer.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		fetches.EachRecord(func(r *kgo.Record) { found[string(r.Value)]++ })
	}
	require.Equal(t, map[string]int{"first": 1, "second": 1, "third": 1}, found)
}

func sorted(ids []int32) []int32 {
	if len(ids) == 2 && ids[0] > ids[1] {
		return []int32{ids[1], ids[0]}
	}
	return ids
}

func look(t *testing.T, endpoint string) (s state) {
	t.Helper()
	response, err := http.Get(endpoint)
	require.NoError(t, err)
	defer response.Body.Close()
	require.NoError(t, json.NewDecoder(response.Body).Decode(&s))
	return s
}

// The program ends by itself, and removes the temporary directory.
func TestRunEnds(t *testing.T) {
	s := defaults()
	s.lasts = 50 * time.Millisecond
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, s))
	dir := regexp.MustCompile(`three brokers in (\S+),`).FindStringSubmatch(out.String())[1]
	require.NoDirExists(t, dir)
}

// A flag that is wrong is named, and no credential is repeated (W11).
func TestFlags(t *testing.T) {
	for says, change := range map[string]func(*settings){
		"-ports":     func(s *settings) { s.ports = "1,2" },
		"is no port": func(s *settings) { s.ports = "1,2,x" },
		"-admin":     func(s *settings) { s.admin = -1 },
		"-for":       func(s *settings) { s.lasts = 0 },
		"-min-isr":   func(s *settings) { s.minISR = 4 },
		"-linger":    func(s *settings) { s.linger = time.Second },
		"-replicate": func(s *settings) { s.replicate = "none" },
		"-topics":    func(s *settings) { s.topics = "a/b:1" },
		"-store":     func(s *settings) { s.store = "s3://user:geheim@bucket" },
		"-metadata":  func(s *settings) { s.metadata = "http://user:geheim@host" },
	} {
		s := defaults()
		change(&s)
		err := run(t.Context(), io.Discard, s)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "geheim")
	}
}

// What the controller has decided is read again, and a file that is damaged is an error and no new cluster.
func TestControllerFile(t *testing.T) {
	dir := t.TempDir()
	c, err := newController(dir, false)
	require.NoError(t, err)
	_, err = c.register(0)
	require.NoError(t, err)
	made, err := c.createTopic("t", 2, 1)
	require.NoError(t, err)
	first, err := c.nextProducerIDs()
	require.NoError(t, err)
	again, err := newController(dir, false)
	require.NoError(t, err)
	require.Equal(t, c.current().Cluster, again.current().Cluster)
	require.Equal(t, made.ID, again.current().Topics["t"].ID)
	require.EqualValues(t, -1, again.current().Topics["t"].Partitions[0].Leader, "nobody is there yet")
	next, err := again.nextProducerIDs()
	require.NoError(t, err)
	require.Equal(t, first+producerIDs, next)
	before := c.current().alive[0]
	epoch, err := again.register(0)
	require.NoError(t, err)
	require.Greater(t, epoch, before)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "controller.json"), []byte("{"), 0o600))
	_, err = newController(dir, false)
	require.ErrorContains(t, err, "controller.json")
}

// A replica comes into the ISR when it is at the high watermark, and not before: else it could lead without what has been
// acknowledged.
func TestJoinsAtTheHighWatermark(t *testing.T) {
	cfg := overFiles(t)
	cfg.replicate, cfg.minISR = byFetch, 1
	c := start(t, cfg)
	_, err := c.controller.createTopic("t", 1, 3)
	require.NoError(t, err)
	client := newPlainClient(t, c)
	defer client.close()
	client.mustProduce("t", acksAll, "x")
	topic := c.controller.current().Topics["t"]
	a := topic.Partitions[0]
	away := without(a.Replicas, a.Leader)
	for _, id := range away {
		require.NoError(t, c.kill(id))
	}
	client.mustProduce("t", acksAll, "y")
	_, err = c.controller.register(away[0])
	require.NoError(t, err)
	for _, p := range c.broker(a.Leader).all() {
		for end, size := range []int{1, 1, 2} {
			p.mu.Lock()
			p.fetches[away[0]] = fetchSample{end: int64(end), caughtUp: time.Now()}
			p.mu.Unlock()
			p.reviewISR()
			require.Len(t, c.controller.current().Topics["t"].Partitions[0].ISR, size, "its log ends at %d", end)
		}
	}
}

// The latencies that are injected are those of the simulator.
func TestLatencies(t *testing.T) {
	require.Equal(t, sim.S3ExpressPut, sim.Latency{Median: s3ExpressPut.median, Sigma: s3ExpressPut.sigma, PerMiB: s3ExpressPut.perMiB, Least: time.Millisecond})
	require.Equal(t, sim.S3ExpressGet, sim.Latency{Median: s3ExpressGet.median, Sigma: s3ExpressGet.sigma, PerMiB: s3ExpressGet.perMiB, Least: time.Millisecond})
	draw := s3ExpressPut.from(1)
	var sum time.Duration
	for range 1000 {
		sum += draw(256 << 10)
	}
	require.InDelta(t, 9.2, (sum/1000).Seconds()*1000, 0.5, "milliseconds")
}
