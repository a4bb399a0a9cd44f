package kafka

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Patience is how long anything may take.
const Patience = 2 * time.Minute

// User and Password are of the one user who is known at [Broker.SASL], and who may do nothing until ACLs say otherwise.
const (
	User     = "limited"
	Password = "limited-secret"
)

// Config says what cluster to start.
type Config struct {
	// Brokers is their number, 1 or 3. Each is a controller too. Default 1.
	Brokers int
	// Settings are added to each broker's, and go before the package's own.
	Settings map[string]string
}

// Cluster is a running cluster. Clients without credentials may do everything.
type Cluster struct {
	Tools
	// ID is what the cluster was formatted with.
	ID      string
	brokers []*Broker
}

// Start starts a cluster of new, empty brokers and returns when clients of each are told of all of them. The cluster ends
// with the test.
func Start(tb testing.TB, cfg Config) *Cluster {
	tb.Helper()
	if cfg.Brokers == 0 {
		cfg.Brokers = 1
	}
	c := &Cluster{Tools: NewTools(tb), ID: newUUID()}
	root := tb.TempDir()
	log := filepath.Join(root, "log4j2.yaml")
	require.NoError(tb, os.WriteFile(log, log4j2, 0o600))
	var controllers, founders []string
	for id := 1; id <= cfg.Brokers; id++ {
		b := &Broker{
			ID: id, tb: tb, cluster: c, port: freePort(), sasl: freePort(), controller: freePort(),
			home: filepath.Join(root, fmt.Sprintf("broker-%d", id)), log4j2: log,
		}
		c.brokers = append(c.brokers, b)
		controllers = append(controllers, address(b.controller))
		founders = append(founders, fmt.Sprintf("%d@%s:%s", id, address(b.controller), newUUID()))
	}
	// All that is written by every broker alone is formatted at once, in as many processes.
	var formatting sync.WaitGroup
	failures := make([]error, len(c.brokers))
	for i, b := range c.brokers {
		require.NoError(tb, os.MkdirAll(b.home, 0o700))
		own := map[string]string{
			"node.id": strconv.Itoa(b.ID), "broker.rack": b.Rack(), "log.dirs": b.Data(),
			"controller.quorum.bootstrap.servers": strings.Join(controllers, ","),
			"listeners":                           fmt.Sprintf("PLAINTEXT://%s,SASL://%s,CONTROLLER://%s", b.Address(), b.SASL(), address(b.controller)),
		}
		own["advertised.listeners"] = own["listeners"]
		require.NoError(tb, os.WriteFile(b.settings(), properties(defaults, own, cfg.Settings), 0o600))
		formatting.Go(func() {
			_, _, failures[i] = c.java(context.Background(), "", "kafka.tools.StorageTool", "format", "-t", c.ID, "-c", b.settings(),
				"--initial-controllers", strings.Join(founders, ","))
		})
	}
	formatting.Wait()
	for _, err := range failures {
		require.NoError(tb, err)
	}
	tb.Cleanup(func() { c.end(tb) })
	for _, b := range c.brokers {
		b.launch(tb)
	}
	c.Await(tb)
	return c
}

// end shows the ends of the brokers' logs if the test has failed.
func (c *Cluster) end(tb testing.TB) {
	for _, b := range c.brokers {
		if tb.Failed() {
			tb.Logf("the end of the log of broker %d:\n%s", b.ID, b.logEnd(60))
		}
	}
}

// Broker returns the broker of an id, from 1 on.
func (c *Cluster) Broker(id int) *Broker { return c.brokers[id-1] }

// Brokers returns all brokers, in the order of their ids.
func (c *Cluster) Brokers() []*Broker { return c.brokers }

// Addresses returns what clients connect to: host and port of each broker.
func (c *Cluster) Addresses() []string {
	addresses := make([]string, len(c.brokers))
	for i, b := range c.brokers {
		addresses[i] = b.Address()
	}
	return addresses
}

// Bootstrap returns the addresses as the tools and kcat take them.
func (c *Cluster) Bootstrap() string { return strings.Join(c.Addresses(), ",") }

// Client returns a client of the whole cluster, which is closed with the test.
func (c *Cluster) Client(tb testing.TB, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Addresses()...)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(client.Close)
	return client
}

// Await waits until each broker that runs tells its clients of all that run and of no other.
func (c *Cluster) Await(tb testing.TB) {
	tb.Helper()
	want := make(map[int32]bool)
	for _, b := range c.brokers {
		if b.Running() {
			want[int32(b.ID)] = true
		}
	}
	for _, b := range c.brokers {
		if b.Running() {
			b.await(tb, func(told map[int32]bool) bool { return maps.Equal(told, want) })
		}
	}
}

// Eventually asks again every 50 ms until the condition holds, and fails the test after 2 minutes with what it was told
// last.
func Eventually(tb testing.TB, what string, condition func(ctx context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("%s: still not so: %v", what, err)
		}
	}
}
