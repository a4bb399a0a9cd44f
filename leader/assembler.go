package leader

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

const (
	// passes is how many times within a linger the partitions that became dirty are looked at. What was notified waits in
	// the log meanwhile, so that a busy broker does not pay for each Notify with a read of its own.
	passes = 4
	// marksPerAge is how many marks a partition's backlog has until it is MaxBacklogAge old: the precision of its age.
	marksPerAge = 16
	// settling is how much later than it happened a thing is acted on. It costs nothing in real time; under virtual time
	// it puts everything that happens in one instant before the reaction to it, in whatever order it happened (D2).
	settling = time.Nanosecond
)

// assembler is the one goroutine that reads logs and fills segments. Each round of its loop does one thing: it visits
// one partition, or seals the open segment, or sleeps.
type assembler struct {
	u       *Uploader
	builder *segment.Builder
	timer   *time.Timer

	// ready are the partitions with something to read, which take turns (L9); deferred those whose slice in the open
	// segment is closed; paused those whose log failed.
	ready, deferred line
	paused          []*Leadership
	resumeAt        time.Duration // the first retryAt of those, none without one
	taken           []dirtied     // scratch

	cut      bool          // the next batch does not fit into the open segment
	openedAt time.Duration // when the first byte of the open segment was read
	large    int           // bytes of the staging buffer of a batch larger than TargetBytes
	tookAt   time.Duration // when u.dirty was last taken
	markedAt time.Duration // when marks were last made while all slots were taken
}

func newAssembler(u *Uploader) (*assembler, error) {
	builder, err := segment.NewBuilder(segment.BuilderConfig{
		Cluster: u.cfg.Cluster, TargetBytes: u.cfg.TargetBytes, MaxBytes: u.cfg.MaxBytes,
		MaxSlices: u.cfg.MaxSlices, MaxEventBytes: u.cfg.MaxEventBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("leader: %w", err)
	}
	u.account(u.cfg.TargetBytes) // the builder's staging buffer
	a := &assembler{u: u, builder: builder, timer: time.NewTimer(time.Hour), resumeAt: none}
	a.timer.Stop()
	return a, nil
}

// run is the loop. What wakes it decides nothing: after waking, it looks at everything in a fixed order (D2).
func (a *assembler) run() {
	u := a.u
	defer u.leave()
	defer a.end()
	for {
		u.mu.Lock()
		for _, key := range u.closing { // before the next Append, so that no byte joins a slice of an older Lead (L4)
			a.builder.Close(key)
		}
		u.closing = u.closing[:0]
		now := u.now()
		stopping := u.stopping
		ended := u.fenced != nil || u.ctx.Err() != nil
		slot := u.inUse < u.cfg.MaxInFlightUploads
		u.mu.Unlock()

		holds := a.builder.Len() > 0
		if ended || stopping && !holds {
			return
		}
		full := a.cut || a.builder.Full()
		late := holds && now >= a.openedAt+u.cfg.Linger
		// The partitions in the line are read even when it is late, which takes no time unless logs are slow: for those
		// the segment does not wait (L8).
		overdue := holds && now >= a.openedAt+2*u.cfg.Linger
		next := none
		switch {
		case full && slot:
			a.seal(SealFull)
			continue
		case stopping && slot:
			a.seal(SealFlush)
			continue
		case stopping: // until a slot is free, or Close has waited long enough
		case full:
			// Every slot is taken and the open segment is full: nothing more is read, so memory stays bounded and the
			// producers notice nothing (L1). How old what waits in the logs is, is noted all the same.
			next = a.mark(now)
		default:
			last := late && slot && a.tookAt < a.openedAt+u.cfg.Linger // one more look before the seal, not one after another
			next = min(a.resume(now), a.take(now, !holds || last))
			if a.ready.n > 0 && !(overdue && slot) {
				a.visit(a.ready.pop())
				continue
			}
			switch {
			case late && slot:
				a.seal(SealLinger)
				continue
			case a.flushed(holds) && holds && slot:
				a.seal(SealFlush)
				continue
			}
			if holds && !late {
				next = min(next, a.openedAt+u.cfg.Linger)
			}
		}
		a.sleep(now, next)
	}
}

// sleep waits for a wake-up or for the time next.
func (a *assembler) sleep(now, next time.Duration) {
	if next == none {
		<-a.u.wakeAssembler
		return
	}
	a.timer.Reset(next - now)
	select {
	case <-a.timer.C:
	case <-a.u.wakeAssembler:
		a.timer.Stop()
	}
}

// end runs when the loop is left: nothing is read any more.
func (a *assembler) end() {
	u := a.u
	a.timer.Stop()
	u.mu.Lock()
	u.assembled = true
	u.open.bytes, u.open.oldest = 0, none
	if u.watch != nil {
		u.watch.Stop()
	}
	u.mu.Unlock()
	wake(u.wakePublisher)
}

// take moves the partitions that were notified into the line of those that are ready, and returns when to look again.
// They are taken at once if there is no open segment, before it is sealed, and for a Flush; otherwise at most every
// quarter of the linger.
func (a *assembler) take(now time.Duration, atOnce bool) (next time.Duration) {
	u := a.u
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.dirty) == 0 {
		if len(u.queue) == 0 && a.builder.Len() == 0 && a.ready.n == 0 && len(a.paused) == 0 {
			u.busySince = none
		}
		return none
	}
	due := u.dirty[0].at + settling
	if !atOnce && !u.awaited(u.dirty[0].at) {
		due = max(due, a.tookAt+u.cfg.Linger/passes)
	}
	if now < due {
		return due
	}
	a.tookAt = now
	return a.enqueue(now)
}

