package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// storage is the store as one case sees it: a place of its own, handles on it, ids and contents.
type storage struct {
	cfg  Config
	home place

	mu     sync.Mutex
	places []place                // every place that the case has opened
	ids    []walstorage.SegmentID // every id that the case has made
	// random gives the contents, and numbers, which draws from it, the choices.
	random  *mathrand.ChaCha8
	numbers *mathrand.Rand
}

// place is one namespace of the store.
type place struct{ prefix, cluster string }

// config returns what names the place, without hooks. The deadlines of attempts are long: on a loaded machine a default
// meant for production would repeat requests that have not failed, and the suite counts requests.
func (p place) config() objectstore.Config {
	return objectstore.Config{
		Prefix: p.prefix, Cluster: p.cluster,
		AttemptTimeout: time.Minute, BulkAttemptTimeout: time.Minute,
	}
}

func newStorage(cfg Config, c *T) *storage {
	var suffix [8]byte
	_, _ = rand.Read(suffix[:]) // never fails
	random := newRandom(cfg.Seed, c.id)
	return &storage{
		cfg: cfg,
		home: place{
			prefix:  "walhop-conformance/" + strings.ToLower(c.id) + "-" + hex.EncodeToString(suffix[:]),
			cluster: "conformance",
		},
		random:  random,
		numbers: mathrand.New(random),
	}
}

// newRandom returns a generator that depends on the seed and the case alone, so that a run can be repeated.
func newRandom(seed uint64, id string) *mathrand.ChaCha8 {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	copy(key[8:], id)
	return mathrand.NewChaCha8(key)
}

// handle is one manager under test. It counts the requests that the manager reports through its hooks, and searches
// every error for the secrets of the configuration.
type handle struct {
	walstorage.WalStorageManager
	c        *T
	attempts atomic.Int64
	// unsettled counts the requests to create and to delete whose answer leaves open whether they have taken effect.
	unsettled atomic.Int64
	finished  bool // by the goroutine of the case alone
	mayPanic  bool // a panic is what the case wants to see, and no failure; changed between calls only
}

// done is deferred by every method: it looks at the error that the manager returned, and turns a panic into a failure of
// the case and an error, whatever goroutine it is on.
func (h *handle) done(err *error) {
	if p := recover(); p != nil {
		if !h.mayPanic {
			h.c.Errorf("the manager panicked: %v\n%s", p, debug.Stack())
		}
		*err = errPanicked
	}
	if *err == nil {
		return
	}
	for _, secret := range h.c.storage.cfg.Secrets {
		if text := (*err).Error(); strings.Contains(text, secret) {
			h.c.Errorf("an error text holds a secret of the configuration (rule W11): %s", strings.ReplaceAll(text, secret, "<the secret>"))
		}
	}
}

var errPanicked = errors.New("the manager panicked")

func (h *handle) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) (err error) {
	defer h.done(&err)
	return h.WalStorageManager.UploadSegment(ctx, id, data)
}

func (h *handle) FetchSegment(ctx context.Context, id walstorage.SegmentID, offset int64, dst []byte) (err error) {
	defer h.done(&err)
	return h.WalStorageManager.FetchSegment(ctx, id, offset, dst)
}

func (h *handle) StatSegment(ctx context.Context, id walstorage.SegmentID) (info walstorage.SegmentInfo, err error) {
	defer h.done(&err)
	return h.WalStorageManager.StatSegment(ctx, id)
}

func (h *handle) DeleteSegments(ctx context.Context, ids ...walstorage.SegmentID) (err error) {
	defer h.done(&err)
	return h.WalStorageManager.DeleteSegments(ctx, ids...)
}

func (h *handle) ListSegments(ctx context.Context, options walstorage.ListOptions) iter.Seq2[walstorage.SegmentInfo, error] {
	list := h.WalStorageManager.ListSegments(ctx, options)
	return func(yield func(walstorage.SegmentInfo, error) bool) {
		for info, err := range list {
			h.done(&err)
			if !yield(info, err) {
				return
			}
		}
	}
}

func (h *handle) Close() (err error) {
	defer h.done(&err)
	return h.WalStorageManager.Close()
}

// open returns a new handle on the case's own place.
func (c *T) open() *handle { return c.openAt(c.storage.home) }

