package conformance

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
)

var faultReadCases = []testCase{
	{
		id: "D13", priority: 1, rule: "W6",
		title: "a server that ignores the range and answers 200 with the whole object: the right bytes, or an error",
		costs: "The first bytes of the segment land where others were asked for: a follower drops them by their checksum, for every slice but the first.",
		run: func(c *T) {
			c.meetsOnce(c.openFaults(), walstorage.OpFetch, faultproxy.Fault{WholeObject: true}, 0, "the range is ignored once")
			m := c.openFaults(attempts(3))
			call := c.call(walstorage.OpFetch)
			c.alwaysOnWire(call.op, faultproxy.Fault{WholeObject: true})
			if err := call.run(c.Context(), m); err != nil { // the bytes of a success have been compared
				c.wantKind(err, walstorage.ErrUnavailable, "the range is ignored always")
			}
		},
	},
	{
		id: "D14", priority: 2, rule: "W6",
		title: "a Content-Range that is not what was asked for, or none: an error, and asked for again",
		costs: "Bytes of another place of the segment pass for those that were asked for.",
		run: func(c *T) {
			for situation, edit := range map[string]func(first, last, total int64) string{
				"it begins later":           func(first, last, total int64) string { return fmt.Sprintf("bytes %d-%d/%d", first+1, last+1, total) },
				"it begins at 0":            func(first, last, total int64) string { return fmt.Sprintf("bytes 0-%d/%d", last-first, total) },
				"it is shorter":             func(first, last, total int64) string { return fmt.Sprintf("bytes %d-%d/%d", first, last-1, total) },
				"it is longer":              func(first, last, total int64) string { return fmt.Sprintf("bytes %d-%d/%d", first, last+1, total) },
				"it has another unit":       func(first, last, total int64) string { return fmt.Sprintf("items %d-%d/%d", first, last, total) },
				"there is none":             func(int64, int64, int64) string { return "" },
				"it does not tell a range":  func(_, _, total int64) string { return fmt.Sprintf("bytes */%d", total) },
				"it is not to be made out":  func(int64, int64, int64) string { return "bytes one to many" },
				"it begins before the 0":    func(_, last, total int64) string { return fmt.Sprintf("bytes -1-%d/%d", last, total) },
				"it ends before it begins":  func(first, _, total int64) string { return fmt.Sprintf("bytes %d-%d/%d", first, first-1, total) },
				"it is longer than 64 bits": func(first, _, _ int64) string { return fmt.Sprintf("bytes %d-99999999999999999999/*", first) },
			} {
				fault := faultproxy.Fault{Edit: func(a *faultproxy.Answer) { rewriteRange(a, edit) }}
				c.meetsOnce(c.openFaults(), walstorage.OpFetch, fault, 0, "Content-Range: "+situation)
				call := c.call(walstorage.OpFetch)
				c.alwaysOnWire(call.op, fault)
				err := call.run(c.Context(), c.openFaults(attempts(2)))
				if err == nil || errors.Is(err, walstorage.ErrSegmentNotFound) {
					c.Errorf("Content-Range: %s, always: got %v, want an error that says so", situation, err)
				}
			}
		},
	},
	{
		id: "J11", priority: 1, rule: "W6",
		title: "a body that is cut short, whether its length tells so or not, is asked for again, or is ErrUnavailable; never short data",
		costs: "A short read without an error leaves old bytes of another segment in the buffer, which look like records.",
		run: func(c *T) {
			m, limited := c.openFaults(), c.openFaults(attempts(3))
			for situation, fault := range map[string]faultproxy.Fault{
				"Content-Length is longer":            {Cut: faultproxy.CutLength, Bytes: 700},
				"nothing of the body comes":           {Cut: faultproxy.CutLength},
				"the last byte is missing":            {Cut: faultproxy.CutLength, Bytes: 2002},
				"a chunked body is cut":               {Cut: faultproxy.CutChunked, Bytes: 700},
				"the body is short and well formed":   {Cut: faultproxy.CutClean, Bytes: 700},
				"the body is empty and well formed":   {Cut: faultproxy.CutClean},
				"one byte less, and well formed":      {Cut: faultproxy.CutClean, Bytes: 2002},
				"the connection is reset in the body": {Reset: faultproxy.InAnswer, Bytes: 700},
			} {
				c.meetsOnce(m, walstorage.OpFetch, fault, 1, situation)
				c.meetsAlways(limited, walstorage.OpFetch, fault, situation)
				c.wantRequests(walstorage.OpFetch, 3, situation+", and three attempts allowed")
			}
			// An answer that says "not found" may be cut too: it is either understood, or asked for again.
			missing := c.newID()
			for _, fault := range []faultproxy.Fault{{Cut: faultproxy.CutLength, Bytes: 30}, {Cut: faultproxy.CutChunked, Bytes: 30}, {Reset: faultproxy.InAnswer, Bytes: 30}} {
				c.onWire(walstorage.OpFetch, fault)
				c.wantKind(m.FetchSegment(c.Context(), missing, 0, make([]byte, 10)), walstorage.ErrSegmentNotFound, "a missing segment, and the answer is cut")
			}
		},
	},
}

