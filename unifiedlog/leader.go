package unifiedlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/walhop/walhop/internal/batch"
)

// Appended is what became of a leader's append.
type Appended struct {
	// First and Last are the offsets of the first and the last record, -1 with an error.
	First, Last int64
	// Duplicate says that the producer had sent these batches before: nothing was appended, and the offsets are those
	// that they got then.
	Duplicate bool
	// LogAppendTime is the timestamp that the broker gave the batches, in Unix milliseconds, -1 if it gave none.
	LogAppendTime int64
}

// AppendAsLeader appends whole record batches of a producer as the leader of the epoch: it gives each the next offsets and
// the epoch, and, with Config.LogAppendTime, the time; it changes nothing else. batches is neither changed nor kept.
//
// An epoch newer than every epoch led or followed is led first, as by [Log.Lead]; an older one, or one that another
// broker leads, gives [ErrNotLeader]. Bytes that are no whole batches with right CRCs, batches that Kafka's leader
// refuses ([ErrInvalidRecord], [ErrInvalidTimestamp], [ErrTooLarge]), and those of an idempotent producer that do not
// continue its sequence ([ErrOutOfOrderSequence], [ErrProducerFenced], [ErrInvalidTxnState]) give a [*BatchError] and
// nothing is appended. A batch that is one of the last five of its producer is a duplicate and no error; then all the
// batches have to be. With an error both offsets are -1, so that none can pass for one that was given (Jepsen on
// Bufstream 0.1.0).
//
// Records are not looked at: no codec is called, keys are not missed in a compacted topic, and of the timestamps only
// those in the header are checked, the first and the largest.
func (l *Log) AppendAsLeader(ctx context.Context, epoch int32, batches []byte) (Appended, error) {
	return l.appendAsLeader(ctx, epoch, batches, false)
}

// AppendMarkers is AppendAsLeader for what a transaction coordinator writes: control batches that end transactions. A
// marker of an older producer epoch gives [ErrProducerFenced], one of an older coordinator [ErrCoordinatorFenced].
func (l *Log) AppendMarkers(ctx context.Context, epoch int32, batches []byte) (Appended, error) {
	return l.appendAsLeader(ctx, epoch, batches, true)
}

func (l *Log) appendAsLeader(ctx context.Context, epoch int32, batches []byte, markers bool) (Appended, error) {
	none := Appended{First: -1, Last: -1, LogAppendTime: -1}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if len(batches) == 0 {
		return none, fmt.Errorf("%w: no batches", ErrCorrupt)
	}
	if err := verify(batches); err != nil {
		return none, err
	}
	if err := l.acceptable(batches, markers); err != nil {
		return none, err
	}
	appended, moved, err := l.lockedAppend(epoch, batches, markers)
	l.moved(moved)
	if err == nil {
		err = l.flushIfDue()
	}
	if err != nil {
		return none, err
	}
	return appended, nil
}

// lockedAppend is what AppendAsLeader does under the writer's lock.
func (l *Log) lockedAppend(epoch int32, batches []byte, markers bool) (appended Appended, moved bool, err error) {
	l.w.Lock()
	defer l.w.Unlock()
	if err := l.writable(); err != nil {
		return appended, false, err
	}
	if l.role != leading || l.epoch != epoch {
		if _, err := l.lead(epoch); err != nil {
			if errors.Is(err, ErrEpochUsed) {
				err = fmt.Errorf("%w: epoch %d: %w", ErrNotLeader, epoch, err)
			}
			return appended, false, err
		}
	}
	if appended, err = l.sequence(batches, markers); err != nil || appended.Duplicate {
		return appended, false, err
	}
	if appended, err = l.number(batches, epoch); err != nil {
		return appended, false, err
	}
	before := l.end
	err = l.write(l.scratch)
	return appended, l.end != before, err
}

// number copies the batches into scratch and gives them offsets, epoch and time.
func (l *Log) number(batches []byte, epoch int32) (Appended, error) {
	l.scratch = append(l.scratch[:0], batches...)
	appended := Appended{First: l.end, Last: l.end - 1, LogAppendTime: -1}
	if l.cfg.LogAppendTime {
		appended.LogAppendTime = l.cfg.Now().UnixMilli()
	}
	scanner := batch.NewScanner(l.scratch)
	for scanner.Next() {
		h, raw := scanner.Header(), scanner.Bytes()
		base := appended.Last + 1
		if base > math.MaxInt64-1-int64(h.LastOffsetDelta) {
			return Appended{}, &BatchError{
				Position: scanner.Position(), BaseOffset: h.BaseOffset, Kind: ErrOutOfOrder, Cause: errors.New("no offsets are left"),
			}
		}
		batch.Assign(raw, base, epoch)
		appended.Last = base + int64(h.LastOffsetDelta)
		if l.cfg.LogAppendTime {
			binary.BigEndian.PutUint16(raw[21:], uint16(h.Attributes)|batch.LogAppendTime)
			binary.BigEndian.PutUint64(raw[35:], uint64(appended.LogAppendTime))
			batch.SetCRC(raw)
		}
	}
	return appended, nil
}

