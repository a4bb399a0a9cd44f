package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// testCase is one case: an id of package conformance, and what it does on a bucket that is in use.
type testCase struct {
	id, rule, title, means string
	// twoHandles says that the case is about a second handle and is skipped without.
	twoHandles bool
	run        func(c *checker)
}

// checker runs the cases of one check.
type checker struct {
	options Options
	handles []*handle // one, or two with Options.Other
	ledger  *ledger
	random  *rand.ChaCha8
	start   time.Time
	epoch   int64

	// useless says why no further case is run: none could say more. "" while that is not so.
	useless string

	// Of the case under way:
	parent     context.Context
	ctx        context.Context
	current    testCase
	violations []error // of the whole check
}

// Check stores some segments of its own with m, reads, lists and deletes them, and returns every violation of the
// contract that it finds: nil, or an error that joins one [*Violation] for each, in the order of the cases. A failed
// case does not keep the others from running, but for the first, A1: where it shows that the bucket is missing, that the
// store does not answer, or that something is refused that every broker does, the others could say nothing else, and are
// skipped. So they are, too, once the store has ceased to answer. Nothing is stored where deletes are refused; then creates are not tried.
//
// Whatever happens, all that the check has stored is deleted before it returns, and a list shows that it is gone; what
// could not be deleted is a violation too, of [CleanupCase]. If ctx ends early the cases not yet done are left out, and
// the error joins the cause of that. Uploads under way are not cut off then, since they could land after everything was
// deleted (rule W1): they get up to 10 s to end by themselves. With that and the deletes, the check may take up to 75 s
// after ctx has ended; on a store that answers it takes a fraction of a second.
//
// The error is of kind walstorage.ErrInvalidArgument, and nothing was sent, if an option is wrong. m is not closed. Checks
// may run at once, also on one place. The check waits for each call of m to return.
func Check(ctx context.Context, m walstorage.WalStorageManager, options Options) error {
	if m == nil {
		return invalid("the manager is nil")
	}
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	c := &checker{options: options, start: options.Now().UTC().Truncate(time.Millisecond), parent: ctx}
	c.ledger = &ledger{known: make(map[walstorage.SegmentID]bool), unclear: make(map[walstorage.SegmentID]error)}
	var seed [32]byte
	if _, err := io.ReadFull(options.Random, seed[:]); err != nil {
		return fmt.Errorf("check: reading Options.Random: %w", err)
	}
	c.random = rand.NewChaCha8(seed)
	c.epoch = max(0, c.start.UnixMilli())
	for _, created := range []time.Time{c.start.Add(-reach), c.start.Add(reach)} {
		if _, err := walstorage.NewSegmentID(options.BrokerID, c.epoch, created, c.random); err != nil {
			return invalid("Options.Now: %v", err)
		}
	}
	c.handles = []*handle{{name: "the manager", manager: m, ledger: c.ledger}}
	if options.Other != nil {
		c.handles = append(c.handles, &handle{name: "the other handle", manager: options.Other, ledger: c.ledger})
	}
	return c.check()
}

func (c *checker) check() error {
	// A panic of the caller's own functions goes on its way, but not before the bucket is clean.
	cleaned := false
	defer func() {
		if !cleaned {
			c.cleanup()
		}
	}()
	for _, tc := range cases {
		if c.parent.Err() != nil {
			break
		}
		c.runCase(tc)
	}
	cleaned = true
	c.cleanup()
	if c.parent.Err() != nil {
		c.violations = append(c.violations, fmt.Errorf("check: ended before all cases were done: %w", context.Cause(c.parent)))
	}
	return errors.Join(c.violations...)
}

func (c *checker) runCase(tc testCase) {
	result := Result{Case: tc.id, Rule: tc.rule, Title: tc.title}
	if tc.twoHandles && len(c.handles) == 1 {
		result.Skipped = "Options.Other is not given"
	} else if c.useless != "" {
		result.Skipped = c.useless
	} else {
		before := len(c.violations)
		ctx, cancel := context.WithTimeout(c.parent, caseTimeout)
		defer cancel()
		c.ctx, c.current = ctx, tc
		tc.run(c)
		result.Violations = len(c.violations) - before
		if c.useless == "" && ctx.Err() != nil && c.parent.Err() == nil && !c.answers() {
			c.useless = fmt.Sprintf("the store has ceased to answer in %s", tc.id)
		}
	}
	c.report(result)
}

// answers tells whether the store still answers, be it that there is no such segment. A case that has used up its time
// may have met a single call that hangs; where nothing answers, each further case would use up its own.
func (c *checker) answers() bool {
	ctx, cancel := context.WithTimeout(c.parent, answerTimeout)
	defer cancel()
	_, err := c.handles[0].stat(ctx, c.id(0))
	return ctx.Err() == nil && !errors.Is(err, walstorage.ErrUnavailable)
}

