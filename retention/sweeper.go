package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/walhop/walhop/walstorage"
)

const (
	// deleteBatch is the number of segments in one DeleteSegments call, so that a long run can be cancelled.
	deleteBatch = 1000
	// maxPending bounds how many failed deletes are remembered. Beyond it they are found again by a full list.
	maxPending = 100_000
	// goneEvery is the time between two sweeps of the brokers that are gone: nothing new comes from them.
	goneEvery = time.Hour
)

// Sweeper deletes old segments. Its methods may be called concurrently; runs follow one another.
type Sweeper struct {
	cfg  Config
	turn chan struct{} // holds a token while a run is under way

	// What follows belongs to the run.
	own     territory
	gone    map[int32]*territory
	goneAt  time.Time // when the brokers that are gone were swept last, by this broker's clock
	ahead   time.Duration
	last    reading
	failing bool
}

// territory is what the sweeper knows of one broker id's segments.
type territory struct {
	broker int32
	// oldest is where the next list begins: everything created before it is deleted, or pending, or will be found by the
	// next full list.
	oldest time.Time
	full   time.Time // when everything was listed last, the zero time if never
	// pending are the segments whose deletion failed.
	pending []walstorage.SegmentInfo
}

// reading is one reading of the clock, and of the monotonic clock beside it.
type reading struct{ wall, monotonic time.Time }

// Result tells what a run did.
type Result struct {
	// Started is the reading of the clock that the whole run went by.
	Started time.Time
	// Full says that all segments of this broker were listed, and not only those that may have come of age.
	Full bool
	// Listed counts the segments seen, Deleted those deleted, and Bytes their sizes.
	Listed, Deleted int
	Bytes           int64
	// Pending counts the segments that are old enough and could not be deleted. The next run tries them again.
	Pending int
	// Skewed counts the listed segments whose id and whose time of storing differ by more than Grace.
	Skewed int
	// ClockAhead is how far this broker's clock was found ahead of the store's, 0 if within Grace.
	ClockAhead time.Duration
}

// New returns a sweeper that does nothing before Run or Sweep. The error is of kind walstorage.ErrInvalidArgument and names
// the field.
func New(cfg Config) (*Sweeper, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Sweeper{
		cfg:  cfg,
		turn: make(chan struct{}, 1),
		own:  territory{broker: cfg.Broker},
		gone: map[int32]*territory{},
	}, nil
}

// Run sweeps at once and then each Interval, until the context ends, whose error it returns. What fails in a run is told to
// Hooks and Logger and tried again in the next.
func (s *Sweeper) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		_, _ = s.Sweep(ctx) // Hooks and Logger have the error
		timer.Reset(s.cfg.Interval)
	}
}

// Sweep makes one run. A list or a delete that fails does not keep it from the rest; the error joins what failed.
func (s *Sweeper) Sweep(ctx context.Context) (Result, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	defer func() { <-s.turn }()
	result, err := s.sweep(ctx)
	s.report(ctx, &result, err)
	return result, err
}

func (s *Sweeper) sweep(ctx context.Context) (Result, error) {
	// One reading for the whole run (slatedb/slatedb#356).
	now := reading{wall: s.cfg.Now(), monotonic: time.Now()}
	result := Result{Started: now.wall}
	jumped := s.jumped(now)
	s.last = now
	if jumped {
		s.own.full = time.Time{}
	}
	errs := []error{s.visit(ctx, &s.own, now.wall, &result)}
	result.ClockAhead = s.ahead
	if s.cfg.Gone != nil && ctx.Err() == nil && (s.goneAt.IsZero() || jumped || now.wall.Sub(s.goneAt) >= goneEvery) {
		errs = append(errs, s.visitGone(ctx, now.wall, &result))
	}
	result.Pending = len(s.own.pending)
	for _, t := range s.gone {
		result.Pending += len(t.pending)
	}
	return result, errors.Join(errs...)
}

// jumped tells whether the wall clock has moved since the last run by more than time has passed, or back: then the
// difference to the store's clock has to be found anew, before anything is deleted by it.
func (s *Sweeper) jumped(now reading) bool {
	if s.last.wall.IsZero() {
		return false
	}
	wall := now.wall.Round(0).Sub(s.last.wall.Round(0))
	return (wall - now.monotonic.Sub(s.last.monotonic)).Abs() > s.cfg.Grace
}