// enqueue puts the partitions notified before now into the line of those that are ready, and returns when the next one is
// due. They go in the order in which their slices stand in a segment: it is the same in every run (D2), and a segment read
// in it is sealed where it stands, without a copy. u.mu is held.
func (a *assembler) enqueue(now time.Duration) (next time.Duration) {
	u := a.u
	n := 0
	for n < len(u.dirty) && u.dirty[n].at+settling <= now {
		n++
	}
	a.taken = append(a.taken[:0], u.dirty[:n]...)
	left := copy(u.dirty, u.dirty[n:])
	clear(u.dirty[left:])
	u.dirty = u.dirty[:left]
	slices.SortFunc(a.taken, func(x, y dirtied) int {
		return cmp.Or(x.l.key.Compare(y.l.key), cmp.Compare(x.l.order, y.l.order))
	})
	for _, d := range a.taken {
		d.l.pending = true
		if d.l.place == nowhere {
			d.l.place = ready
			a.ready.push(d.l)
		}
	}
	if len(u.dirty) == 0 {
		return none
	}
	return u.dirty[0].at + settling
}

// resume moves the paused partitions whose pause is over into the line of those that are ready, and returns when to look
// again.
func (a *assembler) resume(now time.Duration) (next time.Duration) {
	if now < a.resumeAt {
		return a.resumeAt
	}
	a.resumeAt = none
	a.paused = slices.DeleteFunc(a.paused, func(l *Leadership) bool {
		if now < l.retryAt {
			a.resumeAt = min(a.resumeAt, l.retryAt)
			return false
		}
		l.place = ready
		a.ready.push(l)
		return true
	})
	return a.resumeAt
}

// mark notes for the partitions notified since the last time how far their logs reach now, so that the age of what waits
// is known piece by piece once it can be read: if the first Notify of an outage stood for all of it, a partition that
// catches up would look as old as the outage until its very end. It returns when to do so again.
func (a *assembler) mark(now time.Duration) (next time.Duration) {
	u := a.u
	u.mu.Lock()
	if len(u.dirty) == 0 {
		u.mu.Unlock()
		return none
	}
	if due := max(u.dirty[0].at+settling, a.markedAt+u.markGap()); now < due {
		u.mu.Unlock()
		return due
	}
	a.markedAt = now
	a.enqueue(now)
	u.mu.Unlock()
	for _, d := range a.taken {
		a.note(d.l)
	}
	return now + u.markGap()
}

// flushed tells whether everything that a waiting Flush wants has been read. If there is no open segment, that is noted
// and false returned: nothing needs to be sealed for it.
func (a *assembler) flushed(holds bool) bool {
	u := a.u
	u.mu.Lock()
	defer u.mu.Unlock()
	if !holds {
		u.readFlushes()
		return false
	}
	for _, f := range u.flushes {
		if f.upTo < 0 && u.served(f.at) {
			return true
		}
	}
	return false
}

// seal closes the open segment and sends it on its way. A slot is free.
func (a *assembler) seal(reason SealReason) {
	u := a.u
	u.mu.Lock()
	f := u.takeFlight()
	u.mu.Unlock()
	// The broker epoch and the creation time are those of the sealing (L4); no sequence is taken here (L3).
	id, err := walstorage.NewSegmentID(u.cfg.Broker, u.cfg.BrokerEpoch, u.cfg.Now(), u.cfg.Random)
	object, sealed := f.object[:0], (*segment.Metadata)(nil)
	had := cap(object)
	if err == nil {
		if need := a.builder.SealedLen(); need > cap(object) { // here, so that nothing is allocated for growth
			object = make([]byte, 0, max(need, u.bufferBytes))
		}
		object, sealed, err = a.builder.Seal(id, object)
	}
	report := Sealed{ID: id, Slices: a.builder.Slices(), BodyBytes: a.builder.Len(), ObjectBytes: len(object), Reason: reason}

	u.mu.Lock()
	now := u.now()
	report.Open = now - a.openedAt
	u.account(cap(object) - had)
	f.object = object
	u.stats.Sealed++
	was := u.sealFails
	u.sealFails = err != nil
	if err != nil { // the random source or the clock is broken
		u.stats.GivenUp++
		f.returned = true
		u.release(f)
	} else {
		u.sealed++
		f.number, f.id = u.sealed, id
		f.slices, f.bodyBytes = report.Slices, report.BodyBytes
		f.sealedAt, f.oldest = now, u.open.oldest
		f.state, f.returned, f.stuck, f.settled = flightUploading, false, false, false
		f.numbered, f.handedAt, f.unsettled = false, none, false
		f.event.Sequence, f.event.ObjectSize = 0, int64(len(object))
		copyMetadata(&f.event.Segment, sealed)
		u.queue = append(u.queue, f)
		u.goroutines++
	}
	a.builder.Reset()
	u.account(-a.large)
	a.large, a.cut = 0, false
	u.open.bytes, u.open.oldest = 0, none
	u.readFlushes()
	u.mu.Unlock()

	for a.deferred.n > 0 {
		l := a.deferred.pop()
		l.place = ready
		a.ready.push(l)
	}
	switch {
	case err != nil && !was:
		u.cfg.Logger.Error("segments cannot be sealed", slog.Any("err", err))
	case err == nil && was:
		u.cfg.Logger.Info("segments can be sealed again")
	}
	if err != nil {
		u.report(GivenUp{ID: id, Sequence: -1, Err: err})
		return
	}
	if u.cfg.Hooks.SegmentSealed != nil {
		u.cfg.Hooks.SegmentSealed(report)
	}
	go u.upload(f)
	wake(u.wakePublisher) // to see when the upload will be stuck
}
