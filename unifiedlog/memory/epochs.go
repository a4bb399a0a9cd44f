package memory

import "github.com/walhop/walhop/unifiedlog"

// EpochStart is one entry of the leader epoch cache: the offset at which a leader epoch began.
type EpochStart = unifiedlog.EpochStart

// EpochEnd is a leader epoch and the offset at which it ended.
type EpochEnd = unifiedlog.EpochEnd
