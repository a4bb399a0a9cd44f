package leader_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/metadata"
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
	type config = leader.Config
	configtest.Run(t, configtest.Table[config]{
		Valid: config{Storage: store, Metadata: meta, Cluster: cluster},
		Open: func(_ testing.TB, c config) error {
			uploader, err := leader.New(c)
			if err != nil {
				return err
			}
			return uploader.Close(context.Background())
		},
		Wrong: map[string][]func(*config){
			"Storage":     {func(c *config) { c.Storage = nil }},
			"Metadata":    {func(c *config) { c.Metadata = nil }},
			"Cluster":     {func(c *config) { c.Cluster = "" }, func(c *config) { c.Cluster = "a/b" }},
			"Broker":      {func(c *config) { c.Broker = -1 }},
			"BrokerEpoch": {func(c *config) { c.BrokerEpoch = -1 }},
			"Linger":      {func(c *config) { c.Linger = -time.Second }, func(c *config) { c.Linger = time.Minute }},
			"TargetBytes": {
				func(c *config) { c.TargetBytes = -1 },
				func(c *config) { c.TargetBytes = 100 },
				func(c *config) { c.TargetBytes = 1<<30 + 1 },
			},
			"MaxBytes": {
				func(c *config) { c.MaxBytes = -1 },
				func(c *config) { c.MaxBytes = 5000 },
				func(c *config) { c.MaxBytes = 1<<30 + 1 },
			},
			"MaxSlices": {func(c *config) { c.MaxSlices = -1 }, func(c *config) { c.MaxSlices = 1<<20 + 1 }},
			"MaxEventBytes": {
				func(c *config) { c.MaxEventBytes = 1 },
				func(c *config) { c.MaxEventBytes = 1<<30 + 1 },
				// L8: what the log takes was read when it was opened.
				func(c *config) { c.Metadata, c.MaxEventBytes = limitedLog{meta, 100_000}, 100_001 },
				func(c *config) { c.Metadata = limitedLog{meta, 1000} },
			},
			"MaxInFlightUploads": {func(c *config) { c.MaxInFlightUploads = -1 }, func(c *config) { c.MaxInFlightUploads = 5000 }},
			"MaxBacklogAge":      {func(c *config) { c.MaxBacklogAge = -1 }},
			"MaxBacklogBytes":    {func(c *config) { c.MaxBacklogBytes = -1 }},
			// L3: a segment that is published after half the retention may name an object that is being deleted.
			"GiveUpAfter": {
				func(c *config) { c.GiveUpAfter = -1 },
				func(c *config) { c.GiveUpAfter, c.Retention = time.Minute, 2*time.Minute },
			},
			"StuckAfter": {func(c *config) { c.StuckAfter = -1 }},
			"Retention":  {func(c *config) { c.Retention = -1 }},
		},
		Any: map[string]string{
			"Seed":   "every number is a seed",
			"Now":    "nil is time.Now",
			"Random": "nil is crypto/rand",
			"Hooks":  "every one of them may be nil",
			"Logger": "nil is none",
		},
	})
	t.Run("MaxBacklogAge below the time between two looks at a partition", func(t *testing.T) {
		cfg := leader.Config{Storage: store, Metadata: meta, Cluster: cluster, Linger: 4 * time.Second, MaxBacklogAge: time.Second}
		_, err := leader.New(cfg)
		require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
		assert.ErrorContains(t, err, "MaxBacklogAge")
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

// limitedLog is a metadata log that knows how large an event it takes.
type limitedLog struct {
	metadata.Log
	limit int
}

func (l limitedLog) MaxEventBytes() int { return l.limit }

// L8: a limit of the log that is not exceeded is none of the uploader's business.
func TestLimitOfTheLog(t *testing.T) {
	topic, err := memlog.New(memlog.Config{})
	require.NoError(t, err)
	meta, err := topic.Open(memlog.Options{Broker: broker, BrokerEpoch: brokerEpoch})
	require.NoError(t, err)
	store, _, err := storemem.NewManager(objectstore.Config{Cluster: cluster})
	require.NoError(t, err)
	for _, most := range []int{0, 5000, 100_000} { // 0: the default, which is lowered to the limit
		uploader, err := leader.New(leader.Config{
			Storage: store, Metadata: limitedLog{meta, 100_000}, Cluster: cluster, Broker: broker, BrokerEpoch: brokerEpoch, MaxEventBytes: most,
		})
		require.NoError(t, err)
		require.NoError(t, uploader.Close(t.Context()))
	}
}
