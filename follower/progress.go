package follower

import "time"

// progress compares the log's end with what the leader is known to have (F6). Times are of package time, for durations
// only.
type progress struct {
	end      int64 // the log's end when it was last read
	observed int64 // the leader's log end offset as last told, -1 if never

	// ahead is when the leader was first seen ahead of end, at the earliest when the log's end came there; zero while it
	// is not ahead. The end stands still while this stands still.
	ahead time.Time
	// sample is a log end offset of the leader, held until the log has reached it, and sampled when it was seen first.
	sample  int64
	sampled time.Time
}

// observe notes the leader's log end offset. It tells whether a deadline has to be set that was not there before, or the
// leader has more than it had when nothing was missing.
func (p *progress) observe(leaderLEO int64, now time.Time) bool {
	changed := leaderLEO > p.observed && p.ahead.IsZero()
	p.observed = leaderLEO
	if leaderLEO <= p.end {
		p.ahead = time.Time{}
		return changed
	}
	if p.ahead.IsZero() {
		p.ahead = now
		changed = true
	}
	if p.sampled.IsZero() {
		p.sample, p.sampled = leaderLEO, now
	}
	return changed
}

// moved notes the log's end.
func (p *progress) moved(end int64, now time.Time) {
	if end == p.end {
		return
	}
	p.end = end
	p.ahead = time.Time{}
	if p.observed > end {
		p.ahead = now
	}
	if !p.sampled.IsZero() && end >= p.sample {
		p.sampled = time.Time{}
		if p.observed > end {
			p.sample, p.sampled = p.observed, now
		}
	}
}
