package unifiedlog

import (
	"context"
	"io"

	"github.com/walhop/walhop/internal/batch"
)

// TimeOffset is the answer to a search by time.
type TimeOffset struct {
	// Offset is the record's, Timestamp its timestamp in Unix milliseconds.
	Offset, Timestamp int64
	// LeaderEpoch is the epoch of its batch.
	LeaderEpoch int32
}

// OffsetForTime returns the first record from the log start on whose timestamp, in Unix milliseconds, is time or later,
// as a ListOffsets request asks; false if there is none. In a compressed batch records are not looked at: the answer is
// then the first offset of the batch that holds the record, with the batch's first timestamp. So is the answer for a
// batch whose records are damaged; reading it then says so.
func (l *Log) OffsetForTime(ctx context.Context, time int64) (TimeOffset, bool, error) {
	for {
		if err := ctx.Err(); err != nil {
			return TimeOffset{}, false, err
		}
		answer, ok, generation, err := l.offsetForTimeOnce(time)
		if l.unchanged(generation) {
			return answer, ok, err
		}
	}
}

func (l *Log) offsetForTimeOnce(time int64) (answer TimeOffset, ok bool, generation uint64, err error) {
	l.mu.RLock()
	generation = l.generation
	err = l.readable(l.start)
	start := l.start
	var v view
	found := false
	for i := floor(l.segments, start); i < len(l.segments) && !found; i++ {
		if found = l.segments[i].maxTime >= time; found {
			v = l.viewOf(i)
		}
	}
	l.mu.RUnlock()
	if err != nil || !found {
		return answer, false, generation, err
	}
	for _, from := range []func() (int64, error){
		func() (int64, error) { return v.beforeTime(time) },
		func() (int64, error) { return 0, nil }, // the index is damaged, or the record lies below the log start
	} {
		position, err := from()
		if err != nil {
			return answer, false, generation, err
		}
		if answer, ok, err = v.firstAtTime(position, start, time); ok || err != nil {
			return answer, ok, generation, err
		}
	}
	return l.laterForTime(v.next, time, generation)
}

// laterForTime looks on in the segments above one whose late records all lie below the log start.
func (l *Log) laterForTime(from, time int64, generation uint64) (answer TimeOffset, ok bool, _ uint64, err error) {
	l.mu.RLock()
	var views []view
	for i, s := range l.segments {
		if s.base >= from && s.maxTime >= time {
			views = append(views, l.viewOf(i))
		}
	}
	l.mu.RUnlock()
	for _, v := range views {
		if answer, ok, err = v.firstAtTime(0, v.base, time); ok || err != nil {
			break
		}
	}
	return answer, ok, generation, err
}

// beforeTime returns a place at which a batch begins, none before it having a timestamp of time or later, as near as the
// time index tells. Two neighbouring entries are compared with the batches that they name.
func (v *view) beforeTime(time int64) (int64, error) {
	var b [timeEntrySize]byte
	i, err := v.times.search(b[:], func() bool { return getTimeEntry(b[:]).time >= time })
	if err != nil || i == 0 {
		return 0, err
	}
	position := int64(0)
	for _, n := range []int{i - 1, i} {
		if n == v.times.len() {
			continue
		}
		if err := v.times.read(n, b[:]); err != nil {
			return 0, err
		}
		entry := getTimeEntry(b[:])
		offset := v.base + int64(entry.relative)
		h, err := v.seek(offset)
		if err != nil {
			return 0, notFound(err)
		}
		if h.MaxTimestamp != entry.time || h.BaseOffset > offset {
			return 0, nil
		}
		if n == i-1 {
			position = h.at
		}
	}
	return position, nil
}

// firstAtTime returns the first record at or above the offset start, in the batches from a place on, whose timestamp is
// time or later.
func (v *view) firstAtTime(position, start, time int64) (answer TimeOffset, ok bool, err error) {
	w := newWalker(v.name(), v.file, position, v.size, false)
	for {
		h, _, at, err := w.next()
		if err == io.EOF {
			return answer, false, nil
		}
		if err != nil {
			return answer, false, err
		}
		if h.MaxTimestamp < time || h.LastOffset() < start {
			continue
		}
		raw, err := w.read(at, h.Length)
		if err != nil {
			return answer, false, err
		}
		if answer, ok = recordAtTime(&h, raw, start, time); ok {
			return answer, true, nil
		}
	}
}

// recordAtTime returns the first record of a batch at or above start whose timestamp is time or later.
func recordAtTime(h *batch.Header, raw []byte, start, time int64) (answer TimeOffset, ok bool) {
	answer = TimeOffset{Offset: max(h.BaseOffset, start), Timestamp: h.BaseTimestamp, LeaderEpoch: h.LeaderEpoch}
	switch {
	case h.Attributes&batch.LogAppendTime != 0:
		answer.Timestamp = h.MaxTimestamp // of every record
		return answer, true
	case h.Attributes&batch.CodecMask != 0:
		return answer, true
	}
	for rest := raw[batch.HeaderLength:]; len(rest) > 0; {
		r, after, err := parseRecord(rest)
		if err != nil {
			return answer, true
		}
		offset, timestamp := h.BaseOffset+int64(r.offsetDelta), h.BaseTimestamp+r.timeDelta
		if offset >= start && timestamp >= time {
			return TimeOffset{Offset: offset, Timestamp: timestamp, LeaderEpoch: h.LeaderEpoch}, true
		}
		rest = after
	}
	return answer, false
}

// LatestTime returns the largest timestamp of the log and the last offset of the first batch that has it; both are -1 in
// a log without timestamps.
func (l *Log) LatestTime() (timestamp, offset int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	timestamp, offset = -1, -1
	for _, s := range l.segments {
		if s.maxTime > timestamp {
			timestamp, offset = s.maxTime, s.maxTimeOffset
		}
	}
	return timestamp, offset
}
