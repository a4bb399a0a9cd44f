// Package kafkalog is the metadata log as a topic of its own on a Kafka cluster (M6): one record for each segment, keyed by
// the broker that published it (M2). The client is github.com/twmb/franz-go.
//
// # Topic
//
// [Open] creates the topic if it is missing and verifies it if it is there: cleanup.policy=delete, a retention no shorter
// than that of the segments, a message limit above the largest event, at least Config.Partitions partitions. What does not
// fit is an error or a warning that says what to change. The records of a broker go to the partition broker id modulo
// Config.Partitions, so they stay where they are when partitions are added; Config.Partitions has to be the same on every
// broker and is never changed while the topic lives. Records are stamped by the cluster's own clock
// (message.timestamp.type=LogAppendTime), so that no broker's clock can hide an event from a [metadata.Position] or from
// the retention.
//
// # Publishing
//
// The events of one call of Publish leave together as one record batch, idempotent and with acks=all, as soon as Publish
// is called; there is no linger. A batch is stored whole or not at all, so what is stored is a prefix; a call whose events
// exceed the topic's message limit takes several batches, one after the other. Publish returns on the broker's answer. A
// lost answer is asked for again within the same call with the same sequence numbers, so that the broker knows the batch.
// When the call ends before there is an answer, the outcome is [metadata.ErrUnknownOutcome], and the next call begins a new
// producer epoch: whatever of the old one is still on its way is refused by the partition from then on.
//
// franz-go's own producer is not used: a batch of its can't be bound to one call, nor can its producer id be chosen, and
// what became of a record whose context ended can't be told. The requests go through its connections.
//
// # Fencing
//
// A writer looks at the end of its partition before it writes first, and again before a write whenever a second has passed
// (L6). If there is a record of its broker id and of a greater broker epoch it stops for good with [metadata.ErrFenced]. If
// there is one of a smaller epoch, the writer takes over the producer id of that one with the next producer epoch: from its
// first batch on the partition itself refuses what the older writer sends, without a transaction coordinator. That batch is
// read back once, since the other writer may have begun the same producer epoch at the same time. The writer that is refused
// looks, finds the newer epoch, and stops. Two writers that both look before either has written are not told apart by the
// partition but by the next look.
//
// # Reading
//
// A subscription assigns all partitions to itself, at offsets that Subscribe has asked for before it returns; there is no
// group. It fetches with a long poll that the broker answers as soon as anything is committed. Every offset is accounted
// for: where offsets are missing, since retention passed them by or the log was cut, the brokers of that partition get a
// [metadata.Gap], and a broker that is met for the first time after that begins with one (M3). A record or a whole batch
// that cannot be read is a gap and is passed over (M4). Added partitions are read from their first record, and a topic that
// was deleted and created again from its beginning, after a gap for each broker.
//
// # Permissions
//
// With ACLs a broker needs READ, WRITE, DESCRIBE and DESCRIBE_CONFIGS on the topic, and CREATE on it if it is to create it.
package kafkalog
