package sim

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// disk is one partition on the disk of one broker. It outlives the broker's process.
type disk struct {
	cluster *Cluster
	part    *Partition
	broker  int32
	who     string
	arm     *actor // writes take time

	mu  sync.Mutex // held over one operation of the log and the look at it, never over time
	log *memory.Log
	// owner is the running process. What a killed one still does is swallowed.
	owner *process
	// checkedEpoch and checkedTo say up to where the log is known to be that of the leader of an epoch.
	checkedEpoch int32
	checkedTo    int64
	// sameEpoch and sameTo say up to where the log was found equal to that of the leader of an epoch.
	sameEpoch int32
	sameTo    int64
	end       int64 // the log's end after the last operation
	lowered   bool  // the operation truncates: the end may fall
	// highWatermark is the checkpoint on disk, flushedTo the end of what survives a crash.
	highWatermark, flushedTo int64
	traffic                  Traffic
	readDouble               func(read []byte) error
	lastSlow                 time.Duration // when the true lag was last large
	behindSince              time.Time     // since when the leader has been ahead and the end has stood still, zero while it is not
}

// Traffic counts what came to followers, by the way it came.
type Traffic struct {
	// StoreBytes and StoreBatches came through the store, FetchBytes and FetchBatches by the ordinary fetch.
	StoreBytes, StoreBatches, FetchBytes, FetchBatches int64
	// Longest is the longest time that a follower stood still while its leader was ahead.
	Longest time.Duration
	// Lags are the times from a leader's append to a follower's, in the order of the appends.
	Lags []time.Duration
}

// Share returns the share of the bytes that came by the ordinary fetch, 0 if there were none.
func (t Traffic) Share() float64 {
	if t.FetchBytes == 0 {
		return 0
	}
	return float64(t.FetchBytes) / float64(t.FetchBytes+t.StoreBytes)
}

// String describes the traffic in a line.
func (t Traffic) String() string {
	return fmt.Sprintf("%d batches through the store, %d by the ordinary fetch (%.2f %% of the bytes), longest stand-still %s, lag p50 %s max %s",
		t.StoreBatches, t.FetchBatches, 100*t.Share(), t.Longest, Percentile(t.Lags, 50), Percentile(t.Lags, 100))
}

// mount is a disk as one process sees it. It implements leader.Log and follower.Log.
type mount struct {
	*disk
	process *process
	busy    atomic.Int64 // calls of walhop's under way
	writers atomic.Int64 // of those, the ones that may change the log
	resting atomic.Bool  // Stop or Resign has returned, and Follow or Lead has not been called again
}

// begin notes a call of walhop's. None begins after Stop and Resign, and there is one writer at a time (F7).
func (m *mount) begin(what string, writes bool) (done func()) {
	m.busy.Add(1)
	if writes && m.writers.Add(1) > 1 && !m.process.dead() {
		m.cluster.violate("%s: %s is called while another call may change the log", m.who, what)
	}
	if m.resting.Load() && !m.process.dead() {
		m.cluster.violate("%s: %s is called after Stop or Resign", m.who, what)
	}
	return func() {
		if writes {
			m.writers.Add(-1)
		}
		m.busy.Add(-1)
	}
}

// letGo notes that Stop or Resign has returned: no call of walhop's is under way (F7).
func (m *mount) letGo() {
	if n := m.busy.Load(); n > 0 && !m.process.dead() {
		m.cluster.violate("%s: %d calls are under way after Stop or Resign", m.who, n)
	}
	m.resting.Store(true)
}

var errKilled = fmt.Errorf("sim: the process is dead")

