// Package memory is a partition's log in memory: it keeps whole Kafka record batches, byte for byte, beside a leader
// epoch cache, and implements both leader.Log and follower.Log. It is for tests, for examples, and for broker authors
// to read: what it does at each call is what walhop expects of a broker's own log.
//
// A [Log] knows its part in the partition. [Log.Lead] makes it the leader's log in an epoch and [Log.Append] appends as
// the leader; [Log.Follow] makes it a follower's log in an epoch, and [Log.AppendAsFollower] appends what the leader
// wrote, behind the fence that walhop relies on: it appends nothing, and returns follower.ErrStale, unless the epoch
// and the log's end are what the caller believes them to be, under the log's own lock.
//
// The leader epoch cache follows Kafka's: it tells the epoch of any offset, the end offset of an epoch
// ([Log.EndOffsetForEpoch]), and so whether a fetch diverges ([Log.CheckFetch]) and to where a follower truncates
// ([Log.TruncateDiverging]). Truncation from either end, compaction, deletion from the start and a crash that loses
// what was not flushed are there too.
//
// Only record batches of magic 2 are kept. No size limit that a producer might meet is enforced (KAFKA-17375,
// KAFKA-9617): what the leader holds, its followers take.
package memory
