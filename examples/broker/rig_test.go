package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// overFiles is three brokers on free ports, over files.
func overFiles(t *testing.T) clusterConfig {
	dir := t.TempDir()
	segments, events := filepath.Join(dir, "segments"), filepath.Join(dir, "events")
	require.NoError(t, os.Mkdir(segments, 0o755))
	require.NoError(t, os.Mkdir(events, 0o755))
	ids := []int32{0, 1, 2}
	return clusterConfig{
		dir: dir, ids: ids, network: newTCP(ids, nil), linger: 2 * time.Millisecond,
		storage: func(ctx context.Context, broker int32, cluster string) (walstorage.WalStorageManager, error) {
			return local.New(ctx, local.Config{Root: segments, Store: objectstore.Config{Cluster: cluster, Seed: uint64(broker)}})
		},
		events: func(ctx context.Context, broker int32, epoch int64) (metadata.Log, error) {
			return filelog.New(ctx, filelog.Config{Dir: events, Broker: broker, BrokerEpoch: epoch})
		},
	}
}

func start(t *testing.T, cfg clusterConfig) *cluster {
	t.Helper()
	c, err := newCluster(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(c.close)
	return c
}

// seeds are the addresses of the brokers.
func (c *cluster) seeds() (addresses []string) {
	for _, id := range c.ids {
		host, port := c.network.address(id)
		addresses = append(addresses, joinHostPort(host, port))
	}
	return addresses
}

func client(t *testing.T, c *cluster, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append([]kgo.Opt{kgo.SeedBrokers(c.seeds()...)}, options...)
	client, err := kgo.NewClient(options...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func joinHostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
