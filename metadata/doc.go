// Package metadata tells followers where the bytes are: one [Event] for each segment that a leader has uploaded, carried
// by a [Log], and the [Store], which keeps of them what the partitions followed here still lack.
//
// A leader publishes after it has uploaded (L2), in the order in which it sealed its segments (L3). A follower
// subscribes, gives every [Item] to its Store, and asks [Store.Next] what a partition needs. An item is an event or a
// [Gap]: a reader that misses something is always told (M3), and one bad event never stops the stream (M4). Nothing in
// the log is needed for safety: a follower trusts the leader epoch alone (F1) and verifies what it fetches (F3), and
// whoever lacks something falls back to an ordinary fetch.
//
// The logs are memlog, in memory, for tests, filelog, files on a shared filesystem, the embedded default, and kafkalog, a
// topic on a Kafka cluster. Who writes another one uses [Sequencer] to tell gaps and duplicates, [CheckWriter] and
// [Event.AppendVersion] on the way in and [Event.UnmarshalBinary] on the way out, and proves it with package
// conformance.
package metadata
