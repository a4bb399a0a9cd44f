package unifiedlog_test

import (
	"math"
	"testing"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/unifiedlog"
)

func TestConfig(t *testing.T) {
	type change = func(*unifiedlog.Config)
	configtest.Run(t, configtest.Table[unifiedlog.Config]{
		Valid: unifiedlog.Config{FS: newCrashFS()},
		Open: func(tb testing.TB, cfg unifiedlog.Config) error {
			log, err := unifiedlog.Open(tb.Context(), cfg)
			if err != nil {
				return err
			}
			return log.Close()
		},
		Wrong: map[string][]change{
			"Dir":           {func(c *unifiedlog.Config) { c.FS = nil }, func(c *unifiedlog.Config) { c.Dir = tempDir(t) }},
			"FS":            {func(c *unifiedlog.Config) { c.Dir = tempDir(t) }},
			"RecoveryPoint": {func(c *unifiedlog.Config) { c.RecoveryPoint = -1 }},
			"LogStart": {
				func(c *unifiedlog.Config) { c.LogStart = -1 }, func(c *unifiedlog.Config) { c.LogStart = math.MaxInt64 },
			},
			"HighWatermark": {func(c *unifiedlog.Config) { c.HighWatermark = -1 }},
			"SegmentBytes": {
				func(c *unifiedlog.Config) { c.SegmentBytes = -1 }, func(c *unifiedlog.Config) { c.SegmentBytes = 1 << 31 },
			},
			"SegmentAge":         {func(c *unifiedlog.Config) { c.SegmentAge = -1 }},
			"IndexIntervalBytes": {func(c *unifiedlog.Config) { c.IndexIntervalBytes = -1 }},
			"MaxIndexBytes":      {func(c *unifiedlog.Config) { c.MaxIndexBytes = 63 }, func(c *unifiedlog.Config) { c.MaxIndexBytes = -1 }},
			"RollFlush":          {func(c *unifiedlog.Config) { c.RollFlush = 3 }, func(c *unifiedlog.Config) { c.RollFlush = -1 }},
			"FlushRecords":       {func(c *unifiedlog.Config) { c.FlushRecords = -1 }},
			"MaxBatchBytes":      {func(c *unifiedlog.Config) { c.MaxBatchBytes = 60 }, func(c *unifiedlog.Config) { c.MaxBatchBytes = -1 }},
			"TimestampBefore":    {func(c *unifiedlog.Config) { c.TimestampBefore = -1 }},
			"TimestampAfter":     {func(c *unifiedlog.Config) { c.TimestampAfter = -1 }},
			"ProducerExpiration": {func(c *unifiedlog.Config) { c.ProducerExpiration = -1 }},
		},
		Any: map[string]string{
			"TopicID":        "every id is one, and the zero one is none",
			"CleanShutdown":  "either",
			"Compacted":      "either",
			"LogAppendTime":  "either",
			"RetentionAge":   "what is not above 0 is no bound",
			"RetentionBytes": "what is not above 0 is no bound",
			"Moved":          "nil is nobody to tell",
			"Now":            "nil is time.Now",
			"Logger":         "nil is no logger",
		},
	})
}

// tempDir is for a field that is refused before anything is made there.
func tempDir(t *testing.T) string { return t.TempDir() }