// openAt returns a new handle on a place. It is closed when the case ends.
func (c *T) openAt(at place) *handle {
	c.storage.remember(place{strings.TrimSuffix(at.prefix, "/"), at.cluster})
	return c.openWith(at, walstorage.Hooks{})
}

// openWith returns a new handle on a place whose manager is given hooks. It is closed when the case ends. Requests are
// counted where the hooks leave that to the handle.
func (c *T) openWith(at place, hooks walstorage.Hooks) *handle {
	h := &handle{c: c}
	m, err := c.storage.cfg.construct(c, h.config(at, hooks))
	require.NoError(c, err, "objectstore.New over the driver of the configuration")
	require.NotNil(c, m, "Config.Open returned nil")
	h.WalStorageManager = m
	c.Cleanup(func() { h.finish() })
	return h
}

// config is what the manager of the handle is made with.
func (h *handle) config(at place, hooks walstorage.Hooks) objectstore.Config {
	store := at.config()
	store.Hooks = hooks
	if hooks.AttemptStart == nil {
		store.Hooks.AttemptStart = func(ctx context.Context, _ walstorage.Attempt) context.Context {
			h.attempts.Add(1)
			return ctx
		}
	}
	if hooks.AttemptDone == nil {
		store.Hooks.AttemptDone = func(_ context.Context, attempt walstorage.Attempt, result walstorage.AttemptResult) {
			settled := result.Err == nil || errors.Is(result.Err, walstorage.ErrSegmentExists) || errors.Is(result.Err, walstorage.ErrSegmentNotFound)
			if (attempt.Call == "Put" || attempt.Call == "Delete") && !settled {
				h.unsettled.Add(1)
			}
		}
	}
	return store
}

// inSomeOrder makes rounds of calls at once on the handles; each returns why no order of its calls explains their answers,
// "" if one does. Such a round fails the case unless a create or a delete of it was sent again after an answer that said
// "busy", or none: both may have taken effect, the second of them behind a call that has been acknowledged in between, and
// a store that throttles is right. A manager that does not report its requests may have repeated some unseen: there it
// takes a second round that nothing explains.
func (c *T) inSomeOrder(rounds int, handles []*handle, round func(n int) (unexplained string)) {
	tell := func() (attempts, unsettled int64) {
		for _, h := range handles {
			attempts, unsettled = attempts+h.attempts.Load(), unsettled+h.unsettled.Load()
		}
		return attempts, unsettled
	}
	repeated, unseen := 0, 0
	for n := range rounds {
		_, before := tell()
		unexplained := round(n)
		if unexplained == "" {
			continue
		}
		switch attempts, unsettled := tell(); {
		case unsettled > before:
			repeated++
		case attempts == 0 && unseen == 0:
			unseen++
		default:
			c.Fatalf("round %d: %s", n, unexplained)
		}
	}
	if repeated+unseen > 0 {
		c.Logf("%d of %d rounds are not judged: a repeated create or delete may have taken effect twice", repeated+unseen, rounds)
	}
}

// construct makes a manager in the way that the configuration names: by Open, which fails tb where it cannot, or over
// Driver.
func (cfg Config) construct(tb testing.TB, store objectstore.Config) (walstorage.WalStorageManager, error) {
	if cfg.Open != nil {
		return cfg.Open(tb, store), nil
	}
	driver := cfg.Driver(tb)
	m, err := cfg.manager(driver, store)
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	return m, nil
}

// openIfLegal is openAt for a place whose names a store may refuse: by failing the testing.TB that Open is given, with an
// error of objectstore.New, or at the first use. It returns nil for a place that is refused.
func (c *T) openIfLegal(at place) *handle {
	tb := newRecorder(c, c.Name())
	h := &handle{c: c}
	refused := true
	tb.protect(func() {
		m, err := c.storage.cfg.construct(tb, h.config(at, walstorage.Hooks{}))
		if err == nil && m != nil {
			h.WalStorageManager, refused = m, false
		} else if err != nil {
			c.wantKind(err, walstorage.ErrInvalidArgument, fmt.Sprintf("a place with Prefix %q and Cluster %q", at.prefix, at.cluster))
		}
	})
	c.Cleanup(func() {
		if !refused {
			h.finish()
		}
		tb.unwind()
		for _, failure := range tb.outcome().failures {
			if !refused || strings.HasPrefix(failure, "panic: ") {
				c.Errorf("opening a place with Prefix %q and Cluster %q: %s", at.prefix, at.cluster, failure)
			}
		}
	})
	if refused {
		return nil
	}
	if _, err := h.StatSegment(c.Context(), c.newID()); errors.Is(err, walstorage.ErrInvalidArgument) {
		return nil
	}
	c.storage.remember(at)
	return h
}

