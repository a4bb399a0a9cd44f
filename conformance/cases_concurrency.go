package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// Group L: many calls at once, and nothing is used up by making them.
var concurrencyCases = []testCase{
	{
		id: "L1", priority: 1, rule: "W12",
		title: "forty callers with segments of their own do not disturb each other",
		run: func(c *T) {
			m := c.open()
			const callers = 40
			ids := c.newIDs(callers)
			contents := make([][]byte, callers)
			for i := range contents {
				contents[i] = c.bytes(c.size(1000 + 500*i))
			}
			var errs recordedErrors
			c.together(callers, func(i int) {
				ctx := c.Context()
				errs.add(m.UploadSegment(ctx, ids[i], contents[i]))
				there, problem := wholeOrMissing(ctx, m, ids[i], contents[i])
				if problem == "" && !there {
					problem = "the segment is not there after its upload"
				}
				if problem != "" {
					errs.add(fmt.Errorf("caller %d: %s", i, problem))
				}
				if i%2 == 1 {
					errs.add(m.DeleteSegments(ctx, ids[i]))
				}
			})
			require.Empty(c, errs.errs)
			var stays []walstorage.SegmentID
			for i := 0; i < callers; i += 2 {
				stays = append(stays, ids[i])
			}
			c.wantListed(m, walstorage.ListOptions{}, stays, "after forty callers of which half deleted theirs")
		},
	},
	{
		id: "L2", priority: 1, rule: "W12",
		title: "workers that upload, fetch, stat, list and delete at random see what a model says",
		run: func(c *T) {
			handles := []*handle{c.open(), c.open()}
			const workers, steps = 8, 60
			ids := make([][]walstorage.SegmentID, workers)
			for i := range ids {
				ids[i] = c.newIDs(5)
			}
			problems := make([]string, workers)
			c.together(workers, func(i int) { problems[i] = c.work(handles, ids[i], i, steps) })
			for i, problem := range problems {
				if problem != "" {
					c.Errorf("worker %d (seed %d): %s", i, c.seed, problem)
				}
			}
		},
	},
	{
		id: "L3", priority: 1, rule: "W2",
		title: "many uploads of the same bytes at once all succeed",
		costs: "Two attempts of one leader fail each other, and a segment that is stored is given up.",
		run: func(c *T) {
			handles := []*handle{c.open(), c.open()}
			for round := range 10 {
				data, id := c.bytes(5000), c.newID()
				var errs recordedErrors
				c.together(12, func(i int) { errs.add(handles[i%2].UploadSegment(c.Context(), id, bytes.Clone(data))) })
				require.Empty(c, errs.errs, "round %d: twelve uploads of the same bytes", round)
				c.wantWhole(handles[0], id, data, fmt.Sprintf("round %d", round))
			}
		},
	},
	{
		id: "L4", priority: 1, rule: "W2",
		title: "a reader beside refused overwrites always sees the first bytes, whole",
		run: func(c *T) {
			writer, reader := c.open(), c.open()
			data := c.bytes(c.size(64 << 10))
			id := c.uploadNew(writer, data)
			others := make([][]byte, 10)
			for i := range others {
				others[i] = c.bytes(len(data))
			}
			var errs recordedErrors
			var problem string
			c.together(2, func(i int) {
				for _, other := range others {
					if i == 0 {
						if err := writer.UploadSegment(c.Context(), id, other); !errors.Is(err, walstorage.ErrSegmentExists) {
							errs.add(fmt.Errorf("an overwrite got %v, want ErrSegmentExists", err))
						}
						continue
					}
					there, p := wholeOrMissing(c.Context(), reader, id, data)
					if p == "" && !there {
						p = "the segment is missing"
					}
					if problem == "" {
						problem = p
					}
				}
			})
			require.Empty(c, errs.errs)
			require.Empty(c, problem, "a reader beside overwrites")
		},
	},
	{
		id: "L5", priority: 1, rule: "W12",
		title: "all methods at once on one handle",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(3000)
			id := c.uploadNew(m, data)
			const callers = 20
			own := c.newIDs(callers * 10)
			var errs recordedErrors
			c.together(callers, func(i int) {
				ctx := c.Context()
				for n := range 10 {
					switch (i + n) % 5 {
					case 0:
						errs.add(m.UploadSegment(ctx, own[i*10+n], data))
					case 1:
						dst := make([]byte, 1000)
						err := m.FetchSegment(ctx, id, 500, dst)
						if err == nil && !bytes.Equal(dst, data[500:1500]) {
							err = errors.New("a fetch got wrong bytes")
						}
						errs.add(err)
					case 2:
						info, err := m.StatSegment(ctx, id)
						if err == nil && info.Size != int64(len(data)) {
							err = fmt.Errorf("a stat got size %d", info.Size)
						}
						errs.add(err)
					case 3:
						errs.add(m.DeleteSegments(ctx, own[i*10+n-min(n, 3)]))
					case 4:
						found := false
						for info, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
							errs.add(err)
							found = found || info.ID == id
						}
						if !found {
							errs.add(errors.New("a list lacks a segment that was there all the time"))
						}
					}
				}
			})
			require.Empty(c, errs.errs)
			c.wantWhole(m, id, data, "after all methods at once")
		},
	},
	historyCase,
	{
		id: "L7", priority: 1, rule: "W5",
		title: "a buffer that is overwritten right after a cancelled upload has returned never shows in the store (mem9-ai/drive9#845)",
		costs: "A segment holds bytes of the next one: its checksum fails at every follower, or worse, it was computed late and does not.",
		run: func(c *T) {
			m, other := c.open(), c.open()
			size := c.size(32 << 10)
			buffer, original := make([]byte, size), c.bytes(size)
			ids := c.newIDs(60)
			for i, id := range ids {
				copy(buffer, original)
				ctx, cancel := context.WithCancel(c.Context())
				timer := time.AfterFunc(time.Duration(i*20)*time.Microsecond, cancel)
				_ = m.UploadSegment(ctx, id, buffer) // whatever comes of it
				reused(buffer)
				timer.Stop()
				cancel()
			}
			for _, id := range ids {
				c.wantWholeOrMissing(other, id, original, "a cancelled upload whose buffer was overwritten after its return")
			}
			// The same for what a fetch fills.
			id := c.uploadNew(m, original)
			pattern := make([]byte, size)
			reused(pattern)
			buffers := make([][]byte, 30)
			for i := range buffers {
				buffers[i] = make([]byte, size)
				ctx, cancel := context.WithCancel(c.Context())
				timer := time.AfterFunc(time.Duration(i*20)*time.Microsecond, cancel)
				_ = m.FetchSegment(ctx, id, 0, buffers[i]) // whatever comes of it
				reused(buffers[i])
				timer.Stop()
				cancel()
			}
			c.wantWhole(m, id, original, "after cancelled fetches")
			for _, buffer := range buffers {
				c.wantBytes(pattern, buffer, "a buffer whose cancelled fetch has returned")
			}
		},
	},
	{
		id: "L10", priority: 1, rule: "W12",
		title: "hundreds of calls, failed and cancelled ones among them, leave no open files, no goroutines and no buffers behind",
		costs: "A broker that uploads a hundred segments a second runs out of file descriptors or of memory within the hour.",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(500)
			id := c.newIDAt(1, 0, time.Now().Add(-time.Minute)) // a wrong delete of others of the same time is not what is asked here
			c.upload(m, id, data)
			cancelled, cancel := context.WithCancel(c.Context())
			cancel()
			const rounds = 20
			var buffers []weak.Pointer[byte] // of what was uploaded and fetched
			run := func() {
				for range rounds {
					own, uploaded, fetched := c.newID(), bytes.Clone(data), make([]byte, len(data))
					buffers = append(buffers, weak.Make(&uploaded[0]), weak.Make(&fetched[0]))
					c.upload(m, own, uploaded)
					require.NoError(c, m.FetchSegment(c.Context(), own, 0, fetched))
					c.wantWhole(m, own, data, "one of many")
					c.wantKind(m.UploadSegment(c.Context(), id, data[:100]), walstorage.ErrSegmentExists, "other bytes")
					c.wantKind(m.FetchSegment(c.Context(), id, 400, make([]byte, 200)), walstorage.ErrInvalidRange, "beyond the end")
					c.wantKind(m.FetchSegment(cancelled, id, 0, make([]byte, 10)), context.Canceled, "cancelled")
					require.NoError(c, m.DeleteSegments(c.Context(), own))
					for range m.ListSegments(c.Context(), walstorage.ListOptions{}) {
						break
					}
				}
			}
			kept := func() (n int) {
				runtime.GC()
				for _, buffer := range buffers {
					if buffer.Value() != nil {
						n++
					}
				}
				return n
			}
			// What ends with Close alone must not grow as long as the broker runs. The first run fills what a store fills as it is
			// used: pools of connections, of workers, of buffers, however large. And growth counts only if it is there each time:
			// what is filled more slowly comes to its end, and other tests of the process may open files meanwhile, more than 40
			// on a loaded machine. A leak of one in each round is always there.
			run()
			filesGrow, goroutinesGrow, buffersGrow := true, true, true // each time
			for try := 1; filesGrow || goroutinesGrow || buffersGrow; try++ {
				files, counted := openFiles()
				running, held := c.label.count(c.shared), kept()
				run()
				after, _ := openFiles()
				fewGoroutines := func() bool { return c.label.count(c.shared) < running+rounds/2 }
				fewBuffers := func() bool { return kept() < held+rounds/2 }
				filesGrow = filesGrow && after-files >= rounds
				goroutinesGrow = goroutinesGrow && !fewGoroutines()
				buffersGrow = buffersGrow && !fewBuffers()
				if try == 1 && !counted {
					c.Logf("open files cannot be counted on this system; goroutines are, as after every case")
				}
				if try < 3 {
					continue
				}
				if filesGrow {
					c.Errorf("%d files more are open after %d rounds of nine calls, and so it was each of %d times", after-files, rounds, try)
				}
				// What ends a moment after its call may be late each time.
				situation := fmt.Sprintf("%d rounds of nine calls have ended, and less than %d more ", rounds, rounds/2)
				if goroutinesGrow && !c.poll(fewGoroutines, situation+"goroutines run than before") {
					break
				}
				if buffersGrow {
					c.poll(fewBuffers, situation+"of the buffers that they were given are held than before")
				}
				break
			}
		},
	},
	{
		id: "L11", priority: 2, rule: "W12",
		title: "a hundred handles opened, used and closed",
		run: func(c *T) {
			setup := c.open()
			data := c.bytes(100)
			id := c.uploadNew(setup, data)
			for range 100 {
				m := c.open()
				c.wantWhole(m, id, data, "on one of a hundred handles")
				require.NoError(c, m.Close())
			}
			c.wantWhole(setup, id, data, "after a hundred other handles were closed")
		},
	},
}

