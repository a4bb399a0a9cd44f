package conformance

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// randomFaults compares thousands of calls, a quarter of whose requests meet a fault, with a model of the store. They are
// made one after another, so that a seed gives one history.
var randomFaults = testCase{
	id: "J28", priority: 1, rule: "W2", virtual: true,
	title: "thousands of calls of all kinds under a random schedule of faults see what a model says",
	run: func(c *T) {
		n := c.wire.cfg.Operations
		if n == 0 {
			n = operationsDefault
			if !c.wire.virtual {
				n = operationsReal
			}
		}
		h := &faultHistory{c: c, random: mathrand.New(newRandom(c.seed, c.id+" calls")), segments: map[walstorage.SegmentID]*knownSegment{}}
		faults := mathrand.New(newRandom(c.seed, c.id+" faults"))
		h.m = c.openFaults(deadline(c.patience(600)), func(store *objectstore.Config) { store.MaxRetryTime = 0 })
		c.wire.proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
			fault, hit := c.randomFault(faults, walstorage.Op(r.Operation))
			h.requests.Add(1)
			if hit {
				h.faults.Add(1)
			}
			if fault.FlipRequest {
				h.flipped.Store(true)
			}
			return fault
		})
		for i := range n {
			h.step(i)
			if c.Failed() {
				c.Fatalf("after %d of %d operations, %d requests and %d faults; FaultsConfig.Seed is %d", i, n, h.requests.Load(), h.faults.Load(), c.seed)
			}
		}
		c.wire.proxy.Script(nil)
		h.settle()
		c.Logf("%d operations, %d requests, %d faults, %d outcomes that the caller could not know", n, h.requests.Load(), h.faults.Load(), h.unknown)
		if h.faults.Load() == 0 {
			c.Errorf("no request has met a fault: does the handle use the endpoint?")
		}
	},
}

const (
	operationsDefault = 10_000
	operationsReal    = 500
)

// randomFault is the fault of a request: none for three of four.
func (c *T) randomFault(random *mathrand.Rand, op walstorage.Op) (fault faultproxy.Fault, hit bool) {
	if random.IntN(4) > 0 {
		return faultproxy.Fault{}, false
	}
	bytes := random.IntN(300)
	answers := c.wire.cfg.Answers
	kinds := []faultproxy.Fault{
		answering(answers.Throttled), answering(answers.Internal), status(http.StatusBadGateway), status(http.StatusRequestTimeout), status(http.StatusTooManyRequests),
		{Answer: answers.Throttled.raw(), At: faultproxy.AfterServer},
		{Reset: faultproxy.BeforeBody},
		{Reset: faultproxy.InBody},
		{Reset: faultproxy.BeforeServer},
		{Reset: faultproxy.AfterServer},
		{Reset: faultproxy.InAnswer, Bytes: bytes},
		{Cut: faultproxy.CutLength, Bytes: bytes},
		{Cut: faultproxy.CutChunked, Bytes: bytes},
	}
	switch op {
	case walstorage.OpFetch:
		kinds = append(kinds, faultproxy.Fault{WholeObject: true},
			faultproxy.Fault{Edit: func(a *faultproxy.Answer) { rewriteRange(a, func(int64, int64, int64) string { return "" }) }},
			faultproxy.Fault{Edit: func(a *faultproxy.Answer) { // cut, and well formed
				if a.Status < http.StatusMultipleChoices {
					a.Body = a.Body[:min(bytes, max(len(a.Body)-1, 0))]
				}
			}})
	case walstorage.OpUpload:
		kinds = append(kinds, faultproxy.Fault{FlipRequest: true})
	}
	if c.wire.virtual { // each costs the deadline of an attempt
		kinds = append(kinds, faultproxy.Fault{Stall: faultproxy.BeforeServer}, faultproxy.Fault{Stall: faultproxy.AfterServer},
			faultproxy.Fault{Stall: faultproxy.InAnswer, Bytes: bytes})
	}
	return kinds[random.IntN(len(kinds))], true
}