var contentRange = regexp.MustCompile(`^bytes (\d+)-(\d+)/(\d+)$`)

// rewriteRange changes the Content-Range of an answer that has one, in whatever header.
func rewriteRange(a *faultproxy.Answer, edit func(first, last, total int64) string) {
	parts := contentRange.FindStringSubmatch(a.Header.Get("Content-Range"))
	if parts == nil {
		return
	}
	var numbers [3]int64
	for i := range numbers {
		numbers[i], _ = strconv.ParseInt(parts[i+1], 10, 64) // digits
	}
	if value := edit(numbers[0], numbers[1], numbers[2]); value != "" {
		a.Header.Set("Content-Range", value)
	} else {
		a.Header.Del("Content-Range")
	}
}

var faultIntegrityCases = []testCase{
	{
		id: "K1", priority: 1, rule: "W4", needs: needFaultsDriver,
		title: "an upload whose checksum is not that of its bytes is ErrCorrupt, and nothing is stored",
		costs: "A segment that was damaged in the leader's memory or on its way is stored as if it were whole.",
		run: func(c *T) {
			driver := c.faultsDriver()
			for _, size := range []int{1, faultCallSize, 300_000} {
				c.wire.proxy.Script(nil)
				id, data := c.newID(), c.bytes(size)
				err := putChecked(c.Context(), driver, c.key(id), data, crc32c(data)^1)
				c.wantKind(err, walstorage.ErrCorrupt, fmt.Sprintf("%d bytes with the checksum of others", size))
				c.wantMissing(c.direct(), id, "after an upload with a wrong checksum")
				require.NoError(c, put(c.Context(), driver, c.key(id), data), "the same upload with the right checksum")
			}
		},
	},
	{
		id: "K2", priority: 1, rule: "W4",
		title: "a bit that changes on the way to the store is noticed: the upload fails with ErrCorrupt, or is repeated; nothing wrong is stored",
		costs: "A damaged segment is stored, published and fetched, and each of its readers falls back to the leader.",
		run: func(c *T) {
			m, clean := c.openFaults(), c.direct()
			for _, size := range []int{faultCallSize, 300_000} {
				id, data := c.newID(), c.bytes(size)
				c.onWire(walstorage.OpUpload, faultproxy.Fault{FlipRequest: true})
				if err := m.UploadSegment(c.Context(), id, data); err != nil {
					c.wantKind(err, walstorage.ErrCorrupt, "a bit has changed on the way")
				}
				c.wantWholeOrMissing(clean, id, data, "after a bit has changed on the way")
				c.upload(m, id, data)
				c.wantWhole(clean, id, data, "after the same upload again")
			}
		},
	},
	{
		id: "K6", priority: 1, rule: "W4",
		title: "what looks compressed comes back as it was stored, also where the server calls it gzip",
		costs: "The offsets in the index of a segment are those of the bytes that were stored.",
		run: func(c *T) {
			var packed bytes.Buffer
			packer := gzip.NewWriter(&packed)
			_, err := packer.Write(bytes.Repeat([]byte("records "), 1000))
			require.NoError(c, err)
			require.NoError(c, packer.Close())
			data := packed.Bytes()
			m := c.openFaults()
			id := c.uploadNew(m, data)
			c.wantWhole(m, id, data, "a segment that begins like gzip")
			asGzip := faultproxy.Fault{Edit: func(a *faultproxy.Answer) {
				if a.Status < http.StatusMultipleChoices {
					a.Header.Set("Content-Encoding", "gzip")
				}
			}}
			c.alwaysOnWire(walstorage.OpFetch, asGzip)
			dst := make([]byte, len(data))
			require.NoError(c, m.FetchSegment(c.Context(), id, 0, dst), "the server calls the answer gzip")
			c.wantBytes(data, dst, "the server calls the answer gzip")
			c.alwaysOnWire(walstorage.OpStat, asGzip)
			info, err := m.StatSegment(c.Context(), id)
			require.NoError(c, err, "the server calls the object gzip")
			require.Equal(c, int64(len(data)), info.Size, "size of an object that the server calls gzip")
		},
	},
}
