// Package follower replicates the partitions that a broker follows: it learns from the metadata log where the leader's
// bytes are, fetches the segments from the store, verifies them, and appends them to the broker's own logs.
//
// A broker makes one [Replicator], calls Follow for each partition whose leader it has been told, and Stop before it
// truncates, deletes or leads the partition. It goes on sending fetch requests to the leader, with offsets and without
// bytes (package replica does that), and hands each answer's log end offset to [Following.Observe].
//
// What the rules promise:
//
//   - Only the followed epoch's entries are used (F1), only where they continue the log exactly and match its last epoch
//     (F2), only after every checksum and header has been verified (F3), and only once an ordinary fetch of the epoch has
//     not diverged (F6). The log itself refuses the append if its end or the epoch have changed meanwhile.
//   - Whatever goes wrong, the partition falls back on the broker's ordinary fetch and comes back to the store when the
//     store works again (F5); there is no silent standstill (F6): the longest time without progress is 2 x StallAfter and
//     a round trip. A fallback is reported once, in [State], by [Hooks] and in the log.
//   - Only one thing writes to a log at a time (F7), and nothing that a producer might be checked for is checked again
//     (F8): sequence numbers, timestamps and size limits are the leader's business.
//
// Where the whole way of a batch (linger, upload, publication, download) takes nearly StallAfter, much of the traffic goes
// by the ordinary fetch: raise StallAfter, or use a faster store.
package follower