// visitGone sweeps the brokers that the cluster no longer has (N2).
func (s *Sweeper) visitGone(ctx context.Context, now time.Time, result *Result) error {
	ids, err := s.askGone(ctx)
	if err != nil {
		return fmt.Errorf("retention: which brokers are gone: %w", err)
	}
	s.goneAt = now
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for id := range s.gone {
		if !slices.Contains(ids, id) {
			delete(s.gone, id) // it has come back and has a sweeper of its own
		}
	}
	var errs []error
	for _, id := range ids {
		if id == s.cfg.Broker {
			continue
		}
		if id < 0 {
			errs = append(errs, fmt.Errorf("retention: broker %d is said to be gone, an id must not be negative", id))
			continue
		}
		t := s.gone[id]
		if t == nil {
			t = &territory{broker: id}
			s.gone[id] = t
		}
		if err := s.visit(ctx, t, now, result); err != nil {
			errs = append(errs, err)
			s.goneAt = time.Time{} // again in the next run
		}
	}
	return errors.Join(errs...)
}

func (s *Sweeper) askGone(ctx context.Context) (ids []int32, err error) {
	defer contain(&err)
	return s.cfg.Gone(ctx)
}

// visit sweeps the segments of one broker id.
func (s *Sweeper) visit(ctx context.Context, t *territory, now time.Time, result *Result) error {
	full := t.full.IsZero() || now.Sub(t.full).Abs() >= s.cfg.FullEvery
	own := t == &s.own
	if own {
		result.Full = full
	}
	expired, listErr := s.list(ctx, t, now, full, result)
	if listErr != nil {
		listErr = fmt.Errorf("retention: list of broker %d: %w", t.broker, listErr)
	}
	return errors.Join(listErr, s.delete(ctx, t, expired, result))
}

// list returns the segments that are old enough, and moves on what the next list has to look at, unless it fails.
func (s *Sweeper) list(ctx context.Context, t *territory, now time.Time, full bool, result *Result) (expired []walstorage.SegmentInfo, err error) {
	defer contain(&err)
	// Before the clock has been compared with the store's, all that may be old enough is collected, on the mere word of
	// this broker's clock.
	all := newAges(&s.cfg, now, 0)
	options := walstorage.ListOptions{BrokerID: &t.broker}
	if !full {
		options.CreatedAfter = t.oldest
		options.CreatedBefore = all.cutoff().Truncate(time.Millisecond).Add(time.Millisecond)
		if !options.CreatedAfter.Before(options.CreatedBefore) {
			return nil, nil // the clock stands still, or has gone back a little
		}
	}
	oldest := all.cutoff()
	keep := func(info *walstorage.SegmentInfo) {
		if created := info.ID.Created(); created.Before(oldest) {
			oldest = created
		}
	}
	var ahead clockAhead
	for info, err := range s.cfg.Storage.ListSegments(ctx, options) {
		if err != nil {
			return nil, err
		}
		result.Listed++
		if all.skewed(&info) {
			result.Skewed++
		}
		ahead.see(&info, now)
		if all.expired(&info) {
			expired = append(expired, info)
		} else {
			keep(&info)
		}
	}
	if full && t == &s.own {
		s.setAhead(ahead.by(s.cfg.Grace))
	}
	if t == &s.own && s.ahead > 0 {
		compared := newAges(&s.cfg, now, s.ahead)
		expired = slices.DeleteFunc(expired, func(info walstorage.SegmentInfo) bool {
			if compared.expired(&info) {
				return false
			}
			keep(&info)
			return true
		})
	}
	// W10: a list has no order, and may name a segment twice.
	slices.SortFunc(expired, compareAge)
	expired = slices.CompactFunc(expired, func(a, b walstorage.SegmentInfo) bool { return a.ID == b.ID })
	t.oldest = oldest
	if full {
		t.full = now
	}
	return expired, nil
}

// compareAge orders segments by their creation, oldest first.
func compareAge(a, b walstorage.SegmentInfo) int {
	return cmp.Or(
		a.ID.Created().Compare(b.ID.Created()),
		cmp.Compare(a.ID.BrokerEpoch, b.ID.BrokerEpoch),
		slices.Compare(a.ID.UUID[:], b.ID.UUID[:]),
	)
}

// maxHalvings bounds how often in a run a set that was refused as a whole is halved. Ten find one segment in a batch.
const maxHalvings = 20

