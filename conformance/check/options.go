package check

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/walhop/walhop/walstorage"
)

const (
	// DefaultBrokerID is the broker that the check pretends to be if Options name none: the largest id there is. Real
	// ids are small, counted from 0 or given out from 1,001 on, so no leader writes here and no sweeper deletes here,
	// and all that the check stores lies below one prefix of the cluster, ".../2147483647/". It also makes the longest
	// keys.
	DefaultBrokerID int32 = math.MaxInt32
	// DefaultSize is the size of the largest segment stored, in bytes: above the quarter of a MiB that a leader aims at.
	DefaultSize = 300 << 10
	// minSize keeps the largest segment larger than the others.
	minSize = 8 << 10

	// caseTimeout bounds one case, and the removal of everything at the end.
	caseTimeout    = time.Minute
	cleanupTimeout = time.Minute
	// reachTimeout bounds the first case, and answerTimeout a look whether the store still answers.
	reachTimeout  = 20 * time.Second
	answerTimeout = 5 * time.Second
	// finishTime is how long an upload may go on after the caller's context has ended, and settleTime how long the check
	// waits for one that failed without a word of the store's before it looks again: far more than a store takes for a
	// request that it has received.
	finishTime = 10 * time.Second
	settleTime = 5 * time.Second
	// reach is how far the creation times of the check's segments lie from its start at most.
	reach = 2 * time.Hour
)

// Options say how to check. The zero value is right for most.
type Options struct {
	// BrokerID is the broker id of the segments that the check stores. 0 means DefaultBrokerID: broker 0 is likely to
	// be a real one. No broker of the cluster may have this id. Negative is an error.
	BrokerID int32
	// Other is a second handle on the same place: a manager of its own, from the same configuration, best of another
	// process's making. It shows what a cache in front of the store would hide. nil skips the cases B4 and C3 and looks
	// through one handle in the others.
	Other walstorage.WalStorageManager
	// Size is the size of the largest segment stored, in bytes. 0 means DefaultSize; the least is 8 KiB.
	Size int
	// Now tells the time, of which the ids are made. nil means time.Now. It is called once.
	Now func() time.Time
	// Random gives the bits that make the ids and contents of one check different from those of any other. nil means
	// crypto/rand.Reader. 32 bytes are read, once.
	Random io.Reader
	// Logger is told of each case that ends. nil discards.
	Logger *slog.Logger
	// Progress is called after each case, on the goroutine of Check. nil is none.
	Progress func(Result)
}

// Result is how one case ended.
type Result struct {
	// Case, Rule and Title are those of [Violation].
	Case, Rule, Title string
	// Skipped is the reason why the case did not run, "" if it did.
	Skipped string
	// Violations is the number of violations found, 0 if the case passed.
	Violations int
}

// withDefaults checks the options and fills in the defaults. The error is of kind walstorage.ErrInvalidArgument and
// names the field.
func (o Options) withDefaults() (Options, error) {
	if o.BrokerID < 0 {
		return o, invalid("Options.BrokerID %d is negative", o.BrokerID)
	}
	if o.BrokerID == 0 {
		o.BrokerID = DefaultBrokerID
	}
	if o.Size == 0 {
		o.Size = DefaultSize
	}
	if o.Size < minSize {
		return o, invalid("Options.Size %d is less than %d", o.Size, minSize)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(Result) {}
	}
	return o, nil
}

func invalid(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, errors.New("check: "+fmt.Sprintf(format, args...)))
}
