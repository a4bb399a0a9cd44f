package retention

import (
	"time"

	"github.com/walhop/walhop/walstorage"
)

// ages tells which segments are old enough, by one reading of the clock.
type ages struct {
	retention, grace time.Duration
	// now is this broker's clock, by which ids are made; storeNow is the same moment by the store's clock, as far as
	// that can be told.
	now, storeNow time.Time
}

// newAges returns the ages at the time now, where this broker's clock is ahead of the store's by the duration given.
func newAges(cfg *Config, now time.Time, ahead time.Duration) ages {
	return ages{retention: cfg.Retention, grace: cfg.Grace, now: now, storeNow: now.Add(-ahead)}
}

// cutoff is the latest creation time in an id that is old enough.
func (a *ages) cutoff() time.Time { return a.now.Add(-a.retention - a.grace) }

// expired tells whether a segment is to be deleted.
func (a *ages) expired(info *walstorage.SegmentInfo) bool {
	limit := a.retention + a.grace
	created := info.ID.Created()
	if info.Stored.IsZero() {
		return a.now.Sub(created) >= limit
	}
	stored := a.storeNow.Sub(info.Stored) >= limit
	if a.fromTheFuture(info) {
		return stored
	}
	return stored && a.now.Sub(created) >= limit
}

// fromTheFuture tells whether an id says that the segment was created long after it had been stored (N2, R13).
func (a *ages) fromTheFuture(info *walstorage.SegmentInfo) bool {
	return !info.Stored.IsZero() && info.ID.Created().After(info.Stored.Add(a.grace))
}

// skewed tells whether the two times of a segment differ by more than the grace, either way.
func (a *ages) skewed(info *walstorage.SegmentInfo) bool {
	if info.Stored.IsZero() {
		return false
	}
	return info.ID.Created().Sub(info.Stored).Abs() > a.grace
}

// clockAhead finds out, from a list of everything, how far this broker's clock is ahead of the store's: by as much as its
// newest segment seems to have been created after it was stored. An id from the future of this very clock says nothing of
// the clock.
type clockAhead struct {
	newest walstorage.SegmentInfo
}

func (c *clockAhead) see(info *walstorage.SegmentInfo, now time.Time) {
	if info.Stored.After(c.newest.Stored) && !info.ID.Created().After(now) {
		c.newest = *info
	}
}

// by returns the difference, 0 if it is within the grace.
func (c *clockAhead) by(grace time.Duration) time.Duration {
	if c.newest.Stored.IsZero() {
		return 0
	}
	if ahead := c.newest.ID.Created().Sub(c.newest.Stored); ahead > grace {
		return ahead
	}
	return 0
}
