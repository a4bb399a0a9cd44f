package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/walhop/walhop/replica"
	"github.com/walhop/walhop/unifiedlog/memory"
	"github.com/walhop/walhop/walstorage/segment"
)

// buildReports makes both ends of the fetch that carries offsets and no bytes.
func (p *process) buildReports() {
	c := p.cluster
	tracking := replica.TrackerConfig{Partitions: (*leadOf)(p), Recorded: p.recorded}
	if c.cfg.Tracker != nil {
		c.cfg.Tracker(p.id, &tracking)
	}
	var err error
	p.tracker, err = replica.NewTracker(tracking)
	c.must(err)
	reporting := replica.ReporterConfig{
		Replica: p.id, BrokerEpoch: p.epoch, Send: p.send, Answered: p.answered, Seed: c.cfg.Seed + uint64(p.id),
		Linger: grid + aside,
	}
	if c.cfg.Reporter != nil {
		c.cfg.Reporter(p.id, &reporting)
	}
	p.reporter, err = replica.NewReporter(reporting)
	c.must(err)
}

func (p *process) startReporting(r *role) {
	p.reporter.Add(r.part.TopicIDPartition, r.leader, r.following, r.log)
}

func (p *process) stopReporting(r *role) { p.reporter.Remove(r.part.TopicIDPartition) }

func (p *process) reportMoved(r *role) { p.reporter.Moved(r.part.TopicIDPartition) }

func (p *process) endReports() {
	p.tracker.Close()
	p.reporter.Close()
}

// send is the transport of the reports: a connection of their own, on which a newer message does not wait for the answer
// to an older one (B1).
func (p *process) send(ctx context.Context, leaderID int32, r replica.Reports) ([]replica.Answer, error) {
	if p.dead() {
		return nil, errKilled
	}
	p.enter(reporting)
	defer p.leave(reporting)
	if p.zombie.Load() {
		return nil, p.callInVain(ctx, fmt.Sprint("report ", leaderID))
	}
	network := p.cluster.network
	for _, part := range r.Parts {
		p.cluster.trace.add(p.who, "report %d: "+part.Partition.Topic+" wanting %d knowing %d, end %d", int64(r.Counter), int64(map[bool]int{true: 1}[part.Wanting]), part.Known.LogEndOffset, part.LogEndOffset)
	}
	if err := network.travel(ctx, link{p.id, leaderID, "report", -1}, r.Counter); err != nil {
		return nil, err
	}
	leading := p.cluster.process(leaderID)
	if leading == nil {
		return nil, errUnreachable
	}
	p.cluster.count("reports")
	if leading.hears(p.id, p.epoch, r.Counter) {
		p.cluster.count("report overtaken")
	}
	if p.cluster.cfg.Break.AnswersPark {
		for i := range r.Parts {
			r.Parts[i].Wanting = false
		}
	}
	// The call ends when either of the two dies.
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(leading.ctx, cancel)()
	answers, err := leading.tracker.Handle(both, r)
	if leading.dead() {
		answers, err = nil, errUnreachable
	}
	if lost := network.travel(ctx, link{leaderID, p.id, "answer", -1}, r.Counter); lost != nil {
		return nil, lost
	}
	return answers, err
}

// hears notes a message of a follower, and tells whether a newer one has come before it.
func (p *process) hears(replica int32, brokerEpoch int64, counter uint64) (overtaken bool) {
	number := uint64(brokerEpoch)<<32 | counter
	p.mu.Lock()
	defer p.mu.Unlock()
	if number < p.newest[replica] {
		return number>>32 == p.newest[replica]>>32
	}
	p.newest[replica] = number
	return false
}

// answered takes what a leader says of the high watermark and the log start.
func (p *process) answered(_ int32, a replica.Answer) {
	r := p.role(a.Partition.Key())
	if r == nil || a.Err != nil || a.Diverging != nil {
		return
	}
	p.mu.Lock()
	current := r.epoch == a.LeaderEpoch
	p.mu.Unlock()
	if current {
		p.learn(r, a.HighWatermark, a.LogStart)
	}
}

// recorded is called when a report has been taken.
func (p *process) recorded(partition segment.TopicIDPartition, of int32) {
	r := p.role(partition.Key())
	if r == nil || p.dead() {
		return
	}
	if p.cluster.cfg.Break.OverwrittenSample {
		p.noteKafkaSample(r, of)
	}
	p.advance(r)
}

// leadOf is a process as the tracker sees it.
type leadOf process

// Check implements replica.Partitions: every check of an ordinary fetch (B3).
func (l *leadOf) Check(replicaID int32, brokerEpoch int64, report replica.Report) (replica.Answer, error) {
	p := (*process)(l)
	r, diverging, err := p.check(report.Partition.Key(), replicaID, brokerEpoch, report.LeaderEpoch, report.LogEndOffset, report.LastEpoch)
	if err != nil {
		return replica.Answer{}, refusal(err)
	}
	answer := replica.Answer{LeaderEpoch: report.LeaderEpoch, HighWatermark: p.highWatermark(r), LogStart: r.log.Start()}
	answer.LeaderLEO, _ = r.log.End()
	if diverging != nil {
		answer.Diverging = &replica.Diverging{Epoch: diverging.Epoch, EndOffset: diverging.End}
	}
	return answer, nil
}

// refusal gives a refusal the name that the follower's end knows.
func refusal(err error) error {
	for _, known := range []struct{ from, to error }{
		{errNotLeader, replica.ErrNotLeader},
		{errFencedEpoch, replica.ErrOldLeaderEpoch},
		{errUnknownEpoch, replica.ErrUnknownLeaderEpoch},
		{errNotReplica, replica.ErrNotReplica},
		{errStaleBroker, replica.ErrOldBrokerEpoch},
		{memory.ErrOutOfRange, replica.ErrOutOfRange},
	} {
		if errors.Is(err, known.from) {
			return known.to
		}
	}
	return err
}