// finish closes the handle if the case has not finished it before, and so waits for what goes on in the background.
func (h *handle) finish() {
	if h.finished {
		return
	}
	h.finished = true
	if err := h.Close(); err != nil {
		h.c.Errorf("closing a handle: %v", err)
	}
}

// wrap makes a handle of a manager that the configuration opened in another way.
func (c *T) wrap(m walstorage.WalStorageManager) *handle {
	require.NotNil(c, m, "the configuration returned no manager")
	h := &handle{WalStorageManager: m, c: c}
	c.Cleanup(func() { _ = h.Close() })
	return h
}

func (s *storage) remember(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.places {
		if known == at {
			return
		}
	}
	s.places = append(s.places, at)
}

// newID returns a new id of broker 1, made now.
func (c *T) newID() walstorage.SegmentID { return c.newIDAt(1, 0, time.Now()) }

// newIDs returns n of them.
func (c *T) newIDs(n int) []walstorage.SegmentID {
	ids := make([]walstorage.SegmentID, n)
	for i := range ids {
		ids[i] = c.newID()
	}
	return ids
}

// newIDAt returns a new id. What is stored under it is deleted when the case ends.
func (c *T) newIDAt(broker int32, epoch int64, created time.Time) walstorage.SegmentID {
	id, err := walstorage.NewSegmentID(broker, epoch, created, rand.Reader)
	require.NoError(c, err)
	c.storage.mu.Lock()
	defer c.storage.mu.Unlock()
	c.storage.ids = append(c.storage.ids, id)
	return id
}

// bytes returns n bytes that no other call returns (from about 8 on).
func (c *T) bytes(n int) []byte {
	c.storage.mu.Lock()
	defer c.storage.mu.Unlock()
	data := make([]byte, n)
	_, _ = c.storage.random.Read(data) // never fails
	return data
}

// intn returns a pseudo-random number below n.
func (c *T) intn(n int) int {
	c.storage.mu.Lock()
	defer c.storage.mu.Unlock()
	return c.storage.numbers.IntN(n)
}

// upload stores data and fails the case if that fails.
func (c *T) upload(h *handle, id walstorage.SegmentID, data []byte) {
	require.NoError(c, h.UploadSegment(c.Context(), id, data), "uploading segment %s of %d bytes", id, len(data))
}

// uploadNew stores data under a new id.
func (c *T) uploadNew(h *handle, data []byte) walstorage.SegmentID {
	id := c.newID()
	c.upload(h, id, data)
	return id
}

// wantWhole checks that the segment is there and holds exactly data.
func (c *T) wantWhole(h *handle, id walstorage.SegmentID, data []byte, situation string) {
	info, err := h.StatSegment(c.Context(), id)
	require.NoError(c, err, "%s: StatSegment", situation)
	require.Equal(c, int64(len(data)), info.Size, "%s: size told by StatSegment", situation)
	require.Equal(c, id, info.ID, "%s: id told by StatSegment", situation)
	dst := make([]byte, len(data))
	require.NoError(c, h.FetchSegment(c.Context(), id, 0, dst), "%s: FetchSegment of all %d bytes", situation, len(data))
	c.wantBytes(data, dst, situation)
}

// wantBytes compares contents without printing them whole.
func (c *T) wantBytes(want, got []byte, situation string) {
	if !bytes.Equal(want, got) {
		c.Fatalf("%s: the bytes differ: %s", situation, difference(want, got))
	}
}

// difference says in a line how two contents differ.
func difference(want, got []byte) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%d bytes instead of %d", len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			n := min(len(want)-i, 16)
			return fmt.Sprintf("first at offset %d of %d: % x instead of % x", i, len(want), got[i:i+n], want[i:i+n])
		}
	}
	return "not at all"
}

