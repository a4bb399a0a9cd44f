package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/walhop/walhop/internal/decide"
	"github.com/walhop/walhop/walstorage/segment"
)

const (
	// minShare is the least that a partition may take of a segment in one turn, in bytes. It takes at least one batch.
	minShare = 4 << 10
	// The pauses after failures of a partition's log.
	firstReadPause = 50 * time.Millisecond
	mostReadPause  = time.Second
	// mostHangPause is the longest pause after reads that had to be cancelled.
	mostHangPause = time.Minute
)

// visit gives one partition its turn: it reads its share of the open segment, or skips forward. Between enter and exit
// it alone calls the partition's log; Resign waits for exit (F7). What there is to tell is told after that.
func (a *assembler) visit(l *Leadership) {
	l.place = nowhere
	ctx, at, ok := a.enter(l)
	if !ok {
		return
	}
	v := visit{a: a, u: a.u, l: l, ctx: ctx}
	v.serve(at)
	a.exit()
	l.tellPanics()
	v.tell()
}

// enter begins a visit, unless the leadership has ended. It returns the time of the oldest Notify that this visit
// serves, none without one. The dirty flag is cleared before the log's end is read: a later Notify comes again.
func (a *assembler) enter(l *Leadership) (ctx context.Context, at time.Duration, ok bool) {
	u := a.u
	u.mu.Lock()
	defer u.mu.Unlock()
	if l.ended {
		return nil, none, false
	}
	at = none
	if l.pending {
		at, l.notified = l.notified, none
		l.pending = false
		l.dirty.Store(false)
	}
	if u.readCtx.Err() != nil {
		u.readCtx, u.cancelRead = context.WithCancel(u.ctx)
	}
	u.visiting, u.visitSince = l, u.now()
	switch {
	case u.watch == nil:
		u.watch = time.AfterFunc(u.cfg.StuckAfter, u.watchVisit)
		u.watching = true
	case !u.watching:
		u.watch.Reset(u.cfg.StuckAfter)
		u.watching = true
	}
	return u.readCtx, at, true
}

// exit ends a visit and lets Resign go on.
func (a *assembler) exit() {
	u := a.u
	u.mu.Lock()
	u.visiting = nil
	if u.visited != nil {
		close(u.visited)
		u.visited = nil
	}
	u.mu.Unlock()
}

// watchVisit runs every StuckAfter while there are visits. It cancels one that has lasted so long: a Read that hangs
// holds up every partition.
func (u *Uploader) watchVisit() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watching = false
	if u.visiting == nil || u.assembled {
		return
	}
	left := u.visitSince + u.cfg.StuckAfter - u.now()
	if left <= 0 {
		u.cancelRead()
		left = u.cfg.StuckAfter
	}
	u.watch.Reset(left)
	u.watching = true
}

// note does the first half of a visit only: it notes how far the log reaches (see mark).
func (a *assembler) note(l *Leadership) {
	_, at, ok := a.enter(l)
	if !ok {
		return
	}
	end, err := l.logEnd()
	a.u.mu.Lock()
	if err != nil {
		l.notified, l.pending = min(l.notified, at), true // its turn will tell
	} else {
		l.addMark(end, at, a.u.markGap())
	}
	a.u.mu.Unlock()
	a.exit()
	l.tellPanics()
}

// markGap is the time between two marks.
func (u *Uploader) markGap() time.Duration { return u.cfg.MaxBacklogAge / marksPerAge }

// visit is one turn of a partition, and what there is to tell of it.
type visit struct {
	a   *assembler
	u   *Uploader
	l   *Leadership
	ctx context.Context

	skipped   Skipped // Reason is empty if nothing was skipped
	failed    error   // the partition has begun to fail
	recovered bool
}

// serve marks what was notified, and then reads or skips.
func (v *visit) serve(at time.Duration) {
	l, u := v.l, v.u
	if at != none {
		end, err := l.logEnd()
		u.mu.Lock()
		if err != nil {
			l.notified, l.pending = min(l.notified, at), true
		} else {
			l.addMark(end, at, u.markGap())
		}
		u.mu.Unlock()
		if err != nil {
			v.fail(err)
			return
		}
	}
	start, err := l.logStart()
	switch {
	case err != nil:
		v.fail(err)
	case l.cursor >= l.end: // nothing to read, or, in a log that was truncated without Resign, nothing yet
		v.rest()
	case l.cursor < start: // H2, apache/pulsar#13219
		v.skip(SkipBelowLogStart)
	case v.tooOld():
		v.skip(SkipAge)
	case v.tooLarge():
		v.skip(SkipBytes)
	default:
		v.read()
	}
}

