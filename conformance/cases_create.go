package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// largeSize is where a library may begin to send an object in another way, and hugeSize where all do that do: in parts of
// 5, 8 or 16 MiB.
const largeSize, hugeSize = 100_000, 17 << 20

// createSizes are sizes of segments that stores may create in different ways, each with a condition of its own.
func (c *T) createSizes() []int {
	return slices.Compact([]int{c.size(2000), c.size(largeSize), c.size(hugeSize)})
}

// existsOrTooLarge is what an upload of so many bytes over another segment gets.
func (c *T) existsOrTooLarge(size int) error {
	if limit := c.storage.cfg.MaxObjectSize; limit > 0 && int64(size) > limit {
		return walstorage.ErrTooLarge
	}
	return walstorage.ErrSegmentExists
}

// Group C: a segment is created once. This is the centre of a log: everything else can be repeated.
var createCases = []testCase{
	{
		id: "C1", priority: 1, rule: "W2",
		title: "a second create with other bytes is ErrSegmentExists and leaves the bytes, the size and the time alone",
		run: func(c *T) {
			m, other := c.open(), c.open()
			for _, size := range c.createSizes() {
				data := c.bytes(size)
				id := c.uploadNew(m, data)
				before, err := m.StatSegment(c.Context(), id)
				require.NoError(c, err)
				changed := bytes.Clone(data)
				changed[size-1] ^= 1
				others, writers := [][]byte{nil, data[:1], data[1:], changed, c.bytes(size + 1)}, []*handle{m, other}
				if size > largeSize { // once is enough of what takes long
					others, writers = [][]byte{changed}, []*handle{other}
				}
				for _, again := range writers {
					for _, bytes := range others {
						c.wantKind(again.UploadSegment(c.Context(), id, bytes), c.existsOrTooLarge(len(bytes)),
							fmt.Sprintf("%d other bytes over a segment of %d", len(bytes), size))
					}
				}
				c.wantWhole(other, id, data, "after refused creates")
				after, err := other.StatSegment(c.Context(), id)
				require.NoError(c, err)
				require.True(c, before.Stored.Equal(after.Stored), "the time of storing was %v and is %v after refused creates", before.Stored, after.Stored)
				require.NoError(c, m.DeleteSegments(c.Context(), id))
			}
		},
	},
	{
		id: "C2", priority: 1, rule: "W2",
		title: "of many creates at once on one handle exactly one wins, and its bytes are stored",
		run: func(c *T) {
			m := c.open()
			c.race(12, 60, 16, func(int) *handle { return m })
		},
	},
	{
		id: "C3", priority: 1, rule: "W2",
		title: "of many creates at once on several handles exactly one wins, and its bytes are stored",
		run: func(c *T) {
			handles := []*handle{c.open(), c.open(), c.open(), c.open()}
			c.race(12, 60, 16, func(i int) *handle { return handles[i%len(handles)] })
		},
	},
	{
		id: "C4", priority: 1, rule: "W2", needs: needPeer,
		title: "of creates at once in several processes exactly one wins, and its bytes are stored",
		costs: "A lock within one process keeps its own brokers apart and no others: two machines both believe that they wrote the segment.",
		run: func(c *T) {
			handles := []*handle{c.open(), c.peer(), c.peer()}
			c.race(60, 300, 6, func(i int) *handle { return handles[i%len(handles)] })
		},
	},
	{
		id: "C5", priority: 2, rule: "W2",
		title: "a create beside a delete of the same segment ends with the segment whole or gone",
		run: func(c *T) {
			one, two := c.open(), c.open()
			c.inSomeOrder(20, []*handle{one, two}, func(round int) (unexplained string) {
				data, id := c.bytes(1000), c.newID()
				c.upload(one, id, data)
				created := data
				if round%2 == 1 {
					created = c.bytes(1000)
				}
				var createErr, deleteErr error
				c.together(2, func(i int) {
					if (i+round/2)%2 == 0 { // of two goroutines that are let go at once one tends to be the first
						createErr = one.UploadSegment(c.Context(), id, created)
					} else {
						deleteErr = two.DeleteSegments(c.Context(), id)
					}
				})
				situation := fmt.Sprintf("round %d", round)
				require.NoError(c, deleteErr, "%s: a delete beside a create", situation)
				switch {
				case round%2 == 0:
					require.NoError(c, createErr, "%s: the same bytes again, beside a delete", situation)
					c.wantWholeOrMissing(one, id, data, situation)
				case createErr == nil: // so the delete came first, and nothing but a repeated one came behind
					if !c.wantWholeOrMissing(two, id, created, situation+": other bytes, created behind the delete") {
						return "other bytes were created, so the delete came before them, and they are missing"
					}
				default:
					c.wantKind(createErr, walstorage.ErrSegmentExists, situation+": other bytes, before the delete")
					c.wantMissing(one, id, situation+": other bytes were refused, so the delete came behind them")
				}
				return ""
			})
		},
	},
	{
		id: "C7", priority: 1, rule: "W2",
		title: "a create that fails leaves nothing behind",
		costs: "Temporaries and unfinished uploads are paid for and never deleted, since no list shows them.",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(2000)
			id := c.uploadNew(m, data)
			cancelled, cancel := context.WithCancel(c.Context())
			cancel()
			for range 10 {
				c.wantKind(m.UploadSegment(c.Context(), id, c.bytes(3000)), walstorage.ErrSegmentExists, "other bytes")
				c.wantKind(m.UploadSegment(cancelled, c.newID(), data), context.Canceled, "a cancelled upload")
			}
			c.wantListed(m, walstorage.ListOptions{}, []walstorage.SegmentID{id}, "after failed creates")
			if c.storage.cfg.Driver != nil {
				keys, err := rawKeys(c.Context(), c.driver(), c.storage.home.prefix+"/")
				require.NoError(c, err)
				require.Len(c, keys, 1, "objects after one create and twenty failed ones: %v", keys)
			}
			require.Empty(c, c.residue(), "left by failed creates")
		},
	},
	{
		id: "C9", priority: 1, rule: "W2", needs: needDriver,
		title: "the answer to a create is lost: the create is repeated and ends in success, with one object",
		costs: "The leader takes its own segment for somebody else's and gives it up, though it is stored.",
		run: func(c *T) {
			for _, size := range []int{0, 1, 5000} {
				faults := &faultDriver{}
				faults.onPut = func(n int, call putCall) error {
					err := call.next()
					if n == 1 && err == nil {
						return walstorage.NewError(walstorage.ErrUnavailable, errLostAnswer)
					}
					return err
				}
				m := c.openFaulty(faults)
				data := c.bytes(size)
				id := c.uploadNew(m, data)
				c.wantWhole(m, id, data, "after a lost answer")
				require.GreaterOrEqual(c, faults.calls("Put"), 2, "creates sent: a lost answer is settled by repeating the create")
				require.NoError(c, m.UploadSegment(c.Context(), id, data), "the same upload once more")
				keys, err := rawKeys(c.Context(), c.driver(), c.storage.home.prefix+"/")
				require.NoError(c, err)
				require.Len(c, keys, 1, "objects after a lost answer: %v", keys)
				require.NoError(c, m.DeleteSegments(c.Context(), id))
			}
		},
	},
	{
		id: "C10", priority: 1, rule: "W2", needs: needDriver,
		title: "the answer to a create is lost and another writer's object is there: ErrSegmentExists, and its bytes stay",
		costs: "Two writers both believe that their bytes are stored; followers of one of them read the other's.",
		run: func(c *T) {
			for _, size := range []int{2000, 1500} {
				other := c.bytes(size) // of the same size as ours, and of another
				faults := &faultDriver{}
				faults.onPut = func(n int, call putCall) error {
					if n > 1 {
						return call.next()
					}
					body := objectstore.NewBody(other)
					defer body.Revoke()
					if err := call.driver.Put(call.ctx, call.key, body, crc32c(other)); err != nil {
						return err
					}
					return walstorage.NewError(walstorage.ErrUnavailable, errLostAnswer)
				}
				m := c.openFaulty(faults)
				id := c.newID()
				c.wantKind(m.UploadSegment(c.Context(), id, c.bytes(2000)), walstorage.ErrSegmentExists, "another writer's object is there")
				c.wantWhole(m, id, other, "the other writer's object")
			}
		},
	},
	{
		id: "C11", priority: 1, rule: "W2", needs: needDriver,
		title: "the answer is lost and the check is refused: ErrUnavailable around the refusal, and the same upload again succeeds",
		costs: "A segment that is stored is reported as somebody else's, or one that may not be stored as stored.",
		run: func(c *T) {
			refusal := errors.New("no permission to stat")
			faults := &faultDriver{}
			faults.onPut = func(n int, call putCall) error {
				err := call.next()
				if n == 1 && err == nil {
					return walstorage.NewError(walstorage.ErrUnavailable, errLostAnswer)
				}
				return err
			}
			refused := true
			faults.onStat = func(_ int, call statCall) (objectstore.Object, error) {
				if refused {
					return objectstore.Object{}, walstorage.NewError(walstorage.ErrAccessDenied, markedError{refusal})
				}
				return call.next()
			}
			faults.onGet = func(_ int, call getCall) error {
				if refused {
					return walstorage.NewError(walstorage.ErrAccessDenied, markedError{refusal})
				}
				return call.next()
			}
			m := c.openFaulty(faults)
			data, id := c.bytes(2000), c.newID()
			err := m.UploadSegment(c.Context(), id, data)
			c.wantKind(err, walstorage.ErrUnavailable, "answer lost, check refused")
			if errors.Is(err, walstorage.ErrSegmentExists) {
				c.Errorf("an unknown outcome is reported as another writer's segment: %v", err)
			}
			var marked markedError
			if err != nil && !errors.As(err, &marked) {
				c.Errorf("the refusal cannot be found behind the error %v", err)
			}
			refused = false
			require.NoError(c, m.UploadSegment(c.Context(), id, data), "the same upload again")
			c.wantWhole(m, id, data, "after the same upload again")
		},
	},
	{
		id: "C12", priority: 1, rule: "W8", needs: needDriver,
		title: "the answer is lost and the caller cancels meanwhile: the caller's context error, and the same upload again succeeds",
		run: func(c *T) {
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			faults := &faultDriver{}
			faults.onPut = func(n int, call putCall) error {
				err := call.next()
				if n == 1 && err == nil {
					cancel()
					<-call.ctx.Done()
					return walstorage.NewError(walstorage.ErrUnavailable, errLostAnswer)
				}
				return err
			}
			m := c.openFaulty(faults)
			data, id := c.bytes(2000), c.newID()
			err := m.UploadSegment(ctx, id, data)
			c.wantKind(err, context.Canceled, "answer lost, cancelled meanwhile")
			require.NoError(c, m.UploadSegment(c.Context(), id, data), "the same upload again")
			c.wantWhole(m, id, data, "after the same upload again")
		},
	},
	{
		id: "C13", priority: 1, rule: "W7", needs: needDriver,
		title: "\"conflict, try again\" is tried again and is never \"exists\"",
		costs: "The leader believes that a segment is there of which nothing was written.",
		run: func(c *T) {
			conflict := walstorage.NewError(walstorage.ErrUnavailable, errors.New("409 conditional request conflict"))
			faults := &faultDriver{}
			faults.onPut = func(n int, call putCall) error {
				if n <= 2 {
					return conflict
				}
				return call.next()
			}
			m := c.openFaulty(faults)
			data := c.bytes(2000)
			id := c.uploadNew(m, data)
			c.wantWhole(m, id, data, "after two conflicts")
			require.Equal(c, 3, faults.calls("Put"), "creates sent for two conflicts and a success")

			always := &faultDriver{}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			always.onPut = func(n int, _ putCall) error {
				if n == 5 {
					cancel()
				}
				return conflict
			}
			m = c.openFaulty(always)
			err := m.UploadSegment(ctx, c.newID(), data)
			if err == nil || errors.Is(err, walstorage.ErrSegmentExists) {
				c.Errorf("nothing but conflicts: got %v, want the caller's context error or ErrUnavailable", err)
			}
		},
	},
	{
		id: "C14", priority: 1, rule: "W7", needs: needDriver,
		title: "a driver reports an existing object as ErrSegmentExists, whether the bytes are the same or not, and leaves it alone",
		costs: "The Manager compares the bytes only where the driver says \"exists\": any other answer makes an error of a success, or a success of another writer's bytes.",
		run: func(c *T) {
			driver := c.driver()
			m := c.open()
			data, id := c.bytes(500), c.newID()
			key := c.key(id)
			require.NoError(c, put(c.Context(), driver, key, data), "Put of a new key")
			c.wantKind(put(c.Context(), driver, key, data), walstorage.ErrSegmentExists, "Put of the same bytes")
			c.wantKind(put(c.Context(), driver, key, c.bytes(500)), walstorage.ErrSegmentExists, "Put of other bytes")
			c.wantKind(put(c.Context(), driver, key, nil), walstorage.ErrSegmentExists, "Put of no bytes")
			c.wantWhole(m, id, data, "after refused Puts")
		},
	},
	{
		id: "C16", priority: 1, rule: "W2", needs: needDriver,
		title: "a store that ignores the condition of a create is found out: two drivers cannot both create one key",
		run: func(c *T) {
			one, two := c.driver(), c.driver()
			for round := range 20 {
				id := c.newID()
				key := c.key(id)
				contents := [][]byte{c.bytes(800), c.bytes(800)}
				errs := make([]error, 2)
				c.together(2, func(i int) {
					errs[i] = put(c.Context(), []objectstore.Driver{one, two}[i], key, contents[i])
				})
				won := -1
				for i, err := range errs {
					switch {
					case err == nil && won >= 0:
						c.Fatalf("round %d: both drivers created the key", round)
					case err == nil:
						won = i
					case !errors.Is(err, walstorage.ErrSegmentExists) && !errors.Is(err, walstorage.ErrUnavailable):
						c.Fatalf("round %d: %v", round, err)
					}
				}
				if won >= 0 {
					dst := make([]byte, 800)
					require.NoError(c, one.Get(c.Context(), key, 0, dst))
					c.wantBytes(contents[won], dst, "the winner's object")
				}
			}
		},
	},
	{
		id: "C17", priority: 1, rule: "W2",
		title: "a segment can be created again after it was deleted, with other bytes too",
		run: func(c *T) {
			m, other := c.open(), c.open()
			id := c.newID()
			for round := range 5 {
				// Of one size in two rounds each, so that a size tells nothing.
				data := c.bytes(100 * (round/2 + 1))
				c.upload(m, id, data)
				c.wantWhole(m, id, data, fmt.Sprintf("round %d", round))
				c.wantWhole(other, id, data, fmt.Sprintf("round %d, on another handle", round))
				require.NoError(c, m.DeleteSegments(c.Context(), id))
				c.wantMissing(m, id, fmt.Sprintf("round %d, deleted", round))
				c.wantMissing(other, id, fmt.Sprintf("round %d, deleted on another handle", round))
			}
		},
	},
}

