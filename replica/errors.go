package replica

import "errors"

// The reasons for which a message is not taken. Send should return them as they are.
var (
	// ErrClosed says that the tracker has been closed.
	ErrClosed = errors.New("replica: tracker is closed")
	// ErrUnknownSession says that the leader knows nothing of the follower, and the message is not full: the Reporter
	// sends a full one.
	ErrUnknownSession = errors.New("replica: the leader knows no earlier report of this replica")
	// ErrOldBrokerEpoch says that a newer epoch of the follower's broker has reported: the message is a zombie's. A
	// Partitions.Check uses it for the same of one report.
	ErrOldBrokerEpoch = errors.New("replica: a newer epoch of this broker has reported")
)

// The reasons for which a Partitions.Check refuses a report (B3). A broker may use errors of its own besides.
var (
	// ErrNotLeader says that this broker does not lead the partition.
	ErrNotLeader = errors.New("replica: not the leader of the partition")
	// ErrOldLeaderEpoch says that the follower follows an epoch that has ended.
	ErrOldLeaderEpoch = errors.New("replica: leader epoch is older than the leader's")
	// ErrUnknownLeaderEpoch says that the follower follows an epoch that this broker has not heard of yet.
	ErrUnknownLeaderEpoch = errors.New("replica: leader epoch is newer than the leader's")
	// ErrNotReplica says that the replica is not assigned to the partition.
	ErrNotReplica = errors.New("replica: not a replica of the partition")
	// ErrOutOfRange says that the follower's log ends outside the leader's log. The follower counts it as diverging: its
	// ordinary fetch mends it.
	ErrOutOfRange = errors.New("replica: log end offset is out of range")
	// ErrMovedToTier says that the offset is in tiered storage alone. The follower counts it as diverging: its ordinary
	// fetch mends it.
	ErrMovedToTier = errors.New("replica: log end offset has moved to tiered storage")
)