// tooOld tells whether the oldest Notify not served is older than MaxBacklogAge and the partition's patience (L11). The
// age is counted from Notify; the timestamps of records play no part (R7).
func (v *visit) tooOld() bool {
	most := v.u.cfg.MaxBacklogAge
	most += most / 4096 * time.Duration(v.l.patience)
	v.u.mu.Lock()
	defer v.u.mu.Unlock()
	oldest := v.l.oldest()
	return oldest != none && v.u.now()-oldest > most
}

// tooLarge tells whether the partition is more than MaxBacklogBytes and its patience behind (L11).
func (v *visit) tooLarge() bool {
	most := v.u.cfg.MaxBacklogBytes
	most += most / 4096 * v.l.patience
	return v.l.behind() > most
}

// read reads the partition's share into the open segment.
func (v *visit) read() {
	a, l, u := v.a, v.l, v.u
	buffer := a.builder.Buffer(1) // not nil: the segment is not full
	// L9: a share of a segment for each partition that has something to read, at least one batch, then the next one's
	// turn.
	dst := buffer[:min(len(buffer), max(minShare, u.cfg.TargetBytes/(a.ready.n+1)))]
	n, err := v.call(dst)
	short, isShort := errors.AsType[*ShortBufferError](err)
	if isShort && short.Need > len(dst) { // one batch, then, whatever its size (S3, KAFKA-9617)
		if dst = a.builder.Buffer(short.Need); dst == nil {
			if a.builder.Len() > 0 { // it is the first of the next segment
				a.cut = true
				l.place = ready
				a.ready.pushFront(l)
				return
			}
			v.skip(SkipTooLarge)
			return
		}
		if len(dst) > u.cfg.TargetBytes {
			u.mu.Lock()
			u.account(len(dst) - a.large)
			u.mu.Unlock()
			a.large = len(dst)
		}
		n, err = v.call(dst[:short.Need])
	}

	u.mu.Lock()
	ended := l.ended
	u.mu.Unlock()
	switch decide.AfterRead(ended, n, err) {
	case decide.Drop: // L4: bytes of a read that a Resign or Lead overtook are dropped
		return
	case decide.Rest: // compaction took what was between the cursor and the log's end
		v.rest()
		return
	case decide.Add:
		v.append(n)
		return
	}
	switch {
	case matches(err, ErrBelowLogStart):
		v.skip(SkipBelowLogStart)
	case matches(err, ErrInsideBatch):
		v.skip(SkipInsideBatch)
	case v.ctx.Err() != nil:
		v.fail(fmt.Errorf("leader: Read took longer than %s: %w", u.cfg.StuckAfter, err))
	default:
		v.fail(err)
	}
}

// call reads from the cursor on.
func (v *visit) call(dst []byte) (int, error) {
	v.u.mu.Lock()
	v.u.stats.Reads++
	v.u.mu.Unlock()
	return v.l.logRead(v.ctx, v.l.cursor, dst)
}

// append puts what was read into the open segment. Cursor and segment move together, on one goroutine: no offset is
// claimed twice (AutoMQ/automq#3033).
func (v *visit) append(n int) {
	a, l, u := v.a, v.l, v.u
	lead := decide.Lead{Partition: l.partition, Epoch: l.epoch, EpochStart: l.epochStart}
	first := a.builder.Len() == 0
	appended, err := a.builder.Append(lead.Run(l.cursor), n) // L4
	if appended.Bytes > 0 {
		now := u.now()
		if first {
			a.openedAt = now // the linger begins (L8)
		}
		u.mu.Lock()
		u.open.bytes = a.builder.Len()
		u.open.oldest = min(u.open.oldest, l.oldest())
		l.weigh(appended.Bytes, appended.Next-l.cursor)
		l.moveTo(appended.Next)
		v.recovered = l.failures > 0
		l.failures = 0
		u.mu.Unlock()
	}
	switch lead.AfterAdd(appended, err, l.end) {
	case decide.NewerEpoch:
		v.rest()
	case decide.OlderEpoch:
		v.reject(SkipOtherEpoch, fmt.Errorf("%w: epoch %d at or above offset %d, where epoch %d is led", ErrOtherEpoch, appended.Epoch, appended.Next, l.epoch))
	case decide.More:
		l.place = ready
		a.ready.push(l) // L9: the others' turn first
	case decide.AllRead:
	case decide.NextSegment:
		l.place = deferred
		a.deferred.push(l)
	case decide.FullSegment:
		a.cut = true
		l.place = ready
		a.ready.pushFront(l)
	case decide.TooFar:
		span, _ := errors.AsType[*segment.SpanError](err)
		v.jump(span.BaseOffset, SkipSpan)
		l.place = ready
		a.ready.push(l)
	default: // no record batches of format 2, or no whole one
		v.reject(SkipCorrupt, err)
	}
}