// raceTime is how long a race goes on beyond its least number of rounds. What is not atomic by a hair fails one round of
// twenty, or of hundreds, and a fast store makes hundreds in that time.
const raceTime = 200 * time.Millisecond

// race lets n callers create one segment with different bytes at once, on the handles that pick names, and checks that
// exactly one wins and that the winner's bytes are stored. It makes at least the number of rounds given, and up to most.
func (c *T) race(least, most, n int, pick func(i int) *handle) {
	began := time.Now()
	if c.brief {
		most = least
	}
	for round := 0; round < least || round < most && time.Since(began) < raceTime; round++ {
		id := c.newID()
		contents := make([][]byte, n)
		for i := range contents {
			size := 1000 // half of them of one size: a comparison of sizes must not be enough
			if round%6 == 5 {
				size = c.size(largeSize) - n // stores may create what is larger in another way
			}
			if (i+round)%2 == 1 { // by turns, because one of the goroutines tends to win
				size += i
			}
			contents[i] = c.bytes(size)
		}
		errs := make([]error, n)
		c.together(n, func(i int) { errs[i] = pick(i).UploadSegment(c.Context(), id, contents[i]) })
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won >= 0:
				c.Fatalf("round %d: creates %d and %d of one segment with different bytes have both succeeded", round, won, i)
			case err == nil:
				won = i
			case !errors.Is(err, walstorage.ErrSegmentExists):
				c.Fatalf("round %d: a create that lost the race got %v, want ErrSegmentExists", round, err)
			}
		}
		if won < 0 {
			c.Fatalf("round %d: none of %d creates has succeeded", round, n)
		}
		for i := range min(n, 3) {
			c.wantWhole(pick(i), id, contents[won], fmt.Sprintf("round %d: the winner's segment", round))
		}
	}
}

// errLostAnswer is the cause of an attempt that has worked and whose answer did not come back.
var errLostAnswer = errors.New("connection reset before the answer")

// markedError stands for an error type of a store's own library.
type markedError struct{ error }

// recordedErrors collects errors of several goroutines.
type recordedErrors struct {
	mu   sync.Mutex
	errs []error
}

func (r *recordedErrors) add(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// put is one attempt to create an object through a driver.
func put(ctx context.Context, driver objectstore.Driver, key string, data []byte) error {
	return putChecked(ctx, driver, key, data, crc32c(data))
}

// putChecked is put with a checksum that may be wrong.
func putChecked(ctx context.Context, driver objectstore.Driver, key string, data []byte, checksum uint32) error {
	body := objectstore.NewBody(bytes.Clone(data))
	defer body.Revoke()
	return driver.Put(ctx, key, body, checksum)
}