// wantMissing checks that neither Stat nor Fetch finds the segment.
func (c *T) wantMissing(h *handle, id walstorage.SegmentID, situation string) {
	_, err := h.StatSegment(c.Context(), id)
	c.wantKind(err, walstorage.ErrSegmentNotFound, situation+": StatSegment")
	err = h.FetchSegment(c.Context(), id, 0, make([]byte, 1))
	c.wantKind(err, walstorage.ErrSegmentNotFound, situation+": FetchSegment")
}

// wantKind checks that err is of the kind given. It does not end the case.
func (c *T) wantKind(err, kind error, situation string) bool {
	switch {
	case err == nil:
		c.Errorf("%s: no error, want %q", situation, kind)
	case !errors.Is(err, kind):
		c.Errorf("%s: error %q, want one of kind %q", situation, err, kind)
	default:
		return true
	}
	return false
}

// wantWholeOrMissing fetches a segment that may or may not be there and checks that it is no part (W1). It tells
// whether it was there.
func (c *T) wantWholeOrMissing(h *handle, id walstorage.SegmentID, data []byte, situation string) bool {
	there, problem := wholeOrMissing(c.Context(), h, id, data)
	if problem != "" {
		c.Fatalf("%s: %s", situation, problem)
	}
	return there
}

// wholeOrMissing is wantWholeOrMissing for goroutines, which must not fail the case themselves.
func wholeOrMissing(ctx context.Context, h *handle, id walstorage.SegmentID, data []byte) (there bool, problem string) {
	info, err := h.StatSegment(ctx, id)
	if errors.Is(err, walstorage.ErrSegmentNotFound) {
		return false, ""
	}
	if err != nil {
		return false, fmt.Sprintf("StatSegment: %v", err)
	}
	if info.Size != int64(len(data)) {
		return true, fmt.Sprintf("StatSegment tells %d bytes of a segment of %d", info.Size, len(data))
	}
	dst := make([]byte, len(data))
	if err := h.FetchSegment(ctx, id, 0, dst); err != nil {
		return true, fmt.Sprintf("StatSegment finds the segment, FetchSegment says: %v", err)
	}
	if !bytes.Equal(data, dst) {
		return true, "the bytes differ: " + difference(data, dst)
	}
	return true, ""
}

// errEndless is what a list that does not end comes to.
var errEndless = errors.New("the list does not end")

// list ranges over a list and returns what it yields, by id, in the order of coming. It gives up on a list that yields
// far more than the case has made.
func (c *T) list(h *handle, options walstorage.ListOptions) (map[walstorage.SegmentID][]walstorage.SegmentInfo, error) {
	c.storage.mu.Lock()
	bound := 4*len(c.storage.ids) + 100
	c.storage.mu.Unlock()
	found := make(map[walstorage.SegmentID][]walstorage.SegmentInfo)
	var last error
	n := 0
	for info, err := range h.ListSegments(c.Context(), options) {
		if last != nil {
			return found, fmt.Errorf("the list goes on after its error %q", last)
		}
		if err != nil {
			last = err
			continue
		}
		if n++; n > bound {
			return found, errEndless
		}
		found[info.ID] = append(found[info.ID], info)
	}
	return found, last
}

// wantListed checks that the list yields exactly the ids given, each at least once (W10).
func (c *T) wantListed(h *handle, options walstorage.ListOptions, ids []walstorage.SegmentID, situation string) map[walstorage.SegmentID][]walstorage.SegmentInfo {
	found, err := c.list(h, options)
	require.NoError(c, err, "%s: ListSegments", situation)
	var problems []string
	for _, id := range ids {
		if len(found[id]) == 0 {
			problems = append(problems, "missing "+id.String())
		}
	}
	if len(problems) == 0 && len(found) != len(ids) {
		want := make(map[walstorage.SegmentID]bool, len(ids))
		for _, id := range ids {
			want[id] = true
		}
		for id := range found {
			if !want[id] {
				problems = append(problems, "too many "+id.String())
			}
		}
	}
	if len(problems) > 0 {
		const shown = 5
		more := ""
		if len(problems) > shown {
			more = fmt.Sprintf(" and %d more", len(problems)-shown)
			problems = problems[:shown]
		}
		c.Fatalf("%s: the list is wrong, want %d segments, got %d: %s%s", situation, len(ids), len(found), strings.Join(problems, ", "), more)
	}
	return found
}