func (c *checker) report(result Result) {
	attrs := []any{"case", result.Case, "rule", result.Rule, "title", result.Title}
	switch {
	case result.Skipped != "":
		c.options.Logger.Info("case skipped", append(attrs, "reason", result.Skipped)...)
	case result.Violations > 0:
		c.options.Logger.Error("case failed", append(attrs, "violations", result.Violations)...)
	default:
		c.options.Logger.Info("case passed", attrs...)
	}
	c.options.Progress(result)
}

// fail records a violation of the case under way. What is seen after the caller's context has ended says nothing about
// the store and is not recorded.
func (c *checker) fail(format string, args ...any) {
	if c.parent.Err() != nil {
		return
	}
	c.violate(fmt.Errorf(format, args...))
}

func (c *checker) violate(err error) {
	tc := c.current
	c.violations = append(c.violations, &Violation{Case: tc.id, Rule: tc.rule, Title: tc.title, Means: tc.means, Err: err})
}

// cleanup deletes every segment that an upload was begun for and shows by a list that it is gone. It has a context of
// its own, so that it is done after the caller's has ended too.
func (c *checker) cleanup() {
	ids := c.ledger.ids
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.parent), cleanupTimeout)
	defer cancel()
	c.current = testCase{
		id: CleanupCase, rule: "W9", title: "everything that the check has stored can be deleted again",
		means: "Segments believed deleted stay for ever and are paid for. Those that are named here are to be deleted by hand.",
	}
	result := Result{Case: c.current.id, Rule: c.current.rule, Title: c.current.title}
	// Where the store has broken the contract, its lists are not to be believed, and each segment is asked for.
	doubt := len(c.violations) > 0
	var left map[walstorage.SegmentID]bool
	var problems reasons
	for round := range 3 {
		problems = nil
		if round == 0 {
			problems.add(c.handles[0].remove(ctx, ids...))
		} else {
			// What a bulk delete has left may go one by one, or through the other handle.
			h := c.handles[(round-1)%len(c.handles)]
			for _, id := range ids {
				if left[id] {
					problems.add(h.remove(ctx, id))
				}
			}
		}
		var lookErr error
		left, lookErr = c.left(ctx, ids, doubt)
		if n := c.unexplained(left); round == 0 && problems == nil && lookErr == nil && n > 0 {
			c.violate(fmt.Errorf("one delete of all %d segments returned nil, and %d are still there", len(ids), n))
			result.Violations++
		}
		problems.add(lookErr)
		if len(left) == 0 && lookErr == nil {
			break
		}
	}
	if unclear := c.ledger.mayLand(); len(unclear) > 0 && len(left) == 0 {
		// They could not be waited for, so this is a second look and no certainty.
		c.pause(ctx, settleTime)
		problems.add(c.handles[0].remove(ctx, unclear...))
		var lookErr error
		left, lookErr = c.left(ctx, unclear, doubt)
		problems.add(lookErr)
	}
	if len(left) > 0 {
		var names []string
		for _, id := range ids {
			if left[id] {
				names = append(names, relativeKey(id))
			}
		}
		if problems == nil {
			problems.add(errors.New("the deletes returned nil"))
		}
		c.violate(fmt.Errorf("%d of %d segments are, or may be, left: %w; below <prefix>/<cluster>/ they are: %s",
			len(left), len(ids), problems.join(), strings.Join(names, ", ")))
		result.Violations++
	}
	for _, id := range ids {
		if err := c.ledger.unclear[id]; err != nil {
			c.options.Logger.Warn("an upload failed in a way that lets it still land; look for this segment later", "segment", id.String(), "key", "<prefix>/<cluster>/"+relativeKey(id), "error", err)
		}
	}
	c.report(result)
}

// unexplained counts the segments left that no upload can have brought back: one that failed without a word of the store's
// may land after the delete (W1).
func (c *checker) unexplained(left map[walstorage.SegmentID]bool) (n int) {
	for id := range left {
		if c.ledger.unclear[id] == nil {
			n++
		}
	}
	return n
}

// pause waits, unless ctx ends before.
func (c *checker) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// left tells which segments are still there, as far as lists and, in doubt, stats show. Where that cannot be told the
// segments count as left.
func (c *checker) left(ctx context.Context, ids []walstorage.SegmentID, doubt bool) (map[walstorage.SegmentID]bool, error) {
	left := make(map[walstorage.SegmentID]bool)
	var problems error
	for _, h := range c.handles {
		found, err := h.list(ctx, c.within(-reach, reach))
		if err != nil {
			problems, doubt = errors.Join(problems, err), true
		}
		for _, id := range ids {
			if _, ok := found[id]; ok {
				left[id] = true
			}
		}
	}
	if !doubt {
		return left, nil
	}
	listed := problems == nil
	for _, id := range ids {
		_, err := c.handles[0].stat(ctx, id)
		switch {
		case err == nil:
			left[id] = true
		case errors.Is(err, walstorage.ErrSegmentNotFound):
		case !listed:
			left[id] = true
			problems = errors.Join(problems, err)
		}
	}
	if len(left) == 0 {
		problems = nil // every segment was asked for
	}
	return left, problems
}
