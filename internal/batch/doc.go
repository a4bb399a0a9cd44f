// Package batch reads the headers of Kafka record batches (format version 2) in raw log bytes. It is all that walhop
// ever looks at in a batch: records stay opaque, no codec is called, and nothing is rewritten (S2).
//
// A batch is identified by its header alone (S3). The next offset is base offset + last offset delta + 1 and never
// comes from the record count, since compaction legally leaves fewer records than the span says; nothing is sized from
// the count either, so that even a negative one is harmless. A negative length, base offset or span is corrupt, the
// older formats 0 and 1 are [ErrUnsupportedMagic], and a batch that is cut off by the end of the bytes is recognised
// from what is there of its header ([ErrPartial]).
//
// The layout, big endian: base offset 0-7, length of what follows 8-11, leader epoch 12-15, magic 16, CRC-32C 17-20 of
// everything from byte 21 on, attributes 21-22, last offset delta 23-26, base timestamp 27-34, max timestamp 35-42,
// producer id 43-50, producer epoch 51-52, base sequence 53-56, record count 57-60, records from 61 on.
//
// Nothing here allocates except for errors.
package batch
