package replica

import (
	"context"

	"github.com/walhop/walhop/walstorage/segment"
)

// Reports is one message from a follower to a leader: where its logs end, for those of its partitions that have
// something new to say or were answered since. It takes the place of Kafka's fetch request and carries no record.
type Reports struct {
	// Replica is the broker id of the follower.
	Replica int32
	// BrokerEpoch is the epoch of the follower's registration. A smaller one than the leader has seen is a zombie's.
	BrokerEpoch int64
	// Counter grows with each message of one Reporter. What two connections bring out of order is told by it (B1).
	Counter uint64
	// Full says that Parts names every partition that the replica follows from this leader. The first message is full,
	// and so is the first after a failure; the others name what is new and leave the rest as it was.
	Full bool
	// Parts holds at most one report of each partition. It may be empty: the message then says that the follower is
	// alive, and waits for answers.
	Parts []Report
}

// Report says where the log of one partition ends. It is sent after the append (B1).
type Report struct {
	Partition segment.TopicIDPartition
	// LeaderEpoch is the leader epoch that the follower follows.
	LeaderEpoch int32
	// LogEndOffset and LastEpoch are the log's end and the leader epoch of the offset before it, -1 if the log tells
	// none, read together.
	LogEndOffset int64
	LastEpoch    int32
	// LogStart is the follower's log start offset, -1 if its log tells none.
	LogStart int64
	// Wanting asks for an answer as soon as the leader has more than this, since nothing else will bring it: the
	// follower is in a fallback, or has had no event since one (B4).
	Wanting bool
	// Known is what the follower was last told of the leader, so that an answer that was lost is given again.
	Known Known
}

// Known holds the leader's offsets as its last answer told them; each is -1 before the first.
type Known struct {
	LogEndOffset  int64
	HighWatermark int64
	LogStart      int64
}

// nothingKnown is the Known of a report before the first answer.
var nothingKnown = Known{LogEndOffset: -1, HighWatermark: -1, LogStart: -1}

// Answer is what the leader says to one report. A report gets at most one answer, and gets it when there is something to
// say (B4).
type Answer struct {
	Partition segment.TopicIDPartition
	// Err says why the report was refused, nil if it was taken: one of this package's sentinels, or the broker's own
	// error. A transport carries it as a code.
	Err error
	// LeaderEpoch is the leader's epoch.
	LeaderEpoch int32
	// LeaderLEO is the leader's log end offset, for Following.Observe. It is -1, as the two offsets below are, with an Err.
	LeaderLEO int64
	// HighWatermark and LogStart are the leader's. The follower's broker takes both from here and never from an event
	// (B3).
	HighWatermark int64
	LogStart      int64
	// Diverging is where the follower's log parts from the leader's, nil if it is a prefix. The offset of a diverging
	// report is not recorded (B3).
	Diverging *Diverging
}

// Diverging is the largest leader epoch of the leader's log not above the reported one, and the offset at which it
// ended.
type Diverging struct {
	Epoch     int32
	EndOffset int64
}

// Send is the broker's transport: it carries reports to the leader's Tracker.Handle and brings its answers. Two calls to
// one leader may be under way at once, and the second must not wait for the first: the leader parks a message until it
// has something to say, and a newer message ends that. Kafka's connections are muted meanwhile, so reports have
// connections of their own (B1, R9). An error says nothing of whether the reports have arrived. It returns soon after its
// context has ended.
type Send func(ctx context.Context, leaderID int32, r Reports) ([]Answer, error)

// Partitions is the leader broker's view of its partitions. It must be safe for concurrent use.
type Partitions interface {
	// Check makes every check of an ordinary fetch (B3): the replica is assigned, its broker epoch is its registration's,
	// the leader epoch is the partition's, the offset is in range and not moved to tiered storage, the last epoch does
	// not diverge. It returns an error, which refuses the report, or the answer as it stands now, with Diverging set if
	// the log diverges. Check changes nothing: it is called again whenever the answer may have become another, with a
	// report that was taken before. No lock of the Tracker is held, so Check may take the locks under which the broker
	// calls Moved.
	Check(replica int32, brokerEpoch int64, r Report) (Answer, error)
}
