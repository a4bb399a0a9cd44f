package conformance

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// faultCall is one call of a manager through the proxy.
type faultCall struct {
	op walstorage.Op
	// run makes the call, and fails the case where it gives a wrong answer without an error.
	run func(ctx context.Context, h *handle) error
	// settled checks, past the proxy, that the store is as it should be after the call has succeeded.
	settled func(situation string)
}

// faultCallSize is the size of the segments of such calls: more than a page, less than a buffer of any transport.
const faultCallSize = 5000

// call prepares a call of the operation. It runs without faults until the next script.
func (c *T) call(op walstorage.Op) faultCall {
	c.wire.proxy.Script(nil)
	clean, id, data := c.direct(), c.newID(), c.bytes(faultCallSize)
	c.know(id, data)
	call := faultCall{op: op, settled: func(situation string) { c.wantWhole(clean, id, data, situation) }}
	if op == walstorage.OpUpload {
		call.run = func(ctx context.Context, h *handle) error { return h.UploadSegment(ctx, id, data) }
		return call
	}
	c.upload(clean, id, data)
	switch op {
	case walstorage.OpFetch:
		call.run = func(ctx context.Context, h *handle) error {
			const offset = 1001
			dst := make([]byte, 2003)
			err := h.FetchSegment(ctx, id, offset, dst)
			if err == nil {
				c.wantBytes(data[offset:offset+len(dst)], dst, "fetched")
			}
			return err
		}
	case walstorage.OpStat:
		call.run = func(ctx context.Context, h *handle) error {
			info, err := h.StatSegment(ctx, id)
			if err == nil {
				require.Equal(c, int64(len(data)), info.Size, "size told by StatSegment")
			}
			return err
		}
	case walstorage.OpDelete:
		call.run = func(ctx context.Context, h *handle) error { return h.DeleteSegments(ctx, id) }
		call.settled = func(situation string) { c.wantMissing(clean, id, situation) }
	case walstorage.OpList:
		call.run = func(ctx context.Context, h *handle) error {
			found := false
			for info, err := range h.ListSegments(ctx, walstorage.ListOptions{}) {
				if err != nil {
					return err
				}
				found = found || info.ID == id
			}
			require.True(c, found, "the list has ended without an error and without a segment that is stored")
			return nil
		}
	default:
		c.Fatalf("no call of %q", op)
	}
	return call
}

// everyOp are the operations of a manager.
var everyOp = []walstorage.Op{walstorage.OpUpload, walstorage.OpFetch, walstorage.OpStat, walstorage.OpDelete, walstorage.OpList}

// requestsOf returns how many requests of its operation a call takes on which nothing goes wrong. It looks once in a case.
func (c *T) requestsOf(op walstorage.Op, h *handle) int {
	if n := c.wire.usual[op]; n > 0 {
		return n
	}
	call := c.call(op)
	require.NoError(c, call.run(c.Context(), h), "%s without a fault", op)
	call.settled(fmt.Sprintf("after %s without a fault", op))
	n := c.wire.proxy.Count(string(op))
	require.Positive(c, n, "no request of %s came over the wire: does the handle use the endpoint, and does FaultsConfig.Operation know its requests?", op)
	c.wire.usual[op] = n
	return n
}

// direct returns the handle of the case that bypasses the proxy's faults.
func (c *T) direct() *handle {
	if c.wire.direct == nil {
		c.wire.direct = c.open()
	}
	return c.wire.direct
}
