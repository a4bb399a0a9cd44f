package follower

import "time"

// progress compares the log's end with what the leader is known to have (F6). Times are of package time, for durations
// only.
type progress struct {
	end      int64 // the log's end when it was last read
	observed int64 // the greatest log end offset of the leader told so far, -1 if none
	// observedAt is when observed was first told.
	observedAt time.Time

	// ahead is when the leader was first seen ahead of end, at the earliest when the log's end came there; zero while it
	// is not ahead. The end stands still while this stands still.
	ahead time.Time

	// samples are log end offsets of the leader that the log has not reached, oldest first, with the time when each was
	// first told. They lie spacing apart at least, so the first one tells how far behind the log is (F5), late by spacing at
	// most.
	samples [samplesKept]sample
	kept    int
	spacing time.Duration
}

type sample struct {
	end int64
	at  time.Time
}

// samplesKept times spacing is TooFarBehind: before the samples are full, the first is too old.
const samplesKept = 8

// observe notes the leader's log end offset. In one epoch it only grows, so a lower one is an answer that was overtaken.
// It tells whether the leader has more than it had when nothing was missing, which sets a deadline or ends a wait.
func (p *progress) observe(leaderLEO int64, now time.Time) (news bool) {
	if leaderLEO <= p.observed {
		return false
	}
	news = p.ahead.IsZero()
	p.observed, p.observedAt = leaderLEO, now
	if leaderLEO <= p.end {
		return news
	}
	if p.ahead.IsZero() {
		p.ahead = now
	}
	if p.kept == 0 || p.kept < samplesKept && now.Sub(p.samples[p.kept-1].at) >= p.spacing {
		p.samples[p.kept] = sample{leaderLEO, now}
		p.kept++
	}
	return news
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
	reached := 0
	for reached < p.kept && p.samples[reached].end <= end {
		reached++
	}
	p.kept = copy(p.samples[:], p.samples[reached:p.kept])
	if p.kept == 0 && p.observed > end {
		p.samples[0], p.kept = sample{p.observed, p.observedAt}, 1
	}
}

// forgive lets what is missing count as told only now.
func (p *progress) forgive(now time.Time) {
	p.kept = 0
	if p.observed > p.end {
		p.samples[0], p.kept = sample{p.observed, now}, 1
	}
}

// missingSince returns when the oldest log end offset of the leader that the log has not reached was first told, the zero
// time if there is none.
func (p *progress) missingSince() time.Time {
	if p.kept == 0 {
		return time.Time{}
	}
	return p.samples[0].at
}
