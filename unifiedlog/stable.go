package unifiedlog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/walhop/walhop/internal/batch"
)

// HighWatermark returns the high watermark. It lies between the log start and the log's end, and never falls but by a
// truncation (KAFKA-16452).
func (l *Log) HighWatermark() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.highWatermark
}

// SetHighWatermark moves the high watermark up to offset, or to the log's end if that is lower, and returns what it is
// then. A lower offset changes nothing.
func (l *Log) SetHighWatermark(offset int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset = min(offset, l.end); offset > l.highWatermark {
		l.highWatermark = offset
		l.producers.replicated(offset)
	}
	return l.highWatermark
}

// LastStableOffset returns the offset below which every transaction is decided and its marker replicated: what a reader of
// committed records may read. It is never above the high watermark.
func (l *Log) LastStableOffset() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if first := l.producers.firstUnstable(); first >= 0 && first < l.highWatermark {
		return max(first, l.start)
	}
	return l.highWatermark
}

// AbortedTransaction is a transaction that a reader of committed records has to leave out: the batches of the producer
// from First up to its marker.
type AbortedTransaction struct {
	// ProducerID is the producer's id.
	ProducerID int64
	// First is the first offset of the transaction in this partition, Last that of its marker.
	First, Last int64
}

// AbortedTransactions returns the aborted transactions that have an offset in [from, to), in the order of their markers,
// as the answer to a fetch of committed records holds them. An entry of a transaction index that the log contradicts has
// the index of that segment made anew from the log.
func (l *Log) AbortedTransactions(ctx context.Context, from, to int64) ([]AbortedTransaction, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, generation, err := l.abortedOnce(from, to)
		if l.unchanged(generation) {
			return found, err
		}
	}
}

func (l *Log) abortedOnce(from, to int64) (all []AbortedTransaction, generation uint64, err error) {
	l.mu.RLock()
	generation = l.generation
	err = l.readable(from)
	segments := l.segments
	l.mu.RUnlock()
	if err != nil {
		return nil, generation, err
	}
	for i := floor(segments, from); i < len(segments); i++ {
		entries, err := l.abortedOf(segments[i])
		if err != nil {
			return nil, generation, err
		}
		for _, a := range entries {
			if a.last >= from && a.first < to {
				all = append(all, AbortedTransaction{ProducerID: a.producer, First: a.first, Last: a.last})
			}
		}
	}
	return all, generation, nil
}

// abortedOf returns the entries of a segment's transaction index. The first time it compares them with the log: the file
// has no checksum.
func (l *Log) abortedOf(s *segment) ([]abortedTxn, error) {
	l.mu.RLock()
	e, checked := s.txns, s.checked
	l.mu.RUnlock()
	var all []abortedTxn
	for i := range e.len() {
		var b [txnEntrySize]byte
		if err := e.read(i, b[:]); err != nil {
			return nil, err
		}
		a, ok := getAbortedTxn(b[:])
		if !checked && ok {
			var err error
			if ok, err = l.aborted(a); err != nil {
				return nil, err
			}
		}
		if !ok {
			return l.abortedAnew(s)
		}
		all = append(all, a)
	}
	if !checked {
		l.mu.Lock()
		s.checked = true
		l.mu.Unlock()
	}
	return all, nil
}

// aborted tells whether the log holds the marker that an entry names, and the beginning of its transaction, unless that is
// deleted.
func (l *Log) aborted(a abortedTxn) (bool, error) {
	l.mu.RLock()
	start, end := l.start, l.end
	last := l.viewOf(floor(l.segments, a.last))
	first := l.viewOf(floor(l.segments, a.first))
	l.mu.RUnlock()
	if a.last >= end || a.stable > a.last+1 && a.stable > end {
		return false, nil
	}
	h, err := last.seek(a.last)
	if err != nil {
		return false, notFound(err)
	}
	raw := make([]byte, h.Length)
	if err := readFull(last.file, raw, h.at); err != nil {
		return false, err
	}
	marker, ok := parseMarker(&h.Header, raw)
	if !ok || marker.commit || h.ProducerID != a.producer || h.BaseOffset != a.last || batch.VerifyCRC(raw) != nil {
		return false, nil
	}
	if a.first < start {
		return true, nil
	}
	if h, err = first.seek(a.first); err != nil {
		return false, notFound(err)
	}
	return h.ProducerID == a.producer && h.BaseOffset == a.first && h.Attributes&batch.Transactional != 0, nil
}

