package unifiedlog

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
)

// The layout of a producer snapshot of version 1: version, CRC-32C of everything after it, the number of entries, entries.
const (
	snapshotVersion    = 1
	snapshotCRCStart   = 2
	snapshotCRCEnd     = 6
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
	// snapshotLimit bounds what is read of a file: 5 million producers.
	snapshotLimit = snapshotHeaderSize + 5_000_000*snapshotEntrySize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeSnapshot returns a snapshot of the producers, in the order of their ids. Kafka's order is that of a hash table,
// which is the same for ids that are small or close together, and means nothing.
func encodeSnapshot(producers map[int64]*producer) []byte {
	b := make([]byte, snapshotHeaderSize, snapshotHeaderSize+len(producers)*snapshotEntrySize)
	binary.BigEndian.PutUint16(b, snapshotVersion)
	binary.BigEndian.PutUint32(b[snapshotCRCEnd:], uint32(len(producers)))
	for _, id := range slices.Sorted(maps.Keys(producers)) {
		p := producers[id]
		last := p.last()
		b = binary.BigEndian.AppendUint64(b, uint64(id))
		b = binary.BigEndian.AppendUint16(b, uint16(p.epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(last.sequence))
		b = binary.BigEndian.AppendUint64(b, uint64(last.offset))
		b = binary.BigEndian.AppendUint32(b, uint32(last.delta))
		b = binary.BigEndian.AppendUint64(b, uint64(p.time))
		b = binary.BigEndian.AppendUint32(b, uint32(p.coordinator))
		b = binary.BigEndian.AppendUint64(b, uint64(p.txnFirst))
	}
	binary.BigEndian.PutUint32(b[snapshotCRCStart:], crc32.Checksum(b[snapshotCRCEnd:], castagnoli))
	return b
}

// decodeSnapshot reads a snapshot. The error is a [*DamageError] that names the file.
func decodeSnapshot(name string, b []byte) (map[int64]*producer, error) {
	damaged := func(reason string) (map[int64]*producer, error) {
		return nil, &DamageError{File: name, Reason: reason}
	}
	switch {
	case len(b) < snapshotHeaderSize:
		return damaged("it is shorter than a header")
	case binary.BigEndian.Uint16(b) != snapshotVersion:
		return damaged("the version is not 1")
	case binary.BigEndian.Uint32(b[snapshotCRCStart:]) != crc32.Checksum(b[snapshotCRCEnd:], castagnoli):
		return damaged("the checksum does not match")
	case int64(binary.BigEndian.Uint32(b[snapshotCRCEnd:]))*snapshotEntrySize != int64(len(b)-snapshotHeaderSize):
		return damaged("the number of entries is wrong")
	}
	producers := make(map[int64]*producer, (len(b)-snapshotHeaderSize)/snapshotEntrySize)
	for e := b[snapshotHeaderSize:]; len(e) > 0; e = e[snapshotEntrySize:] {
		id := int64(binary.BigEndian.Uint64(e))
		p := &producer{
			id:          id,
			epoch:       int16(binary.BigEndian.Uint16(e[8:])),
			time:        int64(binary.BigEndian.Uint64(e[26:])),
			coordinator: int32(binary.BigEndian.Uint32(e[34:])),
			txnFirst:    int64(binary.BigEndian.Uint64(e[38:])),
		}
		if p.txnFirst < 0 {
			p.txnFirst = -1
		}
		last := produced{
			sequence: int32(binary.BigEndian.Uint32(e[10:])),
			offset:   int64(binary.BigEndian.Uint64(e[14:])),
			delta:    int32(binary.BigEndian.Uint32(e[22:])),
			time:     p.time,
		}
		if id < 0 || producers[id] != nil || last.delta < 0 {
			return damaged("an entry is none that a broker writes")
		}
		if last.offset >= 0 {
			p.batches = append(p.batches, last)
		}
		producers[id] = p
	}
	return producers, nil
}
