// Package leader is the leader's half of walhop: it takes what the partitions of a broker append, combines it into one
// small object every few milliseconds, uploads that, and tells the followers through the metadata log where the bytes
// are. KIP-1176 calls it RLMWalCombinerTask; here it is the [Uploader].
//
// The broker calls [Uploader.Lead] when it becomes the leader of a partition, [Leadership.Notify] after each append, and
// [Leadership.Resign] when it leads no longer. The uploader pulls: it reads whole record batches from the broker's [Log]
// straight into the segment that it builds, so the append path never waits and no record is kept twice. A store that is
// slow, refuses or is gone costs the producers nothing (L1); the uploader falls behind, says so, and catches up, or, when
// what it lacks has become older than Config.MaxBacklogAge, goes on at the log's end, and the followers fetch the middle
// from the leader as they did before walhop (L11).
//
// # What a segment is and when it is seen
//
// A segment is closed when Config.Linger has passed since its first byte, or when it is full. It is uploaded, up to
// Config.MaxInFlightUploads at a time, and published once it is stored, never before (L2), in the order of sealing (L3).
// What cannot be stored or published within Config.GiveUpAfter is given up: what was sealed later goes on, and the
// followers see a gap.
//
// A follower that is shown records reports its log's end to the leader in its usual fetch request; acknowledgements and
// the high watermark stay the broker's. See package replica.
//
// # What the broker must do
//
//   - Give each start of an uploader a broker epoch, and each start of a leadership a leader epoch, that was never used
//     before (L6, B6).
//   - Lead after its last append as a follower, and once the epoch's start is in its epoch cache; Resign before any
//     truncation of the log, and before it deletes the log (B5).
//   - Notify after the append, not before.
//   - Stop being a broker when Hooks.Fenced says that a newer epoch of it is at work (L6).
//
// # Memory and cost
//
// Segments take at most (MaxInFlightUploads + 2) x TargetBytes of memory, however far the uploader is behind, and their
// indexes; batches larger than TargetBytes come on top of it while they are on their way. A Put and an event are paid for
// each segment, at most one each linger while the load is below TargetBytes per linger.
package leader
