package unifiedlog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/unifiedlog/internal/contract"
)

// kinds are the log on disk as package contract tests it: with one large segment, and with a new one every few batches. A
// crash loses everything that was not synced.
func kinds() map[string]contract.Kind {
	kind := func(segmentBytes int64) contract.Kind {
		return contract.Kind{
			New: func(t testing.TB, start int64, moved func()) contract.Log {
				l := &contractLog{t: t, fs: newCrashFS(), segmentBytes: segmentBytes, moved: moved}
				l.open(start, 0)
				t.Cleanup(func() { _ = l.Close() })
				return l
			},
			ErrCorrupt: unifiedlog.ErrCorrupt, ErrOutOfOrder: unifiedlog.ErrOutOfOrder, ErrNotLeader: unifiedlog.ErrNotLeader,
			ErrEpochUsed: unifiedlog.ErrEpochUsed, ErrOutOfRange: unifiedlog.ErrOutOfRange,
			Position: func(err error) (int, bool) {
				var refused *unifiedlog.BatchError
				if !errors.As(err, &refused) {
					return 0, false
				}
				return refused.Position, true
			},
		}
	}
	return map[string]contract.Kind{"large segments": kind(0), "small segments": kind(170)}
}

type contractLog struct {
	*unifiedlog.Log
	t            testing.TB
	fs           *crashFS
	segmentBytes int64
	moved        func()
}

func (l *contractLog) open(start, recoveryPoint int64) {
	log, err := unifiedlog.Open(context.Background(), unifiedlog.Config{
		FS: l.fs, LogStart: start, RecoveryPoint: recoveryPoint, SegmentBytes: l.segmentBytes, Moved: l.moved,
		RollFlush: unifiedlog.RollFlushNone,
	})
	require.NoError(l.t, err)
	l.Log = log
}

func (l *contractLog) Append(ctx context.Context, epoch int32, batches []byte) (first, last int64, err error) {
	appended, err := l.AppendAsLeader(ctx, epoch, batches)
	return appended.First, appended.Last, err
}

func (l *contractLog) Epochs() []contract.EpochStart {
	all := make([]contract.EpochStart, 0)
	for _, e := range l.Log.Epochs() {
		all = append(all, contract.EpochStart(e))
	}
	return all
}

func (l *contractLog) EndOffsetForEpoch(epoch int32) contract.EpochEnd {
	return contract.EpochEnd(l.Log.EndOffsetForEpoch(epoch))
}

func (l *contractLog) CheckFetch(offset int64, lastEpoch int32) (*contract.EpochEnd, error) {
	diverging, err := l.Log.CheckFetch(offset, lastEpoch)
	return (*contract.EpochEnd)(diverging), err
}

func (l *contractLog) TruncateTo(offset int64) int64 {
	end, err := l.Log.TruncateTo(offset)
	require.NoError(l.t, err)
	return end
}

func (l *contractLog) TruncateDiverging(leader contract.EpochEnd) int64 {
	end, err := l.Log.TruncateDiverging(unifiedlog.EpochEnd(leader))
	require.NoError(l.t, err)
	return end
}

func (l *contractLog) TruncateFullyAndStartAt(offset int64, epochs ...contract.EpochStart) {
	all := make([]unifiedlog.EpochStart, 0, len(epochs))
	for _, e := range epochs {
		all = append(all, unifiedlog.EpochStart(e))
	}
	require.NoError(l.t, l.Log.TruncateFullyAndStartAt(offset, all...))
}

func (l *contractLog) Flush() int64 {
	end, err := l.Log.Flush()
	require.NoError(l.t, err)
	return end
}

func (l *contractLog) Crash() int64 {
	start, point := l.Start(), l.RecoveryPoint()
	old := l.Log
	l.fs = l.fs.crash(loseUnsynced, 0)
	_ = old.Close()
	l.open(start, point)
	end, _ := l.End()
	return end
}

// contractTests are the tests of package contract.
var contractTests = map[string]func(*testing.T, contract.Kind){
	"AppendRefusesBadBytes":            contract.AppendRefusesBadBytes,
	"AppendAsFollowerFence":            contract.AppendAsFollowerFence,
	"AppendOrder":                      contract.AppendOrder,
	"AppendAsFollowerTakesAnySequence": contract.AppendAsFollowerTakesAnySequence,
	"AppendWithoutOffsetsLeft":         contract.AppendWithoutOffsetsLeft,
	"NoOffsetComesWithAnError":         contract.NoOffsetComesWithAnError,
	"AppendGivesOffsetsAndEpoch":       contract.AppendGivesOffsetsAndEpoch,
	"LeadAndFollowUseNewEpochs":        contract.LeadAndFollowUseNewEpochs,
	"CrashedLeaderNeedsNewEpoch":       contract.CrashedLeaderNeedsNewEpoch,
	"AppendAsFollowerRacesFollow":      contract.AppendAsFollowerRacesFollow,
	"ReadWholeBatches":                 contract.ReadWholeBatches,
	"TruncationCleansDanglingEpoch":    contract.TruncationCleansDanglingEpoch,
	"DanglingEpochIsReplacedByAppend":  contract.DanglingEpochIsReplacedByAppend,
	"TruncateTo":                       contract.TruncateTo,
	"EndAfterPurgeAndRebuild":          contract.EndAfterPurgeAndRebuild,
	"EndOffsetForEpoch":                contract.EndOffsetForEpoch,
	"CheckFetch":                       contract.CheckFetch,
	"TruncateDivergingConverges":       contract.TruncateDivergingConverges,
	"CrashLosesWhatWasNotFlushed":      contract.CrashLosesWhatWasNotFlushed,
	"PurgedLogIsChecked":               contract.PurgedLogIsChecked,
}

// The log on disk does what the log in memory does: KAFKA-10706, KAFKA-15695, aiven/inkless#666, Jepsen on Bufstream 0.1.0, and
// the histories C3, C5, R5, R8 among it.
func TestContract(t *testing.T) {
	for name, kind := range kinds() {
		for test, run := range contractTests {
			t.Run(test+", "+name, func(t *testing.T) { run(t, kind) })
		}
	}
}
