package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/walhop/walhop/follower"
	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// logID names a content of a memory.Log, bytesID a run of record batches. 0 is the empty one of each.
type (
	logID   uint16
	bytesID uint16
)

// logOp is a call that changes a log. What a and b are depends on the kind.
type logOp struct {
	kind  logOpKind
	a, b  int8
	bytes bytesID
}

type logOpKind int8

const (
	opLead             logOpKind = iota // epoch a
	opFollow                            // epoch a
	opWrite                             // epoch a, a batch of b records
	opAppendAsFollower                  // epoch a, expected offset b
	opAppendRaw
	opTruncateDiverging // epoch a, end b
	opTruncateTo        // a
	opRebuild           // from offset a on, the epochs up to there from the tier where bytes is not 0: they are those of that run
	opDelete            // below a
	opCompact           // the batch at a
	opCrash             // all from a on is lost
)

// placed is a batch in a log.
type placed struct{ epoch, base, last int8 }

// view is what a log tells of itself.
type view struct {
	start, end, lastEpoch int8
	batches               []placed
	raw                   [][]byte // of each of them
	foreign               bool     // a batch is not what the leader of its epoch wrote there
}

// from returns the batches from the one that holds the offset on, and the first of them.
func (v *view) from(offset int8) (all, first []byte) {
	for i, b := range v.batches {
		if b.last >= offset {
			if first == nil {
				first = v.raw[i]
			}
			all = append(all, v.raw[i]...)
		}
	}
	return all, first
}

// logs holds every content that a log has had, each reached by calls of the real log, and what each call on each content
// came to: a log decides by its content alone, so that a call is made once and remembered.
type logs struct {
	ops   [][]logOp // how each was reached
	views []view
	ids   map[string]logID
	done  map[loggedOp]logResult
	bytes runs
	calls int
}

type loggedOp struct {
	log logID
	op  logOp
}

type logResult struct {
	log   logID
	stale bool // follower.ErrStale
	err   string
}

func newLogs() *logs {
	l := &logs{ids: map[string]logID{}, done: map[loggedOp]logResult{}, bytes: newRuns()}
	l.enter(nil, memory.New(memory.Config{}))
	return l
}

func (l *logs) view(id logID) *view { return &l.views[id] }

// open makes a real log with the content.
func (l *logs) open(id logID) *memory.Log {
	log := memory.New(memory.Config{})
	for _, op := range l.ops[id] {
		_ = l.call(log, op)
	}
	return log
}

// do makes a call on a content and returns the content after it.
func (l *logs) do(id logID, op logOp) logResult {
	if r, ok := l.done[loggedOp{id, op}]; ok {
		return r
	}
	log := l.open(id)
	err := l.call(log, op)
	r := logResult{log: l.enter(append(l.ops[id][:len(l.ops[id]):len(l.ops[id])], op), log)}
	if err != nil {
		r.stale, r.err = errors.Is(err, follower.ErrStale), err.Error()
	}
	l.done[loggedOp{id, op}] = r
	return r
}

// enter gives the content an id.
func (l *logs) enter(ops []logOp, log *memory.Log) logID {
	key := string(snapshot(nil, log, "mu", "moved"))
	if id, ok := l.ids[key]; ok {
		return id
	}
	id := logID(len(l.views))
	if int(id) != len(l.views) {
		panic("search: too many logs")
	}
	v := view{start: int8(log.Start())}
	end, last := log.End()
	v.end, v.lastEpoch = int8(end), int8(last)
	raw := log.Bytes(0)
	v.batches = placesOf(raw)
	for scan := batch.NewScanner(raw); scan.Next(); {
		h := scan.Header()
		v.raw = append(v.raw, scan.Bytes())
		wrote := record(int8(h.LeaderEpoch), int8(h.BaseOffset), int8(h.LastOffsetDelta+1))
		v.foreign = v.foreign || !bytes.Equal(scan.Bytes(), wrote)
	}
	l.ids[key] = id
	l.ops, l.views = append(l.ops, ops), append(l.views, v)
	return id
}

func placesOf(raw []byte) (all []placed) {
	for s := batch.NewScanner(raw); s.Next(); {
		h := s.Header()
		all = append(all, placed{int8(h.LeaderEpoch), int8(h.BaseOffset), int8(h.LastOffset())})
	}
	return all
}

// call makes one call of the real log.
func (l *logs) call(log *memory.Log, op logOp) error {
	l.calls++
	ctx := context.Background()
	switch op.kind {
	case opLead:
		_, err := log.Lead(int32(op.a))
		return err
	case opFollow:
		return log.Follow(int32(op.a))
	case opWrite:
		end, _ := log.End()
		_, _, err := log.Append(ctx, int32(op.a), record(op.a, int8(end), op.b))
		return err
	case opAppendAsFollower:
		return log.AppendAsFollower(ctx, int32(op.a), int64(op.b), l.bytes.raw(op.bytes))
	case opAppendRaw:
		return log.AppendRaw(ctx, l.bytes.raw(op.bytes))
	case opTruncateDiverging:
		log.TruncateDiverging(memory.EpochEnd{Epoch: int32(op.a), End: int64(op.b)})
	case opTruncateTo:
		log.TruncateTo(int64(op.a))
	case opRebuild:
		var epochs []memory.EpochStart
		for _, p := range placesOf(l.bytes.raw(op.bytes)) {
			if len(epochs) == 0 || epochs[len(epochs)-1].Epoch != int32(p.epoch) {
				epochs = append(epochs, memory.EpochStart{Epoch: int32(p.epoch), Start: int64(p.base)})
			}
		}
		log.TruncateFullyAndStartAt(int64(op.a), epochs...)
	case opDelete:
		return log.DeleteRecords(int64(op.a))
	case opCompact:
		log.Compact(int64(op.a), int64(op.b)+1)
	case opCrash:
		log.TruncateTo(int64(op.a))
		log.Flush()
		log.Crash()
	default:
		panic("search: no such call")
	}
	return nil
}

// record returns the batch of n records that the leader of the epoch writes at an offset: no other has its bytes.
func record(epoch, offset, n int8) []byte {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf("e%d/%d/%d", epoch, offset, i)
	}
	return batchtest.Make(int64(offset), int32(epoch), values...)
}

// runs holds the runs of batches that have been read, or cut.
type runs struct {
	all [][]byte
	ids map[string]bytesID
}

func newRuns() runs { return runs{all: [][]byte{nil}, ids: map[string]bytesID{"": 0}} }

func (r *runs) raw(id bytesID) []byte { return r.all[id] }

func (r *runs) enter(raw []byte) bytesID {
	if id, ok := r.ids[string(raw)]; ok {
		return id
	}
	id := bytesID(len(r.all))
	if int(id) != len(r.all) {
		panic("search: too many runs of batches")
	}
	raw = append([]byte(nil), raw...)
	r.all, r.ids[string(raw)] = append(r.all, raw), id
	return id
}
