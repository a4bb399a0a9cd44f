package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// id makes a new id of this check, created so long after its start.
func (c *checker) id(after time.Duration) walstorage.SegmentID {
	id, err := walstorage.NewSegmentID(c.options.BrokerID, c.epoch, c.start.Add(after), c.random)
	if err != nil {
		panic(err) // Check has tried the extremes
	}
	return id
}

// bytes makes n random bytes.
func (c *checker) bytes(n int) []byte {
	data := make([]byte, n)
	_, _ = c.random.Read(data) // never fails
	return data
}

// within are the options of a list of this check's broker between two times around its start. There is always a broker
// in them: a list of every broker of a cluster in use may take thousands of requests.
func (c *checker) within(from, to time.Duration) walstorage.ListOptions {
	return walstorage.ListOptions{BrokerID: &c.options.BrokerID, CreatedAfter: c.start.Add(from), CreatedBefore: c.start.Add(to)}
}

// stored uploads data under a new id. ok is false if that failed, which is recorded.
func (c *checker) stored(data []byte) (id walstorage.SegmentID, ok bool) {
	id = c.id(0)
	return id, c.upload(c.handles[0], id, data)
}

func (c *checker) upload(h *handle, id walstorage.SegmentID, data []byte) bool {
	if err := h.upload(c.ctx, id, data); err != nil {
		c.fail("uploading %d bytes: %w", len(data), err)
		return false
	}
	return true
}

// relativeKey is the key of a segment below "<prefix>/<cluster>/", which the check is not told.
func relativeKey(id walstorage.SegmentID) string {
	const cluster = "c"
	keys, err := walstorage.NewKeys("", cluster)
	if err != nil {
		return id.String()
	}
	return strings.TrimPrefix(keys.Key(id), cluster+"/")
}

// reasons are errors of many calls, one of each kind: a store that refuses forty deletes has said one thing.
type reasons []error

func (r *reasons) add(err error) {
	same := func(other error) bool { return walstorage.KindOf(other) == walstorage.KindOf(err) }
	if err != nil && !slices.ContainsFunc(*r, same) {
		*r = append(*r, err)
	}
}

func (r reasons) join() error { return errors.Join(r...) }

// wantNil records an error.
func (c *checker) wantNil(err error, situation string) bool {
	if err != nil {
		c.fail("%s: got an error: %w", situation, err)
	}
	return err == nil
}

// wantKind records an error that is not of the kind given, and of no other.
func (c *checker) wantKind(err, kind error, situation string) {
	switch {
	case err == nil:
		c.fail("%s: succeeded, want %q", situation, kind)
	case !errors.Is(err, kind) || walstorage.KindOf(err) != kind:
		c.fail("%s: want %q, got: %w", situation, kind, err)
	}
}

// wantWhole fetches the segment, whole, and its size.
func (c *checker) wantWhole(h *handle, id walstorage.SegmentID, data []byte, situation string) {
	c.wantRange(h, id, data, 0, len(data), situation)
	info, err := h.stat(c.ctx, id)
	if !c.wantNil(err, "stat, "+situation) {
		return
	}
	if info.Size != int64(len(data)) || info.ID != id {
		c.fail("stat, %s: got segment %s of %d bytes, want %s of %d", situation, info.ID, info.Size, id, len(data))
	}
}

// wantRange fetches n bytes from offset on. The buffer holds other bytes before, as a leader's would, so that a short
// read shows.
func (c *checker) wantRange(h *handle, id walstorage.SegmentID, data []byte, offset, n int, situation string) {
	want := data[offset : offset+n]
	dst := make([]byte, n)
	for i, b := range want {
		dst[i] = ^b
	}
	situation = fmt.Sprintf("fetching [%d,%d) of %d bytes through %s, %s", offset, offset+n, len(data), h.name, situation)
	if !c.wantNil(h.fetch(c.ctx, id, int64(offset), dst), situation) {
		return
	}
	if !bytes.Equal(want, dst) {
		at := 0
		for want[at] == dst[at] {
			at++
		}
		c.fail("%s: the bytes differ, first at %d", situation, at)
	}
}

// wantInvalidRange checks that a range is refused as such.
func (c *checker) wantInvalidRange(id walstorage.SegmentID, size int, offset int64, n int) {
	err := c.handles[0].fetch(c.ctx, id, offset, make([]byte, n))
	c.wantKind(err, walstorage.ErrInvalidRange, fmt.Sprintf("fetching %d bytes from offset %d of a segment of %d", n, offset, size))
}

// wantMissing checks that every way to ask for a segment gives ErrSegmentNotFound.
func (c *checker) wantMissing(h *handle, id walstorage.SegmentID, situation string) {
	situation += " through " + h.name
	c.wantKind(h.fetch(c.ctx, id, 0, make([]byte, 1)), walstorage.ErrSegmentNotFound, "fetch "+situation)
	c.wantKind(h.fetch(c.ctx, id, 50, make([]byte, 10)), walstorage.ErrSegmentNotFound, "range "+situation)
	_, err := h.stat(c.ctx, id)
	c.wantKind(err, walstorage.ErrSegmentNotFound, "stat "+situation)
}

// wantListed checks that a list holds the segments of there and none of gone. What else it holds is of another check,
// and none of this one's business.
func (c *checker) wantListed(h *handle, options walstorage.ListOptions, there, gone []walstorage.SegmentID, situation string) map[walstorage.SegmentID]walstorage.SegmentInfo {
	situation = fmt.Sprintf("a list through %s, %s", h.name, situation)
	found, err := h.list(c.ctx, options)
	if !c.wantNil(err, situation) {
		return nil
	}
	for _, id := range there {
		if _, ok := found[id]; !ok {
			c.fail("%s: segment %s is missing", situation, id)
		}
	}
	for _, id := range gone {
		if _, ok := found[id]; ok {
			c.fail("%s: segment %s should not be there", situation, id)
		}
	}
	return found
}

// race creates one segment from eight goroutines at once, with other bytes each: one wins, and its bytes are stored.
func (c *checker) race(via func(i int) *handle) {
	const racers = 8
	id := c.id(0)
	contents, errs := make([][]byte, racers), make([]error, racers)
	for i := range contents {
		contents[i] = c.bytes(1000)
	}
	together(racers, func(i int) { errs[i] = via(i).upload(c.ctx, id, contents[i]) })
	winner, winners := 0, 0
	var lost reasons
	for i, err := range errs {
		if err == nil {
			winner = i
			winners++
		}
		lost.add(err)
	}
	for _, err := range lost {
		c.wantKind(err, walstorage.ErrSegmentExists, fmt.Sprintf("one of %d creates at once that did not win", racers))
	}
	if winners != 1 {
		c.fail("%d of %d creates at once, with other bytes each, were told that they had stored the segment", winners, racers)
		return
	}
	for _, h := range c.handles {
		c.wantWhole(h, id, contents[winner], "after a race that one has won")
	}
}

// together runs do n times at once and waits.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			do(i)
		})
	}
	close(begin)
	all.Wait()
}

// cancelled is a context of the case that has been cancelled already.
func (c *checker) cancelled() context.Context {
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	return ctx
}
