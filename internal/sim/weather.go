package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// Latency is how long one request to the store takes: lognormal around Median, Sigma wide, and PerMiB for each MiB, at
// least Least.
type Latency struct {
	Median, Least, PerMiB time.Duration
	Sigma                 float64
}

func (l Latency) draw(c chance, op uint64, size int64) time.Duration {
	d := c.lognormal(op, "latency", l.Median, l.Sigma) + l.PerMiB*time.Duration(size)/(1<<20)
	return max(d, l.Least)
}

// The latencies of S3 Express One Zone, as far as they are known from outside.
var (
	S3ExpressPut = Latency{Median: 6500 * time.Microsecond, Sigma: 0.24, Least: time.Millisecond, PerMiB: 10 * time.Millisecond}
	S3ExpressGet = Latency{Median: 2500 * time.Microsecond, Sigma: 0.57, Least: time.Millisecond, PerMiB: 2 * time.Millisecond}
)

// weather is what the store does to requests. Each broker has a driver of its own on the one store.
type weather struct {
	cluster *Cluster
	store   *memory.Store

	mu       sync.Mutex
	refused  map[sky]error // requests that fail after a moment
	held     map[sky]chan struct{}
	hung     map[sky]bool // of those held: not even the end of its context ends a request
	attempts map[attempt]uint64
	slow     map[sky]float64 // bytes per second
	free     map[sky]time.Time
	deleted  map[walstorage.SegmentID]bool // by a sweeper, or by an operator
	damaged  map[walstorage.SegmentID]bool
	poisoned func(method string, id walstorage.SegmentID) error // nil, or what becomes of requests for some segments
}

// gated is the driver of one process, whose requests can be held before they go out. What happens after a gate has opened
// is reckoned from then, so that it happens at an instant of the broker's own (D2).
type gated struct {
	objectstore.Driver
	process *process
}

// staggered is the store as the uploader sees it. Of two segments sealed at one instant the first comes first to what they
// have in common, the manager's gate (D2).
type staggered struct{ *objectstore.Manager }

func (s staggered) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	timer := time.NewTimer(time.Duration(1 + sealNumber(id)%lanes))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return s.Manager.UploadSegment(ctx, id, data)
}

