package replica

import "time"

// progress says how far one replica is in one partition, and when it was last caught up (B2).
//
// Kafka keeps one sample (time, LEO) of the leader's log and overwrites it at each fetch. A follower whose bytes arrive
// on another path, later than its next fetch, never reaches that sample, and leaves the ISR under steady load (C1). So the
// sample is held until the follower has reached it; the follower then counts as caught up at the sample's time. What the
// leader sees is at most twice the true lag.
type progress struct {
	recorded bool
	epoch    int32 // the leader epoch of all below
	end      int64 // the log end offset reported
	at       time.Time

	// sample is the leader's log end offset at the time sampled, which is zero if no sample is held.
	sample  int64
	sampled time.Time

	// level says that end was the leader's log end when it was last looked at: as long as neither moves, the replica is
	// caught up at each message that it sends. moves counts what Moved told and settled is the count up to which level
	// holds; where they differ, level held until frozen and nobody has looked since.
	level          bool
	moves, settled uint64
	frozen         time.Time
}

// caughtUp returns when the replica was last known to be caught up, the zero time if never. heard is the time of its
// newest message.
func (p *progress) caughtUp(heard time.Time) time.Time {
	switch {
	case !p.level:
		return p.at
	case p.moves != p.settled:
		return later(p.at, p.frozen)
	}
	return later(p.at, heard)
}

// report records a report that came at the time heard. leaderEnd was read after that, so a sample never claims more than
// is true.
func (p *progress) report(epoch int32, end, leaderEnd int64, heard time.Time) {
	if !p.recorded || p.epoch != epoch {
		*p = progress{recorded: true, epoch: epoch, moves: p.moves, settled: p.settled}
	}
	if p.level && p.moves != p.settled {
		p.at = later(p.at, p.frozen)
	}
	if !p.sampled.IsZero() && end >= p.sample {
		p.at = later(p.at, p.sampled)
		p.sampled = time.Time{}
	}
	p.end = end
	p.level = end >= leaderEnd
	if p.level {
		// Kafka's other way stays: the leader's end itself is reached.
		p.at, p.frozen = later(p.at, heard), heard
		p.sampled = time.Time{}
		return
	}
	if p.sampled.IsZero() {
		p.sample, p.sampled = leaderEnd, heard
	}
}

// refuse notes that the replica's newest report was not taken: its later messages do not make it caught up.
func (p *progress) refuse() {
	if p.level {
		p.at, p.level = later(p.at, p.frozen), false
	}
}

// moved notes that the leader's log may have moved. heard is the time of the replica's newest message.
func (p *progress) moved(heard time.Time) {
	if p.level && p.moves == p.settled {
		p.frozen = heard
	}
	p.moves++
}

// look notes the leader's log end as it was at the time now or later, with what Moved had told up to the count moves.
func (p *progress) look(leaderEnd int64, moves uint64, now time.Time) {
	if !p.recorded {
		return
	}
	if p.end < leaderEnd {
		if p.level {
			p.at, p.level = later(p.at, p.frozen), false
		}
		if p.sampled.IsZero() {
			p.sample, p.sampled = leaderEnd, now
		}
	}
	p.settled = max(p.settled, moves)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