// acceptable tells whether a leader takes the batches, by what it is configured to and by their headers.
func (l *Log) acceptable(batches []byte, markers bool) error {
	now := int64(0)
	if !l.cfg.LogAppendTime {
		now = l.cfg.Now().UnixMilli()
	}
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		h := scanner.Header()
		kind, cause := l.refuses(h, now, markers)
		if kind != nil {
			return &BatchError{Position: scanner.Position(), BaseOffset: h.BaseOffset, Kind: kind, Cause: cause}
		}
	}
	return nil
}

func (l *Log) refuses(h *batch.Header, now int64, markers bool) (kind, cause error) {
	if markers {
		if h.Attributes&batch.Control == 0 || h.ProducerID < 0 {
			return ErrInvalidRecord, errors.New("it is no control batch of a producer")
		}
		return nil, nil
	}
	switch {
	case h.Length > l.cfg.MaxBatchBytes:
		return ErrTooLarge, fmt.Errorf("%d bytes, at most %d are taken", h.Length, l.cfg.MaxBatchBytes)
	case h.Records < 1 || int64(h.Records) != int64(h.LastOffsetDelta)+1:
		return ErrInvalidRecord, fmt.Errorf("%d records with a last offset delta of %d", h.Records, h.LastOffsetDelta)
	case h.Attributes&batch.Control != 0:
		return ErrInvalidRecord, errors.New("clients write no control batches")
	case h.ProducerID >= 0 && (h.BaseSequence < 0 || h.ProducerEpoch < 0):
		return ErrInvalidRecord, fmt.Errorf("producer %d with epoch %d and sequence %d", h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	case h.ProducerID < 0 && h.Attributes&batch.Transactional != 0:
		return ErrInvalidRecord, errors.New("a transaction without a producer id")
	}
	if l.cfg.LogAppendTime {
		return nil, nil
	}
	if h.Attributes&batch.LogAppendTime != 0 {
		return ErrInvalidTimestamp, errors.New("producers do not set the broker's timestamp type")
	}
	for _, t := range []int64{h.BaseTimestamp, h.MaxTimestamp} {
		if t >= 0 && (now-t > l.cfg.TimestampBefore.Milliseconds() || t-now > l.cfg.TimestampAfter.Milliseconds()) {
			return ErrInvalidTimestamp, fmt.Errorf("%d at %d, at most %v before and %v after are taken", t, now, l.cfg.TimestampBefore, l.cfg.TimestampAfter)
		}
	}
	return nil, nil
}

// sequence checks the batches against what their producers have written, and finds duplicates.
func (l *Log) sequence(batches []byte, markers bool) (Appended, error) {
	known := map[int64]*producer(nil) // what each producer will have written after the batches before
	first, last := int64(-1), int64(-1)
	duplicates, total := 0, 0
	time := int64(-1)
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		h := scanner.Header()
		total++
		if h.ProducerID < 0 {
			continue
		}
		// Most appends are of one batch, for which nothing has to be tried out.
		alone := total == 1 && scanner.End() == len(batches)
		p := known[h.ProducerID]
		if p == nil {
			if p = l.producers.producers[h.ProducerID]; p == nil {
				p = newProducer(h.ProducerID)
			} else if !alone {
				p = p.clone()
			}
			if known == nil && !alone {
				known = map[int64]*producer{}
			}
			if !alone {
				known[h.ProducerID] = p
			}
		}
		var err error
		if markers {
			err = p.refusesMarker(h, scanner.Bytes())
		} else if was, ok := p.duplicate(h); ok {
			duplicates++
			if first < 0 {
				first = was.offset - int64(was.delta)
			}
			last = was.offset
			if l.cfg.LogAppendTime {
				time = was.time
			}
			continue
		} else {
			err = p.refuses(h)
		}
		if err != nil {
			return Appended{}, &BatchError{Position: scanner.Position(), BaseOffset: h.BaseOffset, Kind: err, Cause: fmt.Errorf("producer %d", h.ProducerID)}
		}
		if !alone {
			s := producerState{producers: known}
			s.follow(h, scanner.Bytes())
		}
	}
	if duplicates == 0 {
		return Appended{}, nil
	}
	if duplicates < total {
		return Appended{}, &BatchError{Kind: ErrOutOfOrderSequence, BaseOffset: -1, Cause: errors.New("some of the batches are duplicates")}
	}
	return Appended{First: first, Last: last, Duplicate: true, LogAppendTime: time}, nil
}