// knownSegment is what the model knows of one segment.
type knownSegment struct {
	data []byte
	// present and absent tell what may be: both are set after a call whose outcome its caller cannot know.
	present, absent bool
}

// faultHistory is the model, and the calls that it is compared with.
type faultHistory struct {
	c        *T
	m        *handle
	random   *mathrand.Rand
	segments map[walstorage.SegmentID]*knownSegment
	ids      []walstorage.SegmentID // those of segments, in the order of their making

	unknown int // outcomes that a caller could not know
	// What the proxy has done so far, and whether it has damaged a body in the call under way.
	requests, faults atomic.Int64
	flipped          atomic.Bool
}

// segmentsAtOnce bounds how many segments there are, and so how long a list takes.
const segmentsAtOnce = 30

// step makes one call and compares its outcome.
func (h *faultHistory) step(i int) {
	ctx, cancel := h.c.Context(), func() {}
	if h.c.wire.virtual && h.random.IntN(8) == 0 {
		// So short that some calls end while nobody knows what has become of them.
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+h.random.IntN(500))*time.Millisecond)
	}
	defer cancel()
	h.flipped.Store(false)
	switch kind := h.random.IntN(20); {
	case len(h.ids) < 3 || kind < 5 && len(h.ids) < segmentsAtOnce:
		id := h.c.newID()
		h.segments[id] = &knownSegment{data: h.c.bytes(1 + h.random.IntN(600)), absent: true}
		h.ids = append(h.ids, id)
		h.c.know(id, h.segments[id].data)
		h.upload(ctx, id, h.segments[id].data)
	case kind < 7:
		id := h.pick()
		h.upload(ctx, id, h.segments[id].data)
	case kind < 8:
		id := h.pick()
		if s := h.segments[id]; s.present && !s.absent { // else the other bytes could win, which is another history
			h.upload(ctx, id, h.c.bytes(len(s.data)))
		}
	case kind < 13:
		h.fetch(ctx, h.pick())
	case kind < 15:
		h.stat(ctx, h.pick())
	case kind < 18 || len(h.ids) >= segmentsAtOnce:
		h.delete(ctx)
	default:
		h.list(ctx)
	}
	if h.c.Failed() {
		h.c.Logf("operation %d", i)
	}
}

func (h *faultHistory) pick() walstorage.SegmentID { return h.ids[h.random.IntN(len(h.ids))] }

