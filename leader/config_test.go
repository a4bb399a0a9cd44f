package leader_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata/memlog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	storemem "github.com/walhop/walhop/walstorage/objectstore/memory"
)

func TestConfigNamesTheWrongField(t *testing.T) {
	store, _, err := storemem.NewManager(objectstore.Config{Cluster: cluster})
	require.NoError(t, err)
	topic, err := memlog.New(memlog.Config{})
	require.NoError(t, err)
	meta, err := topic.Open(memlog.Options{Broker: broker, BrokerEpoch: brokerEpoch})
	require.NoError(t, err)
	for field, change := range map[string]func(*leader.Config){
		"Storage":            func(c *leader.Config) { c.Storage = nil },
		"Metadata":           func(c *leader.Config) { c.Metadata = nil },
		"Cluster":            func(c *leader.Config) { c.Cluster = "" },
		"Broker":             func(c *leader.Config) { c.Broker = -1 },
		"BrokerEpoch":        func(c *leader.Config) { c.BrokerEpoch = -1 },
		"Linger":             func(c *leader.Config) { c.Linger = -time.Second },
		"TargetBytes":        func(c *leader.Config) { c.TargetBytes = 100 },
		"MaxBytes":           func(c *leader.Config) { c.MaxBytes = 5000 },
		"MaxSlices":          func(c *leader.Config) { c.MaxSlices = -1 },
		"MaxEventBytes":      func(c *leader.Config) { c.MaxEventBytes = 1 },
		"MaxInFlightUploads": func(c *leader.Config) { c.MaxInFlightUploads = 5000 },
		"MaxBacklogAge":      func(c *leader.Config) { c.MaxBacklogAge = -1 },
		"MaxBacklogBytes":    func(c *leader.Config) { c.MaxBacklogBytes = -1 },
		// L3: a segment that is published after half the retention may name an object that is being deleted.
		"GiveUpAfter": func(c *leader.Config) { c.GiveUpAfter, c.Retention = time.Minute, 2*time.Minute },
		"StuckAfter":  func(c *leader.Config) { c.StuckAfter = -1 },
		"Retention":   func(c *leader.Config) { c.Retention = -1 },
	} {
		t.Run(field, func(t *testing.T) {
			cfg := leader.Config{Storage: store, Metadata: meta, Cluster: cluster, Broker: broker, BrokerEpoch: brokerEpoch}
			change(&cfg)
			_, err := leader.New(cfg)
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			assert.ErrorContains(t, err, field)
		})
	}
	t.Run("MaxBacklogAge below the time between two looks at a partition", func(t *testing.T) {
		cfg := leader.Config{Storage: store, Metadata: meta, Cluster: cluster, Linger: 4 * time.Second, MaxBacklogAge: time.Second}
		_, err := leader.New(cfg)
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
		assert.ErrorContains(t, err, "MaxBacklogAge")
	})
	t.Run("defaults", func(t *testing.T) {
		up, err := leader.New(leader.Config{Storage: store, Metadata: meta, Cluster: cluster})
		require.NoError(t, err)
		require.NoError(t, up.Close(context.Background()))
	})
}

// A limit that is as great as can be is none: no sum of times overflows, so that nothing counts as stuck, too old or too
// much at once.
func TestConfigWithoutLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newRig(t, func(c *leader.Config) {
			c.MaxBacklogAge, c.MaxBacklogBytes = math.MaxInt64, math.MaxInt64
			c.StuckAfter, c.Retention, c.GiveUpAfter = math.MaxInt64, math.MaxInt64, math.MaxInt64/32
		})
		defer g.close()
		p := g.lead(0)
		for range 10 {
			p.append("a")
			time.Sleep(50 * time.Millisecond)
		}
		g.flush()
		p.requireWhole()
		assert.Empty(t, seen(g, &g.skipped))
		assert.Empty(t, seen(g, &g.given))
		assert.Empty(t, seen(g, &g.failed))
	})
}
