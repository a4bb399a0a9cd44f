package memory

import (
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// Call describes one call of a driver method to the function that decides about faults.
type Call struct {
	// Method is "Put", "Get", "Stat", "Delete" or "List".
	Method string
	// Number counts the calls of this method on this driver, from 1.
	Number int
	// Key is the object's key; for a Delete the first of Keys, for a List the prefix.
	Key string
	// Segment is the id that Key names, the zero id if it names none.
	Segment walstorage.SegmentID
	// Keys are the keys of a Delete.
	Keys []string
	// Token is the continuation token of a List.
	Token string
	// Offset is where a Get begins.
	Offset int64
	// Size is the length of a Put's body or a Get's range in bytes.
	Size int64
}

// Fault is what goes wrong with one call. The zero value is a call without fault. Several fields may be set; they take
// effect in the order in which they stand here.
type Fault struct {
	// Panic makes the call panic with this value, if it is not nil.
	Panic any
	// Hang holds the call, whatever becomes of its context, until [Driver.Release]. Then it goes on.
	Hang bool
	// Wait holds the call until the channel is closed or yields a value: a gate. An ended context ends the wait.
	Wait <-chan struct{}
	// Delay is how long the request takes before it has its effect. An ended context ends it, without effect.
	Delay time.Duration
	// Err is returned, and the call has no effect.
	Err error
	// LandLate makes a Put time out for its caller, who gets walstorage.ErrUnavailable at once, or what ErrAfter says;
	// the object appears this much later, whole, unless the key exists by then.
	LandLate time.Duration
	// Truncate cuts this many bytes off the end of what is transferred. A Put is refused by the store, whose checksum
	// does not match: walstorage.ErrCorrupt. A Get fills the bytes before the cut and returns
	// walstorage.ErrUnavailable, as a driver does that counts what it has read. See [Store.Damage] for an object that
	// is too short at rest.
	Truncate int
	// FlipBit inverts one bit of what is transferred, counted from 1, the lowest of the first byte. A Put is refused by
	// the store with walstorage.ErrCorrupt; a Get returns nil and the wrong bytes, which its caller has to notice (W4).
	FlipBit int64
	// KeyErr is asked for each key of a Delete, whose object is kept if it returns an error. Those keys come back in an
	// objectstore.DeleteError; the others are deleted.
	KeyErr func(key string) error
	// RepeatPage makes a List return the page, and the token that leads to the same page again.
	RepeatPage bool
	// NoToken makes a List that is not at its end give no token for the next page, which the driver notices:
	// objectstore.NextToken.
	NoToken bool
	// AnswerDelay is how long the answer takes once the call has had its effect. An ended context ends it: then the
	// caller gets the context's error although the call has had its effect.
	AnswerDelay time.Duration
	// ErrAfter is returned although the call has had its effect: the lost answer.
	ErrAfter error
}

// Sequence returns a function for [Driver.Fault] that gives the first call of the method the first fault, the second
// call the second, and so on. Later calls and other methods have none. It counts from its own first call.
func Sequence(method string, faults ...Fault) func(Call) Fault {
	var mu sync.Mutex
	return func(call Call) Fault {
		if call.Method != method {
			return Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(faults) == 0 {
			return Fault{}
		}
		next := faults[0]
		faults = faults[1:]
		return next
	}
}
