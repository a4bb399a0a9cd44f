package memory_test

import (
	"errors"
	"testing"

	"github.com/walhop/walhop/unifiedlog/internal/contract"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// kind is the log in memory as package contract tests it.
var kind = contract.Kind{
	New: func(_ testing.TB, start int64, moved func()) contract.Log {
		return contractLog{memory.New(memory.Config{Start: start, Moved: moved})}
	},
	ErrCorrupt: memory.ErrCorrupt, ErrOutOfOrder: memory.ErrOutOfOrder, ErrNotLeader: memory.ErrNotLeader,
	ErrEpochUsed: memory.ErrEpochUsed, ErrOutOfRange: memory.ErrOutOfRange,
	Position: func(err error) (int, bool) {
		var refused *memory.BatchError
		ok := errors.As(err, &refused)
		if !ok {
			return 0, false
		}
		return refused.Position, true
	},
}

type contractLog struct{ *memory.Log }

func (l contractLog) Epochs() []contract.EpochStart {
	all := make([]contract.EpochStart, 0)
	for _, e := range l.Log.Epochs() {
		all = append(all, contract.EpochStart(e))
	}
	return all
}

func (l contractLog) EndOffsetForEpoch(epoch int32) contract.EpochEnd {
	return contract.EpochEnd(l.Log.EndOffsetForEpoch(epoch))
}

func (l contractLog) CheckFetch(offset int64, lastEpoch int32) (*contract.EpochEnd, error) {
	diverging, err := l.Log.CheckFetch(offset, lastEpoch)
	return (*contract.EpochEnd)(diverging), err
}

func (l contractLog) TruncateDiverging(leader contract.EpochEnd) int64 {
	return l.Log.TruncateDiverging(memory.EpochEnd(leader))
}

func (l contractLog) TruncateFullyAndStartAt(offset int64, epochs ...contract.EpochStart) {
	all := make([]memory.EpochStart, 0, len(epochs))
	for _, e := range epochs {
		all = append(all, memory.EpochStart(e))
	}
	l.Log.TruncateFullyAndStartAt(offset, all...)
}