// delete deletes the segments and those that were left by earlier runs, in their order. What fails stays pending.
//
// There are stores that refuse a whole request because of one segment in it that is locked (versity/versitygw#1567). The
// same oldest segments come first in every run, so what is refused as a whole is halved, and a refusal does not keep the
// run from what follows: else one lock would keep all others from being deleted, for ever.
func (s *Sweeper) delete(ctx context.Context, t *territory, expired []walstorage.SegmentInfo, result *Result) error {
	// A full list names those that are pending once more.
	todo := append(t.pending, expired...)
	slices.SortFunc(todo, compareAge)
	todo = slices.CompactFunc(todo, func(a, b walstorage.SegmentInfo) bool { return a.ID == b.ID })
	t.pending = nil
	var errs []error
	var sets [][]walstorage.SegmentInfo
	for batch := range slices.Chunk(todo, deleteBatch) {
		sets = append(sets, batch)
	}
	ids := make([]walstorage.SegmentID, 0, min(len(todo), deleteBatch))
	for halvings := maxHalvings; len(sets) > 0; {
		set := sets[0]
		sets = sets[1:]
		ids = ids[:0]
		for i := range set {
			ids = append(ids, set[i].ID)
		}
		err := s.deleteSegments(ctx, ids)
		failed := failures(err, ids)
		whole := len(failed) == len(set)
		if whole && len(set) > 1 && halvings > 0 && refused(err) {
			halvings--
			sets = append(sets, set[:len(set)/2], set[len(set)/2:])
			continue
		}
		for i := range set {
			if failed[set[i].ID] {
				t.pending = append(t.pending, set[i])
				continue
			}
			result.Deleted++
			result.Bytes += set[i].Size
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("retention: delete of broker %d: %w", t.broker, err))
		}
		if whole && !refused(err) {
			// The store is down, or the run is cancelled: the rest would fare no better.
			for _, rest := range sets {
				t.pending = append(t.pending, rest...)
			}
			break
		}
	}
	slices.SortFunc(t.pending, compareAge)
	if len(t.pending) > maxPending {
		t.pending = t.pending[:maxPending]
		t.full = time.Time{}
	}
	return errors.Join(errs...)
}

// refused tells whether a store that works has answered, and would not: it was not down, and the run not cancelled.
func refused(err error) bool {
	var answer *walstorage.Error
	if !errors.As(err, &answer) {
		return false
	}
	for _, other := range []error{
		walstorage.ErrUnavailable, walstorage.ErrBucketNotFound, walstorage.ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// failures returns which of the segments a DeleteSegments call did not delete (W9, Opndrive/opndrive#73).
func failures(err error, ids []walstorage.SegmentID) map[walstorage.SegmentID]bool {
	if err == nil {
		return nil
	}
	failed := make(map[walstorage.SegmentID]bool)
	var partly *walstorage.DeleteError
	if errors.As(err, &partly) {
		for _, failure := range partly.Failures {
			failed[failure.ID] = true
		}
		return failed
	}
	for _, id := range ids {
		failed[id] = true
	}
	return failed
}

func (s *Sweeper) deleteSegments(ctx context.Context, ids []walstorage.SegmentID) (err error) {
	defer contain(&err)
	return s.cfg.Storage.DeleteSegments(ctx, ids...)
}

// contain makes an error of a panic in a backend (L10).
func contain(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("retention: panic in the store: %v", p)
	}
}

// setAhead notes how far this broker's clock is ahead of the store's.
func (s *Sweeper) setAhead(ahead time.Duration) {
	if (ahead > 0) != (s.ahead > 0) {
		if ahead > 0 {
			s.cfg.Logger.Warn("this broker's clock is ahead of the store's", "broker", s.cfg.Broker, "ahead", ahead)
		} else {
			s.cfg.Logger.Info("this broker's clock agrees with the store's again", "broker", s.cfg.Broker)
		}
	}
	s.ahead = ahead
}

// report tells the operator and the hook how a run ended. A run that was cancelled is no failure.
func (s *Sweeper) report(ctx context.Context, result *Result, err error) {
	if failing := err != nil; failing != s.failing && ctx.Err() == nil {
		s.failing = failing
		if failing {
			s.cfg.Logger.Warn("segments cannot be deleted", "broker", s.cfg.Broker, "pending", result.Pending, "err", err)
		} else {
			s.cfg.Logger.Info("segments are deleted again", "broker", s.cfg.Broker, "deleted", result.Deleted)
		}
	}
	if s.cfg.Hooks.RunDone != nil {
		s.cfg.Hooks.RunDone(*result, err)
	}
}
