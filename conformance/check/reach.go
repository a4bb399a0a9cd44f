package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/walhop/walhop/walstorage"
)

// reach makes every call once, on each handle, so that a wrong name, a missing permission or a store that is down is told
// at once and once, and not by every case in its own way. Deletes come before the only upload: where they are refused
// nothing is stored that would have to stay, and creates are not tried. Reads are tried before it too, on a segment that
// never was: a refusal shows although there is nothing to read. "Not found" is the right answer; a store that says 403 of
// what is missing wants a permission as well, which is that to list on Amazon S3.
func (c *checker) reach() {
	ctx, cancel := context.WithTimeout(c.ctx, reachTimeout)
	defer cancel()
	c.ctx = ctx
	var refused []string
	// call makes one of the calls. ok is false if it was refused; then it has been recorded. What else may be wrong with
	// it is the business of other cases, and recorded where strict is set.
	call := func(h *handle, name string, strict bool, do func() error) (ok bool) {
		if c.useless != "" {
			return false
		}
		situation := name + " through " + h.name
		err := c.again(do)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil, errors.Is(err, walstorage.ErrUnavailable):
			c.useless = "the store does not answer, see A1"
		case errors.Is(err, walstorage.ErrBucketNotFound):
			c.useless = "the bucket is missing, see A1"
		case errors.Is(err, walstorage.ErrClosed):
			c.useless = "the manager is closed, see A1"
		case errors.Is(err, walstorage.ErrAccessDenied), errors.Is(err, walstorage.ErrNoSpace):
			refused = append(refused, situation)
		default:
			if strict {
				c.fail("%s: got an error: %w", situation, err)
			}
			return !strict
		}
		c.fail("%s: got an error: %w", situation, err)
		return false
	}
	canDelete := true
	for _, h := range c.handles {
		call(h, "a list", true, func() error { _, err := h.list(ctx, c.within(0, time.Minute)); return err })
		missing := c.id(0)
		call(h, "a fetch of a segment that never was", false, func() error { return h.fetch(ctx, missing, 0, make([]byte, 1)) })
		call(h, "a stat of a segment that never was", false, func() error { _, err := h.stat(ctx, missing); return err })
		if !call(h, "a delete of a segment that never was", false, func() error { return h.remove(ctx, missing) }) {
			canDelete = false
		}
	}
	if canDelete {
		id, data := c.id(0), c.bytes(8)
		if call(c.handles[0], "an upload", true, func() error { return c.handles[0].upload(ctx, id, data) }) {
			for _, h := range c.handles {
				call(h, "a fetch", true, func() error { return h.fetch(ctx, id, 0, make([]byte, len(data))) })
				call(h, "a stat", true, func() error { _, err := h.stat(ctx, id); return err })
			}
			call(c.handles[0], "a delete", true, func() error { return c.handles[0].remove(ctx, id) })
		}
	}
	if len(refused) > 0 && c.useless == "" {
		c.useless = fmt.Sprintf("the store refuses %s, see A1", strings.Join(refused, " and "))
	}
}

// again repeats a call that finds the store busy: not every manager repeats by itself.
func (c *checker) again(do func() error) (err error) {
	for range 3 {
		if err = do(); !errors.Is(err, walstorage.ErrUnavailable) || c.ctx.Err() != nil {
			return err
		}
		c.pause(c.ctx, time.Second)
	}
	return err
}