// do runs op on the log, unless the process is dead, and looks at what it did to the end.
func (m *mount) do(ctx context.Context, op func(log *memory.Log) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner != m.process {
		return errKilled
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := op(m.log)
	m.noteEnd()
	return err
}

// noteEnd looks where the log's end has come to, and keeps the book of how long it stands still.
func (d *disk) noteEnd() {
	end, _ := d.log.End()
	if end < d.end && !d.lowered {
		d.cluster.violate("%s: the log's end falls from %d to %d though nobody asked for a truncation", d.who, d.end, end)
	}
	d.lowered = false
	if end == d.end {
		return
	}
	if d.part.lag(d.end) > d.cluster.cfg.LagTimeMax/2-lagSlack {
		d.lastSlow = d.cluster.instants.now()
	}
	d.end = end
	if !d.behindSince.IsZero() {
		d.traffic.Longest = max(d.traffic.Longest, time.Since(d.behindSince))
		d.behindSince = time.Time{}
	}
	if d.part.leaderEnd.Load() > end {
		d.behindSince = time.Now()
	}
}

// leaderAt notes that the leader's log has grown.
func (d *disk) leaderAt(end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner == nil {
		d.behindSince = time.Time{}
	} else if end > d.end && d.behindSince.IsZero() {
		d.behindSince = time.Now()
	}
}

// Start implements leader.Log.
func (m *mount) Start() int64 { return m.log.Start() }

// End implements leader.Log and follower.Log.
func (m *mount) End() (logEndOffset int64, lastEpoch int32) { return m.log.End() }

// Read implements leader.Log.
func (m *mount) Read(ctx context.Context, offset int64, dst []byte) (n int, err error) {
	defer m.begin("Read", false)()
	m.process.enter(reading)
	defer m.process.leave(reading)
	if m.process.dead() {
		return 0, errKilled
	}
	if mean := m.cluster.cfg.ReadLatency; mean > 0 {
		op := m.arm.next()
		if err := m.arm.take(ctx, op, m.arm.chance.between(op, "read", mean/2, mean*3/2)); err != nil {
			return 0, err
		}
	}
	n, err = m.read(ctx, offset, dst)
	if double := m.double(); double != nil && err == nil && n > 0 {
		err = double(dst[:n])
	}
	return n, err
}

// read is Read for the broker's own use.
func (m *mount) read(ctx context.Context, offset int64, dst []byte) (n int, err error) {
	err = m.do(ctx, func(log *memory.Log) error {
		n, err = log.Read(ctx, offset, dst)
		return err
	})
	return n, err
}

func (d *disk) double() func(read []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.readDouble
}

// AppendAsFollower implements follower.Log: what comes from the store.
func (m *mount) AppendAsFollower(ctx context.Context, leaderEpoch int32, expectedOffset int64, batches []byte) error {
	defer m.begin("AppendAsFollower", true)()
	m.process.enter(fetched)
	defer m.process.leave(fetched)
	op, err := m.seek(ctx)
	if err != nil {
		return err
	}
	err = m.do(ctx, func(log *memory.Log) error {
		if m.cluster.cfg.Break.IgnoreExpectedOffset {
			expectedOffset, _ = log.End() // the guard taken away: Kafka's own append takes a gap for compaction
		}
		before, _ := log.End()
		if err := log.AppendAsFollower(ctx, leaderEpoch, expectedOffset, batches); err != nil {
			return err
		}
		m.appended(leaderEpoch, before, batches, true)
		return nil
	})
	if err != nil {
		return err
	}
	return m.settle(op)
}

// appendFetched appends what an ordinary fetch brought from offset on.
func (m *mount) appendFetched(ctx context.Context, leaderEpoch int32, offset int64, batches []byte) error {
	op, err := m.seek(ctx)
	if err != nil {
		return err
	}
	err = m.do(ctx, func(log *memory.Log) error {
		if first, err := batch.ParseHeader(batches); err == nil && first.BaseOffset < offset && log.Start() == offset && log.Size() == 0 {
			// A log that was emptied to start inside a batch starts at that batch, as in Kafka.
			log.TruncateFullyAndStartAt(first.BaseOffset)
			offset, m.lowered = first.BaseOffset, true
		}
		if err := log.AppendAsFollower(ctx, leaderEpoch, offset, batches); err != nil {
			return err
		}
		m.appended(leaderEpoch, offset, batches, false)
		return nil
	})
	if err != nil {
		return err
	}
	return m.settle(op)
}

// seek takes the time of an append.
func (m *mount) seek(ctx context.Context) (op uint64, err error) {
	if m.process.dead() {
		return 0, errKilled // and counts no operation: how far a dying process comes is up to the scheduler (D2)
	}
	op = m.arm.next()
	mean := m.cluster.cfg.DiskLatency
	return op, m.arm.take(ctx, op, m.arm.chance.between(op, "append", mean/2, mean*3/2))
}

// settle tells the broker that the log has moved, and lets a moment pass: what the broker does about it and what the
// caller does after its append must not share an instant (D2).
func (m *mount) settle(op uint64) error {
	m.process.moved(m.part)
	_ = m.arm.take(context.Background(), op, 1)
	return nil
}

// appended holds what a follower has appended against the truth and counts it. It is called with mu held.
func (m *mount) appended(leaderEpoch int32, from int64, batches []byte, store bool) {
	m.verify(leaderEpoch)
	to, _ := m.log.End()
	n := int64(0)
	scanner := batch.NewScanner(batches)
	for scanner.Next() {
		n++
		if at, ok := m.part.appendedAt(scanner.Header().LeaderEpoch, scanner.Header().BaseOffset); ok {
			m.traffic.Lags = append(m.traffic.Lags, time.Since(at))
		}
	}
	if store {
		m.traffic.StoreBytes += int64(len(batches))
		m.traffic.StoreBatches += n
		m.cluster.trace.add(m.who, "appends [%d,%d) from the store in epoch %d", from, to, int64(leaderEpoch))
		return
	}
	m.traffic.FetchBytes += int64(len(batches))
	m.traffic.FetchBatches += n
	m.cluster.trace.add(m.who, "appends [%d,%d) by the ordinary fetch in epoch %d", from, to, int64(leaderEpoch))
}

// verify holds the log against that of the leader of the epoch: the whole log when the epoch is new or the log was
// truncated, otherwise what is new. It is called with mu held.
func (d *disk) verify(leaderEpoch int32) {
	from := d.checkedTo
	if d.checkedEpoch != leaderEpoch {
		from = d.log.Start()
	}
	wrong, end := d.part.truth.check(leaderEpoch, from, d.log.Bytes(from))
	if wrong != "" {
		d.cluster.violate("%s: %s", d.who, wrong)
	}
	d.checkedEpoch, d.checkedTo = leaderEpoch, end
}

// differs holds the log against that of the leader of the epoch, batch by batch, where both have one below to, and returns
// a difference, "" if there is none. A log that has taken nothing in that epoch is not looked at.
func (d *disk) differs(leader *disk, epoch int32, to int64) string {
	d.mu.Lock()
	if d.checkedEpoch != epoch {
		d.mu.Unlock()
		return ""
	}
	from := d.log.Start()
	if d.sameEpoch == epoch {
		from = max(from, d.sameTo)
	}
	end, _ := d.log.End()
	to = min(to, end)
	mine := batchesIn(d.log.Bytes(from), from, to)
	d.mu.Unlock()
	leader.mu.Lock()
	start := max(from, leader.log.Start())
	theirs := batchesIn(leader.log.Bytes(start), start, to)
	leader.mu.Unlock()
	for base, raw := range mine {
		if other, ok := theirs[base]; ok && !bytes.Equal(raw, other) {
			return fmt.Sprintf("broker %d has another batch at %d than its leader %d, and the leader has committed it", d.broker, base, leader.broker)
		} else if !ok && base >= start && !d.part.truth.isCompacted(raw) {
			return fmt.Sprintf("broker %d has a batch at %d that its leader %d has not, below what that has committed", d.broker, base, leader.broker)
		}
	}
	for base, raw := range theirs {
		if _, ok := mine[base]; !ok && !d.part.truth.isCompacted(raw) {
			return fmt.Sprintf("broker %d has no batch at %d, which its leader %d has committed", d.broker, base, leader.broker)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(mine) > 0 {
		d.cluster.countMany("batch compared where it is committed", len(mine))
	}
	d.sameEpoch, d.sameTo = epoch, max(from, to)
	return ""
}

// batchesIn returns the batches that lie wholly in [from, to), by their base offsets.
func batchesIn(raw []byte, from, to int64) map[int64][]byte {
	found := map[int64][]byte{}
	scanner := batch.NewScanner(raw)
	for scanner.Next() {
		if h := scanner.Header(); h.BaseOffset >= from && h.LastOffset() < to {
			found[h.BaseOffset] = scanner.Bytes()
		}
	}
	return found
}

// truncated notes a truncation that the broker asked for; why says who did. It is called with mu held, by an op of do.
func (m *mount) truncated(why string, before int64) {
	after, _ := m.log.End()
	m.checkedEpoch, m.sameEpoch, m.lowered = -1, -1, true
	m.cluster.count("truncation")
	m.cluster.count("truncation, " + why)
	m.cluster.trace.add(m.who, "truncates from %d to %d, "+why, before, after)
}

// crash loses what was not flushed, unless the disk is another process's by now.
func (m *mount) crash() {
	d := m.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owner != m.process {
		return
	}
	before, _ := d.log.End()
	after := d.log.Crash()
	if d.cluster.cfg.Break.EpochsRepeat {
		// What a recovery finds that knows of no epoch but those of the batches that are left.
		recovered := memory.New(memory.Config{Start: d.log.Start()})
		if raw := d.log.Bytes(0); raw != nil {
			d.cluster.must(recovered.AppendRaw(context.Background(), raw))
		}
		d.log = recovered
	}
	d.owner, d.end, d.checkedEpoch, d.sameEpoch, d.behindSince = nil, after, -1, -1, time.Time{}
	d.highWatermark = min(d.highWatermark, after)
	if after < before {
		d.cluster.trace.add(d.who, "loses [%d,%d) in the crash", after, before)
	}
}

// mountFor gives the disk to a process.
func (d *disk) mountFor(p *process) *mount {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owner = p
	return &mount{disk: d, process: p}
}

var _ leader.Log = (*mount)(nil)

// lead makes the log the leader's in a new epoch.
func (m *mount) lead(epoch int32, start, logStart *int64, lastEpoch *int32) error {
	return m.do(m.process.ctx, func(log *memory.Log) (err error) {
		*logStart = log.Start()
		_, *lastEpoch = log.End()
		*start, err = log.Lead(epoch)
		m.behindSince, m.checkedEpoch = time.Time{}, -1
		return err
	})
}

// follow makes the log a follower's in the epoch.
func (m *mount) follow(epoch int32) error {
	return m.do(m.process.ctx, func(log *memory.Log) error { return log.Follow(epoch) })
}

// write appends a leader's batch and returns its offsets.
func (m *mount) write(ctx context.Context, epoch int32, raw []byte) (first, next int64, err error) {
	err = m.do(ctx, func(log *memory.Log) error {
		var last int64
		if first, last, err = log.Append(ctx, epoch, raw); err != nil {
			return err
		}
		next = last + 1
		stored := log.Bytes(first)
		header, err := batch.ParseHeader(stored)
		if err != nil {
			return err
		}
		m.part.truth.wrote(&header, stored)
		m.part.noteAppended(epoch, first)
		m.part.leaderEnd.Store(next)
		m.part.noteEnd(epoch, next)
		m.cluster.trace.add(m.who, "appends [%d,%d) as leader of epoch %d", first, next, int64(epoch))
		return nil
	})
	return first, next, err
}

// deleteRecords moves the log start.
func (m *mount) deleteRecords(ctx context.Context, start int64) {
	err := m.do(ctx, func(log *memory.Log) error {
		err := log.DeleteRecords(start)
		if err == nil {
			m.part.truth.deletes(start)
		}
		m.checkedTo = max(m.checkedTo, log.Start())
		return err
	})
	if err == nil {
		m.cluster.trace.add(m.who, "starts at %d", start)
		m.process.moved(m.part)
	}
}

// checkpoint returns the high watermark on disk.
func (d *disk) checkpoint() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.highWatermark
}

// flush makes what the log holds survive a crash, and notes the high watermark. It tells whether there was anything new.
func (m *mount) flush(highWatermark int64) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner != m.process {
		return false
	}
	highWatermark = min(highWatermark, m.end)
	news = m.flushedTo != m.end || m.highWatermark != highWatermark
	m.flushedTo, m.highWatermark = m.log.Flush(), highWatermark
	return news
}

// wipe deletes the log.
func (m *mount) wipe() {
	err := m.do(context.Background(), func(log *memory.Log) error {
		m.lowered = true
		log.TruncateFullyAndStartAt(0)
		return nil
	})
	if err == nil {
		m.cluster.trace.add(m.who, "is deleted")
	}
}
