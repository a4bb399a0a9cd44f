package follower

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what a partition is doing.
type Kind string

// The kinds.
const (
	// Starting: the first ordinary fetch of the epoch has not been answered yet. The gate is shut (F6).
	Starting Kind = "starting"
	// Replicating: what the leader appends comes from the store.
	Replicating Kind = "replicating"
	// Fallback: the ordinary fetch has taken over, until the first append from the store (F5).
	Fallback Kind = "fallback"
	// Failed: the local log refused an append. The partition is at rest until Follow is called again.
	Failed Kind = "failed"
	// Stopped: Stop was called, a greater epoch is followed, or the replicator was closed.
	Stopped Kind = "stopped"
)

// Reason says why a partition fell back.
type Reason string

// The reasons (F5).
const (
	// Missing: the store does not have a segment that an event names.
	Missing Reason = "segment missing"
	// Corrupt: a segment does not match its event or its checksums, after one more fetch.
	Corrupt Reason = "segment corrupt"
	// Gap: the events leave out offsets, or the metadata log has lost some.
	Gap Reason = "gap"
	// MidBatch: the log end lies inside a batch of the leader, or inside a compaction gap (F2).
	MidBatch Reason = "log end inside a batch"
	// Lineage: the epoch at the log's end is not the leader's, or a report came back diverging (F2).
	Lineage Reason = "lineage"
	// Stalled: the leader is ahead and nothing has come for StallAfter (F6).
	Stalled Reason = "stalled"
	// StoreUnavailable: the store does not answer, or gives an error that says nothing.
	StoreUnavailable Reason = "store unavailable"
	// AccessDenied: the store refuses; also reported as a configuration error.
	AccessDenied Reason = "access denied"
	// TooFarBehind: a log end of the leader seen TooFarBehind ago is not reached.
	TooFarBehind Reason = "too far behind"
)

// State is what a partition is doing, and since when.
type State struct {
	Kind Kind
	// Reason, From and To say why and for which offsets, To not included, a fallback began. To is -1 where only the
	// leader's answer will tell. The ranges asked for afterwards are not shown.
	Reason   Reason
	From, To int64
	// Epoch is the leader epoch followed.
	Epoch int32
	// Since is the wall time of the change, by Config.Now.
	Since time.Time
	// Err is what went wrong, nil if there is no error to show.
	Err error
}

// String describes the state in a line.
func (s State) String() string {
	text := fmt.Sprintf("%s in epoch %d", s.Kind, s.Epoch)
	if s.Kind == Fallback {
		text += fmt.Sprintf(" for [%d,%d): %s", s.From, s.To, s.Reason)
	}
	if s.Err != nil {
		text += ": " + s.Err.Error()
	}
	return text
}

var (
	// ErrOldEpoch is what Follow returns for a leader epoch lower than the one followed.
	ErrOldEpoch = errors.New("follower: leader epoch is older than the one followed")
	// ErrClosed is what Follow returns after Close.
	ErrClosed = errors.New("follower: replicator is closed")
)