// notFound makes nothing of an error that says only that the log has no such batch.
func notFound(err error) error {
	var damage *DamageError
	if err == io.EOF || errors.As(err, &damage) {
		return nil
	}
	return err
}

// abortedAnew makes the transaction index of a segment anew from the log.
func (l *Log) abortedAnew(s *segment) ([]abortedTxn, error) {
	l.w.Lock()
	defer l.w.Unlock()
	if err := l.writable(); err != nil {
		return nil, err
	}
	i := floor(l.segments, s.base)
	if l.segments[i] != s {
		return nil, nil // deleted meanwhile; the caller looks again
	}
	l.cfg.Logger.Warn("a transaction index is damaged and made anew", "dir", l.cfg.Dir, "file", s.txns.name)
	offsets, err := l.snapshots()
	if err != nil {
		return nil, err
	}
	r := recovery{l: l, ctx: context.Background(), snapshots: offsets}
	state, err := r.stateBefore(s.base, s.base)
	if err != nil {
		return nil, err
	}
	all, err := l.abortsIn(s, state)
	if err != nil {
		return nil, err
	}
	anew := entries{name: s.txns.name, file: s.txns.file, size: txnEntrySize}
	for _, a := range all {
		var b [txnEntrySize]byte
		anew.add(a.put(&b))
	}
	l.mu.Lock()
	s.txns, s.checked = anew, true
	l.mu.Unlock()
	if err := s.txns.trim(); err != nil {
		return nil, err
	}
	return all, l.flushIndexes(s, true)
}

// abortsIn returns the transactions that the batches of a segment abort, after those that the state has followed.
func (l *Log) abortsIn(s *segment, state *producerState) (all []abortedTxn, err error) {
	w := newWalker(s.name(), s.file, 0, s.size, true)
	for {
		h, raw, _, err := w.next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if a, ok := state.follow(&h, raw); ok {
			all = append(all, a)
		}
	}
}

// ProducerInfo is what the log knows of an idempotent or transactional producer.
type ProducerInfo struct {
	// ID and Epoch are the producer's.
	ID    int64
	Epoch int16
	// LastSequence is the sequence number of the last record of its last batch in this epoch, -1 if there is none.
	LastSequence int32
	// LastOffset is the offset of that record, -1 if there is none.
	LastOffset int64
	// LastTimestamp is the timestamp of its last batch or marker, in Unix milliseconds.
	LastTimestamp int64
	// CoordinatorEpoch is that of the coordinator that wrote the last marker, -1 if there is none.
	CoordinatorEpoch int32
	// TxnFirst is the first offset of its open transaction, -1 if it has none.
	TxnFirst int64
}

// Producers describes the producers that the log knows, in the order of their ids, as a DescribeProducers request asks.
func (l *Log) Producers() []ProducerInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := make([]ProducerInfo, 0, len(l.producers.producers))
	for p := range maps.Values(l.producers.producers) {
		last := p.last()
		all = append(all, ProducerInfo{
			ID: p.id, Epoch: p.epoch, LastSequence: last.sequence, LastOffset: last.offset, LastTimestamp: p.time,
			CoordinatorEpoch: p.coordinator, TxnFirst: p.txnFirst,
		})
	}
	slices.SortFunc(all, func(a, b ProducerInfo) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Anomalies returns how many batches were taken from the leader since the log was opened that this log would have refused
// of a producer: a gap or a repetition in its sequence, or an old epoch. None of them is an error (F8, KAFKA-6003).
func (l *Log) Anomalies() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.producers.anomalies
}

// ExpireProducers forgets the producers that have written nothing for Config.ProducerExpiration and have no open
// transaction, and returns how many. A broker calls it now and then; Kafka does every ten minutes.
func (l *Log) ExpireProducers() int {
	l.w.Lock()
	defer l.w.Unlock()
	expired := l.expired()
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.producers.producers)
	maps.DeleteFunc(l.producers.producers, func(_ int64, p *producer) bool { return expired(p) })
	return before - len(l.producers.producers)
}