// rest says that there is nothing to read before the next Notify, though the log's end may be further.
func (v *visit) rest() {
	v.u.mu.Lock()
	v.l.marks = v.l.marks[:0]
	v.l.end = v.l.cursor
	v.u.mu.Unlock()
}

// skip jumps to the log's end (L11).
func (v *visit) skip(reason SkipReason) {
	if err := v.jumpToEnd(reason); err != nil {
		v.fail(err)
	}
}

// reject says that the log's bytes are not what they must be: to read them again would give the same, so the partition
// jumps to the log's end, and pauses, for what is appended there may be no better.
func (v *visit) reject(reason SkipReason, cause error) {
	_ = v.jumpToEnd(reason) // without the log's end it is tried again after the pause
	v.fail(cause)
}

func (v *visit) jumpToEnd(reason SkipReason) error {
	end, err := v.l.logEnd()
	if err == nil {
		v.jump(end, reason)
	}
	return err
}

// jump begins a new run at an offset above the cursor: the partition's slice ends before it, so that the offsets between
// are never taken for a compaction gap (S4), and followers fall back for them.
func (v *visit) jump(to int64, reason SkipReason) {
	l, u := v.l, v.u
	v.a.builder.Close(l.key)
	u.mu.Lock()
	defer u.mu.Unlock()
	if l.ended || to <= l.cursor {
		return
	}
	v.skipped = Skipped{Partition: l.partition, LeaderEpoch: l.epoch, From: l.cursor, To: to, Reason: reason}
	u.stats.Skips++
	u.stats.SkippedOffsets += to - l.cursor
	l.moveTo(to)
	l.end = max(l.end, to)
}

// fail says that the partition's log cannot be read. It is tried again after a pause, which doubles (L10). A read that
// had to be cancelled has held up every partition for StuckAfter: its pauses are at least as long, up to a minute, so that
// the others have nearly all of the time (L9).
func (v *visit) fail(err error) {
	a, l, u := v.a, v.l, v.u
	u.mu.Lock()
	u.stats.FailedReads++
	l.failures++
	if l.failures == 1 && !v.recovered {
		v.failed = err
	}
	first, most := firstReadPause, mostReadPause
	if v.ctx.Err() != nil {
		first, most = u.cfg.StuckAfter, max(u.cfg.StuckAfter, mostHangPause)
	}
	l.retryAt = u.now() + pause(l.failures, first, most)
	u.mu.Unlock()
	v.recovered = false
	l.place = paused
	a.paused = append(a.paused, l)
	a.resumeAt = min(a.resumeAt, l.retryAt)
}

// tell calls the hooks and writes the log lines, after the visit.
func (v *visit) tell() {
	l, u := v.l, v.u
	if !v.recovered && v.failed == nil && v.skipped.Reason == "" {
		return
	}
	at := slog.String("partition", l.partition.String())
	if v.recovered {
		u.cfg.Logger.Info("partition can be read again", at)
		if u.cfg.Hooks.PartitionRecovered != nil {
			u.cfg.Hooks.PartitionRecovered(l.partition, l.epoch)
		}
	}
	if v.failed != nil {
		u.cfg.Logger.Warn("partition cannot be read", at, slog.Any("err", v.failed))
		if u.cfg.Hooks.PartitionFailed != nil {
			u.cfg.Hooks.PartitionFailed(l.partition, l.epoch, v.failed)
		}
	}
	if v.skipped.Reason != "" {
		u.mu.Lock()
		first := !u.skipping
		u.skipping = true
		u.mu.Unlock()
		if first { // and once when the uploader is current again
			u.cfg.Logger.Warn("partitions skip forward, the first", at, slog.String("reason", string(v.skipped.Reason)),
				slog.Int64("from", v.skipped.From), slog.Int64("to", v.skipped.To))
		}
		if u.cfg.Hooks.Skipped != nil {
			u.cfg.Hooks.Skipped(v.skipped)
		}
	}
}