// work makes steps random calls about segments of its own and compares each with a model. It returns what is wrong.
func (c *T) work(handles []*handle, ids []walstorage.SegmentID, worker, steps int) string {
	ctx := c.Context()
	random := rand.New(rand.NewPCG(c.seed, uint64(worker)))
	model := make(map[walstorage.SegmentID][]byte)
	for step := range steps {
		m, id := handles[random.IntN(len(handles))], ids[random.IntN(len(ids))]
		stored, there := model[id]
		wrong := func(what string, err error) string {
			return fmt.Sprintf("step %d: %s, the segment is there: %t: %v", step, what, there, err)
		}
		switch random.IntN(6) {
		case 0, 1:
			data := bytes.Repeat([]byte{byte(random.Uint32())}, 1+random.IntN(3000))
			err := m.UploadSegment(ctx, id, data)
			switch {
			case !there && err == nil:
				model[id] = data
			case there && bytes.Equal(stored, data) && err == nil, there && errors.Is(err, walstorage.ErrSegmentExists):
			default:
				return wrong("upload", err)
			}
		case 2:
			if err := m.DeleteSegments(ctx, id); err != nil {
				return wrong("delete", err)
			}
			delete(model, id)
		case 3:
			info, err := m.StatSegment(ctx, id)
			if there && (err != nil || info.Size != int64(len(stored))) || !there && !errors.Is(err, walstorage.ErrSegmentNotFound) {
				return wrong(fmt.Sprintf("stat of %d bytes tells %d", len(stored), info.Size), err)
			}
		case 4:
			offset := 0
			if there {
				offset = random.IntN(len(stored))
			}
			dst := make([]byte, max(1, len(stored)-offset))
			err := m.FetchSegment(ctx, id, int64(offset), dst)
			if there && (err != nil || !bytes.Equal(dst, stored[offset:])) || !there && !errors.Is(err, walstorage.ErrSegmentNotFound) {
				return wrong("fetch", err)
			}
		case 5:
			found := make(map[walstorage.SegmentID]bool)
			for info, err := range m.ListSegments(ctx, walstorage.ListOptions{}) {
				if err != nil {
					return wrong("list", err)
				}
				found[info.ID] = true
			}
			for _, own := range ids {
				if _, there := model[own]; there != found[own] {
					return fmt.Sprintf("step %d: list: segment %s is there: %t, is listed: %t", step, own, there, found[own])
				}
			}
		}
	}
	return ""
}

// openFiles returns the number of files that this process has open, where the system tells.
func openFiles() (n int, ok bool) {
	entries, err := os.ReadDir("/proc/self/fd")
	return len(entries), err == nil
}