// noRequest checks that the calls of f send no request, as far as the manager reports its requests.
func (c *T) noRequest(h *handle, situation string, f func()) {
	before := h.attempts.Load()
	f()
	if sent := h.attempts.Load() - before; sent > 0 {
		c.Errorf("%s: %d requests were sent, want none", situation, sent)
	}
}

// countsRequests tells whether the handle reports its requests, which it has shown if it has sent one; where it does
// not, that is logged, so that nobody takes noRequest for more than it is.
func (c *T) countsRequests(h *handle) bool {
	if h.attempts.Load() > 0 {
		return true
	}
	c.Logf("the manager reports no requests through its hooks: that it sends none is not checked")
	return false
}

// together calls f n times at once, each in a goroutine of its own, and returns when all calls have. f must not end
// the case.
func (c *T) together(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			defer c.recovered()
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// returns calls f in a goroutine and checks that it returns within the time for prompt calls. It tells whether it has.
func (c *T) returns(situation string, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.recovered()
		f()
	}()
	return c.waitFor(done, situation)
}

// waitFor waits for the channel to be closed, for the time of prompt calls at most.
func (c *T) waitFor(done <-chan struct{}, situation string) bool {
	limit := time.NewTimer(c.prompt)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
		c.Errorf("%s: not after %v", situation, c.prompt)
		return false
	}
}

// rawKeys returns the keys of everything that a driver lists below prefix, each once: a page may repeat what another had.
func rawKeys(ctx context.Context, driver objectstore.Driver, prefix string) ([]string, error) {
	var keys []string
	seen := make(map[string]bool)
	token := ""
	for range 10_000 {
		page, next, err := driver.List(ctx, prefix, token)
		if err != nil {
			return keys, err
		}
		for _, object := range page {
			if !seen[object.Key] {
				seen[object.Key] = true
				keys = append(keys, object.Key)
			}
		}
		if next == "" {
			return keys, nil
		}
		token = next
	}
	return keys, errEndless
}

// driver returns a driver of the configuration, closed when the case ends.
func (c *T) driver() objectstore.Driver {
	driver := c.storage.cfg.Driver(c)
	require.NotNil(c, driver, "Config.Driver returned nil")
	c.Cleanup(func() {
		if err := driver.Close(); err != nil {
			c.Errorf("closing a driver: %v", err)
		}
	})
	return driver
}

// residue returns what lies physically in the case's place and is no segment, as far as the configuration can tell.
func (c *T) residue() []string {
	if c.storage.cfg.Residue == nil {
		return nil
	}
	return c.storage.cfg.Residue(c, c.storage.home.prefix)
}

// tidyRounds bounds how often tidy deletes again what turned up after it had deleted everything: an upload that the
// case had cancelled can land late (W1).
const tidyRounds = 5

// tidy deletes every segment that the case can have stored and returns the names of what is there nevertheless. It
// runs on handles of its own, after the case.
func (s *storage) tidy(c *T) (left []string) {
	s.mu.Lock()
	places, ids := s.places, s.ids
	s.mu.Unlock()
	handles := make([]*handle, len(places))
	for i, at := range places {
		handles[i] = c.openAt(at)
	}
	for round := range c.rounds {
		if round > 0 {
			<-time.After(time.Duration(round) * 20 * time.Millisecond)
		}
		left = nil
		for _, h := range handles {
			if err := h.DeleteSegments(c.Context(), ids...); err != nil {
				left = append(left, fmt.Sprintf("deleting everything: %v", err))
			}
		}
		for i, h := range handles {
			left = append(left, s.remains(c, h, places[i])...)
		}
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// remains returns the names of everything stored at a place.
func (s *storage) remains(c *T, h *handle, at place) (left []string) {
	found, err := c.list(h, walstorage.ListOptions{})
	if err != nil {
		left = append(left, fmt.Sprintf("listing what is left: %v", err))
	}
	for id := range found {
		left = append(left, "segment "+id.String())
	}
	if s.cfg.Driver != nil {
		driver := s.cfg.Driver(c)
		keys, err := rawKeys(c.Context(), driver, at.prefix+"/")
		if err != nil {
			left = append(left, fmt.Sprintf("listing the driver: %v", err))
		}
		for _, key := range keys {
			left = append(left, "object "+key)
		}
		_ = driver.Close()
	}
	if s.cfg.Residue != nil {
		left = append(left, s.cfg.Residue(c, at.prefix)...)
	}
	return left
}