// wait holds a request as long as requests of its kind are held.
func (g gated) wait(ctx context.Context, method string) error {
	if asleep := g.process.sleeping(); asleep != nil {
		select {
		case <-asleep:
		case <-ctx.Done():
		}
	}
	w := g.process.cluster.weather
	under := sky{method, g.process.id}
	w.mu.Lock()
	gate, hung := w.held[under], w.hung[under]
	w.mu.Unlock()
	switch {
	case gate == nil:
	case hung:
		select {
		case <-gate:
		case <-g.process.ctx.Done(): // a dead process has no calls
		}
	default:
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (g gated) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	g.process.enter(uploading)
	defer g.process.leave(uploading)
	if err := g.wait(ctx, "Put"); err != nil {
		return err
	}
	return g.Driver.Put(ctx, key, body, crc32c)
}

func (g gated) Get(ctx context.Context, key string, offset int64, dst []byte) error {
	g.process.enter(downloading)
	defer g.process.leave(downloading)
	if err := g.wait(ctx, "Get"); err != nil {
		return err
	}
	err := g.Driver.Get(ctx, key, offset, dst)
	if walstorage.KindOf(err) == walstorage.ErrSegmentNotFound {
		g.process.cluster.noteMissing(g.process, key)
	}
	return err
}

func (g gated) Delete(ctx context.Context, keys []string) error {
	g.process.cluster.judgeSweep(g.process, keys)
	err := g.Driver.Delete(ctx, keys)
	g.process.cluster.noteDeleted(keys)
	return err
}

// sky is one kind of request of one broker.
type sky struct {
	method string
	broker int32
}

// attempt counts the requests of one kind for one segment.
type attempt struct {
	sky
	process *process
	segment walstorage.SegmentID
}

// allMethods are the methods of a driver.
var allMethods = []string{"Put", "Get", "Stat", "Delete", "List"}

func newWeather(c *Cluster) *weather {
	return &weather{
		cluster: c, store: memory.NewStore(),
		refused: map[sky]error{}, held: map[sky]chan struct{}{}, hung: map[sky]bool{}, deleted: map[walstorage.SegmentID]bool{}, damaged: map[walstorage.SegmentID]bool{}, attempts: map[attempt]uint64{},
		slow: map[sky]float64{}, free: map[sky]time.Time{},
	}
}

// isDamaged tells whether the segment was damaged at rest.
func (w *weather) isDamaged(id walstorage.SegmentID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.damaged[id]
}

// decide is the fault function of the driver of a process.
func (w *weather) decide(p *process, call memory.Call) memory.Fault {
	if p.dead() {
		return memory.Fault{Err: walstorage.NewError(walstorage.ErrClosed, errKilled)}
	}
	a := p.requests[call.Method]
	w.mu.Lock()
	defer w.mu.Unlock()
	under := sky{call.Method, p.id}
	this := attempt{under, p, call.Segment}
	w.attempts[this]++
	op := hashBytes(call.Segment.UUID[:]) + w.attempts[this]

	latency := 2 * time.Millisecond
	switch call.Method {
	case "Put":
		latency = w.cluster.cfg.Put.draw(a.chance, op, call.Size)
	case "Get":
		latency = w.cluster.cfg.Get.draw(a.chance, op, call.Size)
	}
	if rate := w.slow[under]; rate > 0 {
		now := time.Now()
		from := w.free[under]
		if from.Before(now) {
			from = now
		}
		w.free[under] = from.Add(time.Duration(float64(call.Size) / rate * float64(time.Second)))
		latency += w.free[under].Sub(now)
	}
	var fault memory.Fault
	if err := w.refused[under]; err != nil {
		fault.Err = err
		latency = a.chance.between(op, "refusal", time.Millisecond, 4*time.Millisecond)
	} else if err := w.poison(call); err != nil {
		fault.Err = err
	} else {
		w.stir(&fault, a.chance, op, call, &latency)
	}
	if call.Segment != (walstorage.SegmentID{}) && fault.Err == nil && fault.ErrAfter == nil && fault.LandLate == 0 && fault.FlipBit == 0 && fault.Truncate == 0 && fault.KeyErr == nil {
		delete(w.attempts, this)
	}
	fault.Delay = a.due(op, latency)
	return fault
}

func (w *weather) poison(call memory.Call) error {
	if w.poisoned == nil || call.Segment == (walstorage.SegmentID{}) {
		return nil
	}
	return w.poisoned(call.Method, call.Segment)
}

// lateness is how much later an object appears that is stored late: seconds, at times hours.
func (w *weather) lateness(c chance, op uint64) time.Duration {
	if c.happens(op, "very late", 0.1) {
		return c.between(op, "lateness", time.Minute, 3*time.Hour)
	}
	return c.between(op, "lateness", 50*time.Millisecond, 2*time.Second)
}

// stir adds the faults of a bad day.
func (w *weather) stir(fault *memory.Fault, c chance, op uint64, call memory.Call, latency *time.Duration) {
	bad := w.cluster.faults()
	unavailable := walstorage.NewError(walstorage.ErrUnavailable, errors.New("503"))
	hit := func(what string, p float64) bool {
		if !c.happens(op, what, p) {
			return false
		}
		w.cluster.count(what)
		return true
	}
	if hit("request fails", bad.RequestFails) {
		fault.Err = unavailable
		return
	}
	if hit("request is slow", bad.RequestSlow) {
		*latency += c.between(op, "slowness", 20*time.Millisecond, 900*time.Millisecond)
	}
	switch call.Method {
	case "Put":
		switch {
		case hit("answer lost", bad.PutAnswerLost):
			fault.ErrAfter = unavailable
		case hit("object late", bad.PutLandsLate):
			fault.LandLate = w.lateness(c, op)
		}
	case "Delete":
		switch {
		case hit("delete fails", bad.DeleteFails):
			fault.KeyErr = func(key string) error {
				switch hashString(key) % 4 {
				case 0:
					return unavailable
				case 1:
					return Refused // which is not tried again before the next run
				}
				return nil
			}
		case hit("delete's answer lost", bad.DeleteAnswerLost):
			fault.ErrAfter = unavailable
		}
	case "Get":
		switch {
		case hit("object corrupt", bad.GetCorrupt):
			fault.FlipBit = 1 + int64(c.pick(op, "bit", int(8*max(call.Size, 1))))
		case hit("object short", bad.GetShort):
			fault.Truncate = 1 + c.pick(op, "cut", int(max(call.Size, 1)))
		case hit("object missing", bad.GetMissing):
			fault.Err = walstorage.NewError(walstorage.ErrSegmentNotFound, errors.New("not yet visible"))
		}
	}
}

func (w *weather) each(methods []string, brokers []int32, do func(sky)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(brokers) == 0 {
		brokers = w.cluster.brokerIDs()
	}
	for _, method := range methods {
		if !slices.Contains(allMethods, method) {
			panic(fmt.Sprintf("sim: no method %q", method))
		}
		for _, broker := range brokers {
			do(sky{method, broker})
		}
	}
}
