package memory_test

import (
	"testing"

	"github.com/walhop/walhop/unifiedlog/internal/contract"
)

// KAFKA-10706: a truncation cleans the newest epoch also where no bytes go.
func TestTruncationCleansDanglingEpoch(t *testing.T) { contract.TruncationCleansDanglingEpoch(t, kind) }

func TestDanglingEpochIsReplacedByAppend(t *testing.T) {
	contract.DanglingEpochIsReplacedByAppend(t, kind)
}

func TestTruncateTo(t *testing.T) { contract.TruncateTo(t, kind) }

// R5, KAFKA-15695: after a purge the log tells the epoch in which it ended; after a rebuild from tiered storage an empty log tells one.
func TestEndAfterPurgeAndRebuild(t *testing.T) { contract.EndAfterPurgeAndRebuild(t, kind) }

func TestEndOffsetForEpoch(t *testing.T) { contract.EndOffsetForEpoch(t, kind) }

func TestCheckFetch(t *testing.T) { contract.CheckFetch(t, kind) }

// C3: an old leader with an unreplicated tail ends with the new leader's log, whatever the epochs in between.
func TestTruncateDivergingConverges(t *testing.T) { contract.TruncateDivergingConverges(t, kind) }

func TestCrashLosesWhatWasNotFlushed(t *testing.T) { contract.CrashLosesWhatWasNotFlushed(t, kind) }

// R5, B3: a log that was purged to its end still tells in which epoch it ended, so that the leader of another history does
// not count it as a copy of records that it never had. Found by internal/search: an old leader, purged, came back after an
// unclean election, was taken into the ISR with its empty log, elected, and an acknowledged record was lost.
func TestPurgedLogIsChecked(t *testing.T) { contract.PurgedLogIsChecked(t, kind) }
