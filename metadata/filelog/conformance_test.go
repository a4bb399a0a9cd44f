package filelog_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
)

// A log in files keeps every rule that the suite checks, M1 to M5: with bytes damaged on disk (Q7), a disk that fails in
// the middle of a publication, and an answer that is lost (Q12).
func TestConformance(t *testing.T) {
	root := t.TempDir()
	dir := func(tb testing.TB, topic string) string {
		path := filepath.Join(root, topic)
		require.NoError(tb, os.MkdirAll(path, 0o755))
		return path
	}
	open := func(tb testing.TB, topic string, broker int32, epoch int64) *filelog.Log {
		log, err := filelog.New(tb.Context(), filelog.Config{Dir: dir(tb, topic), Broker: broker, BrokerEpoch: epoch})
		require.NoError(tb, err)
		return log
	}
	conformance.RunMetadata(t, conformance.MetadataConfig{
		Report: caseresults.Record(t, "filelog"),
		Open: func(tb testing.TB, topic string, broker int32, epoch int64) metadata.Log {
			return open(tb, topic, broker, epoch)
		},
		Damage: func(tb testing.TB, topic string, broker int32, reason metadata.GapReason) bool {
			filelog.SpoilNewest(tb, dir(tb, topic), broker, reason == metadata.GapUnknownVersion)
			return true
		},
		Unknown: func(tb testing.TB, topic string, broker int32, epoch int64, stored bool) metadata.Log {
			log := open(tb, topic, broker, epoch)
			if stored {
				return &lostAnswer{Log: log}
			}
			var writes atomic.Int64
			filelog.Fail(log, func(op string, _ int) (int, error) {
				if op == "write" && writes.Add(1) == 1 {
					return 10, syscall.EIO
				}
				return 0, nil
			})
			return log
		},
		Invalid: map[string]func() error{
			"Dir":          refused(filelog.Config{}),
			"Broker":       refused(filelog.Config{Dir: root, Broker: -1}),
			"BrokerEpoch":  refused(filelog.Config{Dir: root, BrokerEpoch: -1}),
			"EventVersion": refused(filelog.Config{Dir: root, EventVersion: 99}),
			"PollInterval": refused(filelog.Config{Dir: root, PollInterval: 1}),
			"RotateBytes":  refused(filelog.Config{Dir: root, RotateBytes: -1}),
			"RotateAfter":  refused(filelog.Config{Dir: root, RotateAfter: -1}),
			"Retention":    refused(filelog.Config{Dir: root, Retention: time.Second, RotateAfter: time.Second}),
		},
	})
}

func refused(config filelog.Config) func() error {
	return func() error {
		log, err := filelog.New(context.Background(), config)
		if err == nil {
			return log.Close()
		}
		return err
	}
}

// lostAnswer is a log whose first publication is stored, and whose caller does not learn it.
type lostAnswer struct {
	*filelog.Log
	lost atomic.Bool
}

func (l *lostAnswer) Publish(ctx context.Context, events ...*metadata.Event) (int, error) {
	stored, err := l.Log.Publish(ctx, events...)
	if err == nil && l.lost.CompareAndSwap(false, true) {
		return 0, metadata.ErrUnknownOutcome
	}
	return stored, err
}
