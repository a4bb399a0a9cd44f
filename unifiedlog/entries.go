package unifiedlog

import (
	"encoding/binary"
	"sort"
)

// pendingBytes is how much of an index is held back in memory before it is written: one call for 64 entries of an offset
// index. After a crash the index of the active segment is rebuilt anyway.
const pendingBytes = 512

// entries is a file of entries of one size, the last of which may still be in memory. A copy of it is a view that stays
// good while the writer appends: what is pending is never changed in place. After a truncation a view may fail to read;
// the reader then finds that the log has changed, and looks again.
type entries struct {
	name    string
	file    File // nil where there is none: then all is pending
	size    int
	written int
	pending []byte
}

// len returns the number of entries.
func (e *entries) len() int { return e.written + len(e.pending)/e.size }

// read copies entry i into dst.
func (e *entries) read(i int, dst []byte) error {
	if i >= e.written {
		copy(dst, e.pending[(i-e.written)*e.size:])
		return nil
	}
	return readFull(e.file, dst[:e.size], int64(i)*int64(e.size))
}

// add appends an entry, in memory.
func (e *entries) add(entry []byte) { e.pending = append(e.pending, entry...) }

// full tells whether what is pending is worth a write.
func (e *entries) full() bool { return len(e.pending) >= pendingBytes }

// flush writes what is pending and returns the entries after that; the file only grows.
func (e entries) flush() (entries, error) {
	if len(e.pending) == 0 || e.file == nil {
		return e, nil
	}
	if _, err := e.file.WriteAt(e.pending, int64(e.written)*int64(e.size)); err != nil {
		return e, err
	}
	e.written, e.pending = e.len(), nil
	return e, nil
}

// cut returns the first n entries. The file keeps the others until trim.
func (e entries) cut(n int) entries {
	if n >= e.written {
		n = min(n, e.len())
		e.pending = e.pending[: (n-e.written)*e.size : (n-e.written)*e.size]
		return e
	}
	e.written, e.pending = n, nil
	return e
}

// trim cuts the file to the entries that are written.
func (e *entries) trim() error {
	if e.file == nil {
		return nil
	}
	return e.file.Truncate(int64(e.written) * int64(e.size))
}

// openEntries opens a file of entries. One whose length is no multiple of the size gives a [*DamageError].
func openEntries(fsys FS, name string, size int) (entries, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return entries{}, err
	}
	length, err := file.Size()
	if err == nil && length%int64(size) != 0 {
		err = &DamageError{File: name, Position: length / int64(size) * int64(size), Reason: "the last entry is not whole"}
	}
	if err != nil {
		_ = file.Close()
		return entries{}, err
	}
	return entries{name: name, file: file, size: size, written: int(length / int64(size))}, nil
}

// createEntries makes an empty file of entries.
func createEntries(fsys FS, name string, size int) (entries, error) {
	file, err := fsys.Create(name)
	if err != nil {
		return entries{}, err
	}
	return entries{name: name, file: file, size: size}, nil
}

// search returns the first entry for which after is true, the number of entries if there is none. after is false for the
// entries up to some place and true from there on.
func (e *entries) search(entry []byte, after func() bool) (int, error) {
	var failed error
	i := sort.Search(e.len(), func(i int) bool {
		if failed != nil {
			return true
		}
		if failed = e.read(i, entry); failed != nil {
			return true
		}
		return after()
	})
	return i, failed
}

// The sizes of an entry of each index.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
	txnEntrySize    = 34
)

// offsetEntry is an entry of an offset index: a batch by its last offset, relative to the segment's base, and where it
// begins.
type offsetEntry struct {
	relative, position int32
}

func (o offsetEntry) put(b *[offsetEntrySize]byte) []byte {
	binary.BigEndian.PutUint32(b[:], uint32(o.relative))
	binary.BigEndian.PutUint32(b[4:], uint32(o.position))
	return b[:]
}

func getOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[4:]))}
}

// timeEntry is an entry of a time index: the largest timestamp so far, in Unix milliseconds, and the last offset of the
// batch that has it, relative to the segment's base.
type timeEntry struct {
	time     int64
	relative int32
}

func (t timeEntry) put(b *[timeEntrySize]byte) []byte {
	binary.BigEndian.PutUint64(b[:], uint64(t.time))
	binary.BigEndian.PutUint32(b[8:], uint32(t.relative))
	return b[:]
}

func getTimeEntry(b []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
}

// abortedTxn is an entry of a transaction index, version 0.
type abortedTxn struct {
	producer int64
	// first is the transaction's first offset in the partition, last that of its marker.
	first, last int64
	// stable is the last stable offset once the marker is there.
	stable int64
}

func (a abortedTxn) put(b *[txnEntrySize]byte) []byte {
	binary.BigEndian.PutUint16(b[:], 0)
	binary.BigEndian.PutUint64(b[2:], uint64(a.producer))
	binary.BigEndian.PutUint64(b[10:], uint64(a.first))
	binary.BigEndian.PutUint64(b[18:], uint64(a.last))
	binary.BigEndian.PutUint64(b[26:], uint64(a.stable))
	return b[:]
}

// getAbortedTxn reads an entry; one of another version, or that no writer makes, is not ok.
func getAbortedTxn(b []byte) (a abortedTxn, ok bool) {
	a = abortedTxn{
		producer: int64(binary.BigEndian.Uint64(b[2:])),
		first:    int64(binary.BigEndian.Uint64(b[10:])),
		last:     int64(binary.BigEndian.Uint64(b[18:])),
		stable:   int64(binary.BigEndian.Uint64(b[26:])),
	}
	ok = binary.BigEndian.Uint16(b) == 0 && a.producer >= 0 && a.first >= 0 && a.last > a.first && a.stable >= 0
	return a, ok
}
