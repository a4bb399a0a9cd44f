// Package segment is the format of a segment: one immutable object that carries slices of the logs of many partitions.
//
// A [Builder] combines whole record batches into an object, a [Reader] takes one apart, [VerifySlice] and
// [VerifyObject] check what a follower has fetched, and [Metadata] is the index that stands in the object and, inside a
// metadata.Event, on the metadata topic. The object is
//
//	header, slices back to back sorted by topic id and partition, index, trailer
//
// so it explains itself: tools and repair need no metadata log. segment.proto describes the index field by field for
// other languages. Five rules hold:
//
//   - S1: the lengths in the index tile the body exactly, and each partition has one slice in it.
//   - S2: a slice is whole record batches, byte for byte as the leader's log holds them. Nothing in a batch is ever
//     rewritten or recomputed, and compressed payloads are opaque.
//   - S3: a batch is identified by its header alone. A batch larger than the target size is a segment of its own.
//   - S4: a slice belongs to one run in one leader epoch, which every batch carries; it begins at the offset at which
//     the run stood and may have compaction gaps, and it spans fewer than 2^31 offsets.
//   - S5: a decoder given any bytes returns an error or a value. It never panics and never allocates more than a small
//     multiple of its input.
package segment
