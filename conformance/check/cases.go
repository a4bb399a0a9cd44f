package check

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/walhop/walhop/walstorage"
)

// cases are run in this order. Each stores what it needs and leaves the removal to the end of the check, except where it
// is about deletes.
var cases = []testCase{
	{
		id: "A1", rule: "W3", title: "the first operations on a fresh handle work",
		means: "No broker can use the store as it is. The bucket's name, the credentials, their permissions or the way to the store are to be put right first.",
		run:   (*checker).reach,
	},
	{
		id: "B1", rule: "W4", title: "segments of every size come back byte for byte",
		means: "Bytes that are changed on the way are found by their checksum, but each costs a fallback to the leader across zones.",
		run: func(c *checker) {
			for _, size := range []int{0, 1, 4097, c.options.Size} {
				data := c.bytes(size)
				if id, ok := c.stored(data); ok {
					c.wantWhole(c.handles[0], id, data, "after its upload")
				}
			}
		},
	},
	{
		id: "B4", rule: "W3", twoHandles: true, title: "a segment can be read and listed on another handle as soon as its upload has returned",
		means: "The leader publishes where the bytes are as soon as the upload returns; followers would look for a segment that is not there.",
		run: func(c *checker) {
			writer, reader := c.handles[0], c.handles[1]
			data, id := c.bytes(1000), c.id(0)
			// The reader has looked before, so that an answer it remembers would show.
			c.wantMissing(reader, id, "before the upload")
			if c.upload(writer, id, data) {
				c.wantWhole(reader, id, data, "at once after the upload")
				c.wantListed(reader, c.within(0, time.Minute), []walstorage.SegmentID{id}, nil, "at once after the upload")
			}
		},
	},
	{
		id: "B8", rule: "W5", title: "an upload does not change the data that it is given, whatever comes of it",
		means: "The leader's buffer is changed under it, and with it what it stores next.",
		run: func(c *checker) {
			data := c.bytes(4097)
			before := bytes.Clone(data)
			id, ok := c.stored(data)
			if !bytes.Equal(before, data) {
				c.fail("an upload has changed the caller's data")
			}
			if !ok {
				return
			}
			data[0] ^= 1
			before = bytes.Clone(data)
			_ = c.handles[0].upload(c.ctx, id, data) // what it returns is the business of C1
			if !bytes.Equal(before, data) {
				c.fail("a refused upload has changed the caller's data")
			}
		},
	},
	{
		id: "B13", rule: "W2", title: "the same upload again succeeds and changes nothing; other bytes of the same size are refused",
		means: "A leader whose answer was lost gives up a segment that is stored, or overwrites bytes that followers have read.",
		run: func(c *checker) {
			for _, size := range []int{0, 1000} {
				data := c.bytes(size)
				id, ok := c.stored(data)
				if !ok {
					continue
				}
				for _, h := range c.handles {
					c.wantNil(h.upload(c.ctx, id, bytes.Clone(data)), fmt.Sprintf("the same %d bytes again through %s", size, h.name))
				}
				if size > 0 {
					changed := bytes.Clone(data)
					changed[size-1] ^= 1
					c.wantKind(c.handles[0].upload(c.ctx, id, changed), walstorage.ErrSegmentExists, "other bytes of the same size")
				}
				c.wantWhole(c.handles[0], id, data, "after repeated uploads")
			}
		},
	},
	{
		id: "C1", rule: "W2", title: "a second create with other bytes is ErrSegmentExists and leaves the bytes alone",
		means: "Bytes that a follower has been told about can change under it.",
		run: func(c *checker) {
			data := c.bytes(2000)
			id, ok := c.stored(data)
			if !ok {
				return
			}
			for _, h := range c.handles {
				for _, size := range []int{0, 1999, 2001} {
					c.wantKind(h.upload(c.ctx, id, c.bytes(size)), walstorage.ErrSegmentExists,
						fmt.Sprintf("%d other bytes over a segment of 2000 through %s", size, h.name))
				}
			}
			c.wantWhole(c.handles[0], id, data, "after refused creates")
		},
	},
	{
		id: "C2", rule: "W2", title: "of eight creates at once on one handle exactly one wins, and its bytes are stored",
		means: "Two writers both believe that their bytes are stored, and the followers of one read those of the other.",
		run:   func(c *checker) { c.race(func(int) *handle { return c.handles[0] }) },
	},
	{
		id: "C3", rule: "W2", twoHandles: true, title: "of eight creates at once on two handles exactly one wins, and its bytes are stored",
		means: "A lock within one handle keeps no other broker out: two machines both believe that they wrote the segment.",
		run:   func(c *checker) { c.race(func(i int) *handle { return c.handles[i%2] }) },
	},
	{
		id: "D1", rule: "W6", title: "the whole segment, its first byte, its last and bytes from its middle",
		means: shortRead,
		run: func(c *checker) {
			data := c.bytes(10)
			if id, ok := c.stored(data); ok {
				for _, r := range [][2]int{{0, 10}, {0, 1}, {9, 1}, {3, 4}} {
					c.wantRange(c.handles[0], id, data, r[0], r[1], "a range within")
				}
			}
		},
	},
	{
		id: "D2", rule: "W6", title: "from any offset to the end",
		means: shortRead,
		run: func(c *checker) {
			data := c.bytes(5000)
			if id, ok := c.stored(data); ok {
				for _, offset := range []int{1, 511, 4096, 4999} {
					c.wantRange(c.handles[0], id, data, offset, len(data)-offset, "to the end")
				}
			}
		},
	},
	{
		id: "D3", rule: "W6", title: "a range that ends beyond the segment is ErrInvalidRange, and is never cut short",
		means: shortRead,
		run: func(c *checker) {
			if id, ok := c.stored(c.bytes(10)); ok {
				for _, r := range [][2]int{{0, 11}, {5, 10}, {9, 2}} {
					c.wantInvalidRange(id, 10, int64(r[0]), r[1])
				}
			}
		},
	},
	{
		id: "D4", rule: "W6", title: "a range that begins at the end of the segment is ErrInvalidRange",
		means: shortRead,
		run: func(c *checker) {
			if id, ok := c.stored(c.bytes(10)); ok {
				c.wantInvalidRange(id, 10, 10, 1)
			}
		},
	},
	{
		id: "D5", rule: "W6", title: "a range that begins beyond the end is ErrInvalidRange, not a missing segment",
		means: "A follower takes a segment that is there for missing, and goes back to the leader across zones.",
		run: func(c *checker) {
			if id, ok := c.stored(c.bytes(10)); ok {
				for _, offset := range []int64{11, 1 << 40} {
					c.wantInvalidRange(id, 10, offset, 1)
				}
			}
		},
	},
	{
		id: "D6", rule: "W6", title: "an empty dst is nil, wherever the range begins and whether the segment is there or not",
		means: "A range of no bytes has no form in HTTP: stores answer with the whole object, which overruns the buffer.",
		run: func(c *checker) {
			missing := c.id(0)
			id, ok := c.stored(c.bytes(10))
			if !ok {
				return
			}
			for _, offset := range []int64{0, 3, 10, 11, math.MaxInt64} {
				c.wantNil(c.handles[0].fetch(c.ctx, id, offset, nil), fmt.Sprintf("an empty dst at offset %d", offset))
				c.wantNil(c.handles[0].fetch(c.ctx, missing, offset, []byte{}), fmt.Sprintf("an empty dst at offset %d of a missing segment", offset))
			}
		},
	},
	{
		id: "D7", rule: "W7", title: "a negative offset and an id that names no segment are ErrInvalidArgument",
		means: "A request that can never succeed is sent and tried again, or names an object that is no segment.",
		run: func(c *checker) {
			id, ok := c.stored(c.bytes(10))
			if !ok {
				return
			}
			h := c.handles[0]
			for _, offset := range []int64{-1, math.MinInt64} {
				c.wantKind(h.fetch(c.ctx, id, offset, make([]byte, 1)), walstorage.ErrInvalidArgument, fmt.Sprintf("offset %d", offset))
			}
			// Nothing is uploaded or deleted under a wrong id: were it taken, there would be no telling what was touched.
			wrong := c.id(0)
			wrong.UUID = uuid.UUID{0: 1, 6: 0x40, 8: 0x80} // of version 4
			for _, id := range []walstorage.SegmentID{{}, wrong} {
				c.wantKind(h.fetch(c.ctx, id, 0, make([]byte, 1)), walstorage.ErrInvalidArgument, fmt.Sprintf("fetching %s, which names no segment", id))
				_, err := h.stat(c.ctx, id)
				c.wantKind(err, walstorage.ErrInvalidArgument, fmt.Sprintf("stat of %s, which names no segment", id))
			}
		},
	},
	{
		id: "D9", rule: "W6", title: "every range of an empty segment but the empty one is ErrInvalidRange",
		means: shortRead,
		run: func(c *checker) {
			if id, ok := c.stored(nil); ok {
				c.wantInvalidRange(id, 0, 0, 1)
				c.wantInvalidRange(id, 0, 1, 1)
			}
		},
	},
	{
		id: "E6", rule: "W10", title: "sizes are right in lists",
		means: "Whoever budgets memory or counts bytes by a list is wrong about what the store holds.",
		run: func(c *checker) {
			sizes := make(map[walstorage.SegmentID]int64)
			for _, size := range []int{0, 1, 4097} {
				if id, ok := c.stored(c.bytes(size)); ok {
					sizes[id] = int64(size)
				}
			}
			// Whether all are there is the business of E7.
			for id, info := range c.wantListed(c.handles[0], c.within(0, time.Minute), nil, nil, "three sizes") {
				if size, ok := sizes[id]; ok && info.Size != size {
					c.fail("segment %s has %d bytes, the list says %d", id, size, info.Size)
				}
			}
		},
	},
	{
		id: "E7", rule: "W10", title: "a list sees every upload and delete that has returned before it, on any handle",
		means: "The sweeper deletes what the list shows: a segment that it does not show is kept and paid for for ever.",
		run: func(c *checker) {
			writer, deleter := c.handles[0], c.handles[len(c.handles)-1]
			var there, gone []walstorage.SegmentID
			for round := range 3 {
				id, ok := c.stored(c.bytes(100))
				if !ok {
					return
				}
				there = append(there, id)
				for _, h := range c.handles {
					c.wantListed(h, c.within(0, time.Minute), there, gone, fmt.Sprintf("round %d, after an upload", round))
				}
			}
			if !c.wantNil(deleter.remove(c.ctx, there[0]), "a delete") {
				return
			}
			there, gone = there[1:], there[:1]
			for _, h := range []*handle{deleter, writer} {
				c.wantListed(h, c.within(0, time.Minute), there, gone, "after a delete")
			}
			c.wantListed(writer, walstorage.ListOptions{BrokerID: &c.options.BrokerID}, there, gone, "without bounds, after a delete")
		},
	},
	{
		id: "E25", rule: "W10", title: "the options of a list select by broker and creation time exactly",
		means: "The sweeper lists by these bounds: what falls between them is never deleted, or is deleted too early.",
		run: func(c *checker) {
			offsets := []time.Duration{-time.Hour, -time.Millisecond, 0, time.Millisecond, time.Hour}
			var ids []walstorage.SegmentID
			for _, offset := range offsets {
				id := c.id(offset)
				if !c.upload(c.handles[0], id, []byte{1}) {
					return
				}
				ids = append(ids, id)
			}
			for _, r := range [][2]time.Duration{
				{-reach, reach}, {-time.Hour, time.Hour}, {-time.Millisecond, time.Millisecond}, {0, time.Millisecond}, {time.Millisecond, reach},
			} {
				options := c.within(r[0], r[1])
				var there, outside []walstorage.SegmentID
				for _, id := range ids {
					if options.Match(id) {
						there = append(there, id)
					} else {
						outside = append(outside, id)
					}
				}
				situation := fmt.Sprintf("from %v to %v around the start of the check", r[0], r[1])
				wrong := 0
				for id := range c.wantListed(c.handles[0], options, there, outside, situation) {
					if !options.Match(id) {
						wrong++
					}
				}
				if wrong > 0 {
					c.fail("a list %s: %d segments that the options exclude", situation, wrong)
				}
			}
			nothing := c.within(time.Minute, -time.Minute)
			c.wantListed(c.handles[0], nothing, nil, ids, "with bounds that hold nothing")
		},
	},
	{
		id: "F1", rule: "W9", title: "a deleted segment is gone for reads, ranges, stats and lists, on every handle",
		means: notDeleted,
		run: func(c *checker) {
			id, ok := c.stored(c.bytes(1000))
			if !ok || !c.wantNil(c.handles[0].remove(c.ctx, id), "a delete") {
				return
			}
			for _, h := range c.handles {
				c.wantMissing(h, id, "after its delete")
				c.wantListed(h, c.within(0, time.Minute), nil, []walstorage.SegmentID{id}, "after a delete")
			}
		},
	},
	{
		id: "F2", rule: "W9", title: "deleting a segment that does not exist is success",
		means: "A sweep whose answer was lost fails for ever after.",
		run: func(c *checker) {
			c.wantNil(c.handles[0].remove(c.ctx, c.id(0)), "a delete of a segment that never was")
			if id, ok := c.stored(c.bytes(10)); ok {
				if c.wantNil(c.handles[0].remove(c.ctx, c.id(0), id), "one that is missing and one that is there") {
					c.wantMissing(c.handles[0], id, "deleted together with a missing one")
				}
			}
		},
	},
	{
		id: "F3", rule: "W9", title: "deleting twice, one after the other and at once, is success",
		means: "A sweep whose answer was lost fails for ever after.",
		run: func(c *checker) {
			if id, ok := c.stored(c.bytes(100)); ok {
				if c.wantNil(c.handles[0].remove(c.ctx, id), "the first delete") {
					c.wantNil(c.handles[0].remove(c.ctx, id), "the second delete")
				}
			}
			id, ok := c.stored(c.bytes(100))
			if !ok {
				return
			}
			errs := make([]error, 4)
			together(len(errs), func(i int) { errs[i] = c.handles[i%len(c.handles)].remove(c.ctx, id) })
			var problems reasons
			for _, err := range errs {
				problems.add(err)
			}
			if c.wantNil(problems.join(), "four deletes of one segment at once") {
				c.wantMissing(c.handles[0], id, "deleted four times at once")
			}
		},
	},
	{
		id: "F5", rule: "W9", title: "no ids, many ids and repeated ids are all deleted in one call",
		means: notDeleted,
		run: func(c *checker) {
			h := c.handles[0]
			c.wantNil(h.remove(c.ctx), "a delete of no segments")
			stays := c.bytes(10)
			staysID, ok := c.stored(stays)
			if !ok {
				return
			}
			// Most name nothing: they count as deleted, and cost no upload.
			var ids, there []walstorage.SegmentID
			for i := range 20 {
				id := c.id(0)
				ids = append(ids, id)
				if i == 0 || i == 10 || i == 19 {
					if !c.upload(h, id, []byte{1}) {
						return
					}
					there = append(there, id)
				}
			}
			ids = slices.Insert(ids, 11, there[1], there[1]) // the first and the last are named once
			if c.wantNil(h.remove(c.ctx, ids...), "a delete of twenty, one of them named three times") {
				for _, id := range there {
					c.wantMissing(h, id, "deleted together with others")
				}
			}
			c.wantWhole(h, staysID, stays, "which no delete has named")
		},
	},
	{
		id: "H1", rule: "W8", title: "a context cancelled before the call: context.Canceled, and nothing has changed",
		means: "A broker that has resigned goes on writing and deleting.",
		run: func(c *checker) {
			h := c.handles[0]
			data, never := c.bytes(100), c.id(0)
			there, ok := c.stored(data)
			if !ok {
				return
			}
			ctx := c.cancelled()
			calls := map[string]func() error{
				"upload": func() error { return h.upload(ctx, never, data) },
				"fetch":  func() error { return h.fetch(ctx, there, 0, make([]byte, 1)) },
				"stat":   func() error { _, err := h.stat(ctx, there); return err },
				"delete": func() error { return h.remove(ctx, there) },
				"list":   func() error { _, err := h.list(ctx, c.within(0, time.Minute)); return err },
			}
			for _, name := range slices.Sorted(maps.Keys(calls)) {
				c.wantKind(calls[name](), context.Canceled, name+" with a cancelled context")
			}
			c.wantMissing(h, never, "whose upload had a cancelled context")
			c.wantWhole(h, there, data, "whose delete had a cancelled context")
		},
	},
	{
		id: "I2", rule: "W7", title: "fetch, range and stat of a missing segment give the same ErrSegmentNotFound, whether it never was or is gone",
		means: "Followers decide by the kind: a refused request taken for a missing segment hides a wrong permission for days, and the other way round.",
		run: func(c *checker) {
			never, elsewhere := c.id(0), c.id(-reach) // of a minute in which the check stores nothing
			gone, ok := c.stored(c.bytes(100))
			for _, h := range c.handles {
				c.wantMissing(h, never, "of a segment that never was")
				c.wantMissing(h, elsewhere, "of a segment of a minute in which nothing was stored")
			}
			if ok && c.wantNil(c.handles[0].remove(c.ctx, gone), "a delete") {
				c.wantMissing(c.handles[0], gone, "of a segment that was deleted")
			}
		},
	},
	{
		id: "K6", rule: "W4", title: "nothing is decompressed or converted because of what it looks like",
		means: "A compressed segment comes back longer or shorter than it was stored, and every offset in it is wrong.",
		run: func(c *checker) {
			var zipped bytes.Buffer
			w := gzip.NewWriter(&zipped)
			_, _ = w.Write(bytes.Repeat([]byte("a text that compresses well "), 100)) // into memory: never fails
			_ = w.Close()
			for _, sample := range []struct {
				name string
				data []byte
			}{{"a gzip file", zipped.Bytes()}, {"the magic of gzip and nothing behind", []byte{0x1f, 0x8b}}} {
				name, data := sample.name, sample.data
				if id, ok := c.stored(data); ok {
					for _, h := range c.handles {
						c.wantWhole(h, id, data, name)
					}
				}
			}
		},
	},
}

const (
	shortRead  = "A short read without an error leaves old bytes of another segment in the buffer, which look like records."
	notDeleted = "Segments believed deleted stay for ever: the user pays for them, and data that should be gone by its retention is not."
)