// inconclusive tells whether the error leaves it open what has become of the call, as it may be after faults.
func inconclusive(err error) bool {
	return errors.Is(err, walstorage.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

func (h *faultHistory) upload(ctx context.Context, id walstorage.SegmentID, data []byte) {
	s, same := h.segments[id], false
	same = len(data) == len(s.data) && string(data) == string(s.data)
	err := h.m.UploadSegment(ctx, id, data)
	switch {
	case inconclusive(err):
		h.unknown++
		if same {
			s.present = true // now or soon; what was absent may still be
		}
	case errors.Is(err, walstorage.ErrCorrupt) && h.flipped.Load():
		// Refused. What earlier attempts of the call have done nobody knows.
		if same && !s.present {
			s.present = true
		}
	case same && err == nil:
		s.present, s.absent = true, false
	case same:
		h.c.Errorf("uploading segment %s, which %s: %v", id, s, err)
	case !errors.Is(err, walstorage.ErrSegmentExists):
		h.c.Errorf("uploading other bytes as segment %s, which %s: got %v, want ErrSegmentExists", id, s, err)
	}
}

// String tells what the model knows.
func (s *knownSegment) String() string {
	switch {
	case s.present && s.absent:
		return "may be there or not"
	case s.present:
		return "is there"
	}
	return "is not there"
}

func (h *faultHistory) fetch(ctx context.Context, id walstorage.SegmentID) {
	s := h.segments[id]
	offset := h.random.IntN(len(s.data))
	length := 1 + h.random.IntN(len(s.data)-offset)
	if h.random.IntN(10) == 0 {
		length += len(s.data)
	}
	dst := make([]byte, length)
	err := h.m.FetchSegment(ctx, id, int64(offset), dst)
	beyond := offset+length > len(s.data)
	switch {
	case inconclusive(err):
		h.unknown++
	case errors.Is(err, walstorage.ErrSegmentNotFound):
		h.missing(s, id, "fetching")
	case !s.present:
		h.c.Errorf("fetching segment %s, which %s: %v", id, s, err)
	case beyond && !errors.Is(err, walstorage.ErrInvalidRange), !beyond && err != nil:
		h.c.Errorf("fetching %d bytes from %d on of segment %s, which has %d: %v", length, offset, id, len(s.data), err)
	case err == nil:
		h.c.wantBytes(s.data[offset:offset+length], dst, "fetched under faults")
	}
}

// missing is "not found", which the model must allow.
func (h *faultHistory) missing(s *knownSegment, id walstorage.SegmentID, doing string) {
	if !s.absent {
		h.c.Errorf("%s segment %s, which %s: not found", doing, id, s)
	}
}

func (h *faultHistory) stat(ctx context.Context, id walstorage.SegmentID) {
	s := h.segments[id]
	info, err := h.m.StatSegment(ctx, id)
	switch {
	case inconclusive(err):
		h.unknown++
	case errors.Is(err, walstorage.ErrSegmentNotFound):
		h.missing(s, id, "stat of")
	case err != nil || !s.present || info.Size != int64(len(s.data)):
		h.c.Errorf("stat of segment %s of %d bytes, which %s: %d bytes, %v", id, len(s.data), s, info.Size, err)
	}
}

func (h *faultHistory) delete(ctx context.Context) {
	ids := []walstorage.SegmentID{h.pick()}
	for range h.random.IntN(3) {
		ids = append(ids, h.pick())
	}
	err := h.m.DeleteSegments(ctx, ids...)
	failed := make(map[walstorage.SegmentID]error)
	var partial *walstorage.DeleteError
	switch {
	case errors.As(err, &partial):
		for _, failure := range partial.Failures {
			failed[failure.ID] = failure.Err
		}
	case err != nil:
		for _, id := range ids {
			failed[id] = err
		}
	}
	for _, id := range ids {
		s := h.segments[id]
		if s == nil {
			continue // named twice
		}
		switch cause := failed[id]; {
		case cause == nil:
			delete(h.segments, id)
			h.ids = slices.DeleteFunc(h.ids, func(other walstorage.SegmentID) bool { return other == id })
		case inconclusive(cause):
			h.unknown++
			s.absent = true
		default:
			h.c.Errorf("deleting segment %s: %v", id, cause)
		}
	}
}

func (h *faultHistory) list(ctx context.Context) {
	found := make(map[walstorage.SegmentID]bool)
	for info, err := range h.m.ListSegments(ctx, walstorage.ListOptions{}) {
		if err != nil {
			if inconclusive(err) {
				h.unknown++
			} else {
				h.c.Errorf("listing: %v", err)
			}
			return
		}
		found[info.ID] = true
	}
	h.compare(found)
}

// compare compares a whole list with the model.
func (h *faultHistory) compare(found map[walstorage.SegmentID]bool) {
	for _, id := range h.ids {
		if s := h.segments[id]; found[id] && !s.present || !found[id] && !s.absent {
			h.c.Errorf("segment %s, which %s, is in the list: %t", id, s, found[id])
		}
		delete(found, id)
	}
	for id := range found {
		h.c.Errorf("segment %s, which was deleted, is in the list", id)
	}
}

// settle compares everything once more, without faults.
func (h *faultHistory) settle() {
	for _, id := range slices.Clone(h.ids) {
		s := h.segments[id]
		if s.present {
			h.upload(h.c.Context(), id, s.data)
			h.c.wantWhole(h.m, id, s.data, "after the faults")
		}
	}
	h.list(h.c.Context())
}
