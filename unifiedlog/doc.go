// Package unifiedlog is the log of one partition on disk, in Apache Kafka's own format, for any broker in Go. It implements
// leader.Log and follower.Log. Only record batches travel between brokers; every index, snapshot and checkpoint beside them
// is made here, by appending, and is byte for byte what Kafka 4.3 makes of the same batches. Kafka's tools read the files,
// a Kafka broker starts on them, and a directory that Kafka has left can be opened.
//
// # Files
//
// In the directory of the partition, big endian, an offset of 20 digits in the name:
//
//	OFFSET.log               the record batches of a segment, as they were sent; OFFSET is its base
//	OFFSET.index             8 bytes an entry: a batch's last offset less the base, its place in the log
//	OFFSET.timeindex         12 bytes: the largest timestamp so far, the last offset of its batch less the base
//	OFFSET.txnindex          34 bytes: version 0, an aborted transaction's producer, first and last offset, last stable offset
//	OFFSET.snapshot          the producers as of OFFSET, version 1 with a CRC-32C: at each segment and after a Close
//	leader-epoch-checkpoint  each leader epoch and the offset at which it began, as text
//	partition.metadata       the topic id, as text
//
// An index gets an entry for a batch that begins more than IndexIntervalBytes after the batch of the entry before. So it is
// a function of the log, as Kafka's is since 4.3, and the same however many batches come in one append. Each batch goes
// into the segment in which it would be if it had come alone. In two places Kafka differs, which its tools do not mind:
// where a follower's roll falls on a compaction gap, the new segment here is named by the log's end and not by the first
// offset after the gap; and a transaction index takes the last stable offset as of the marker also where Kafka appends
// the next transaction in the same call, as Kafka's own recovery does.
//
// # What is synced
//
// As in Kafka, nothing on the path of an append: what was acknowledged is safe because other replicas have it. A segment that is
// rolled is synced in the background (Config.RollFlush), [Log.Flush] and Config.FlushRecords sync when the broker wants
// it, [Log.Close] syncs everything. The first batch of a leader epoch waits for the checkpoint of the epochs to be
// synced, as in Kafka. Unlike Kafka, truncations and deletions are synced: they are rare, and so nothing comes back.
//
// What the broker keeps for the log across restarts stands in Kafka's files in the directory above this one, and is handed
// to [Open]: the recovery point, the log start, the high watermark, and whether the shutdown was clean.
//
// # Recovery
//
// Without a clean shutdown every segment from the recovery point on is read. The log ends before the first batch that is
// cut off, whose checksum does not match, whose offsets or epoch do not follow, or before a gap between segments; what
// lies behind is removed, and indexes, snapshots and epochs are made anew. What is left is always a prefix of what was
// appended, and holds everything that was synced.
//
// A batch's checksum covers neither its base offset nor its epoch. They are checked against the neighbours and the
// checkpoint of the epochs, at recovery and on every read. So a changed byte anywhere in a log file is found, and never
// returned; the exception is a base offset that was moved within a gap that compaction left. Where a single batch and the
// checkpoint contradict each other, both stay, and who reads the batch is told. A changed byte in an index costs a longer
// search: an entry counts if the batch that it names is there. What is damaged below the recovery point, or after a clean
// shutdown before the last segment, is not cut off: reads of it fail, and those of what lies behind go on.
//
// # What it costs
//
// A follower's append of 4 KiB into each of 64 partitions takes 1.1 times what the bare writes with a CRC-32C take
// (BenchmarkFollower, medians of one run) and allocates nothing. Checking what is read takes 0.15 us per KiB, a third of
// reading it from the page cache (BenchmarkRead). A segment has three files open, four with aborted transactions.
//
// # What is not here
//
// Log cleaning: a directory that Kafka's cleaner has been at is read as it is, gaps and all, but nothing is compacted.
// Reading records: batches are opaque, but for the search by time in those that are not compressed, and for markers. Message
// formats before magic 2.
//
// [Tail] is for the log of another process, a running Kafka broker say: it reads, and never writes.
//
// # Example of use
//
//	log, err := unifiedlog.Open(ctx, unifiedlog.Config{Dir: "/data/orders-0", TopicID: id, CleanShutdown: clean, RecoveryPoint: point})
//	log.Lead(epoch)                                // or log.Follow(epoch)
//	appended, err := log.AppendAsLeader(ctx, epoch, batches)
//	leadership, err := uploader.Lead(partition, epoch, start, log)
package unifiedlog
