package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// sizes returns the sizes in bytes of B1: around what stores, file systems and transports count in, up to the largest.
func (cfg Config) sizes() []int {
	all := []int{
		0, 1, 4095, 4096, 4097, 64<<10 - 1, 64 << 10, 64<<10 + 1, 100_000, 200_000, 300_000, 1<<20 - 1, 1 << 20, 1<<20 + 1,
	}
	if cfg.MaxObjectSize == 0 {
		return all
	}
	var sizes []int
	for _, size := range all {
		if int64(size) < cfg.MaxObjectSize {
			sizes = append(sizes, size)
		}
	}
	return append(sizes, int(min(cfg.MaxObjectSize, math.MaxInt)))
}

// size returns n, or the largest size that the store takes if that is less.
func (c *T) size(n int) int {
	if limit := c.storage.cfg.MaxObjectSize; limit > 0 && int64(n) > limit {
		return int(limit)
	}
	return n
}

// listedWhole looks for a segment in a list, which must tell its whole size.
func listedWhole(ctx context.Context, m *handle, id walstorage.SegmentID, data []byte) (there bool, problem string) {
	for info, err := range m.ListSegments(ctx, walstorage.ListOptions{BrokerID: &id.BrokerID}) {
		switch {
		case err != nil:
			return there, fmt.Sprintf("ListSegments: %v", err)
		case info.ID != id:
		case info.Size != int64(len(data)):
			return true, fmt.Sprintf("ListSegments tells %d bytes of a segment of %d", info.Size, len(data))
		default:
			there = true
		}
	}
	return there, ""
}

// Group B: what is put comes back, whole and unchanged, at once and everywhere, and buffers stay the caller's.
var roundTripCases = []testCase{
	{
		id: "B1", priority: 1, rule: "W4",
		title: "segments of every size come back byte for byte, from none to the largest",
		run: func(c *T) {
			// Another handle reads too: what the uploader's own remembers need not be what is stored.
			m, other := c.open(), c.open()
			for _, size := range c.storage.cfg.sizes() {
				data := c.bytes(size)
				id := c.uploadNew(m, data)
				c.wantWhole(other, id, data, fmt.Sprintf("a segment of %d bytes, on another handle", size))
				c.wantWhole(m, id, data, fmt.Sprintf("a segment of %d bytes", size))
				require.NoError(c, m.DeleteSegments(c.Context(), id))
			}
		},
	},
	{
		id: "B2", priority: 1, rule: "W4",
		title: "bytes are bytes: nothing is decoded, converted or cut because of what it looks like",
		run: func(c *T) {
			m, other := c.open(), c.open()
			text := "line one\r\nline two\nline three\r"
			for name, data := range map[string][]byte{
				"zeros":           make([]byte, 5000),
				"random":          c.bytes(5000),
				"gzip magic":      append([]byte{0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0xff}, c.bytes(100)...),
				"a gzip stream":   {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 0x4b, 4, 0, 0x43, 0xbe, 0xb7, 0xe8, 1, 0, 0, 0},
				"zstd magic":      append([]byte{0x28, 0xb5, 0x2f, 0xfd}, c.bytes(100)...),
				"CRLF":            []byte(text),
				"UTF-8 BOM":       []byte("\xef\xbb\xbf" + text),
				"UTF-16 BOM":      []byte("\xff\xfet\x00e\x00x\x00t\x00"),
				"XML":             []byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code></Error>`),
				"HTML":            []byte("<!DOCTYPE html><html><body>&amp; 100 %</body></html>"),
				"JSON":            []byte(`{"error":{"code":404,"message":"not found"}}`),
				"chunk framing":   []byte("5;chunk-signature=0\r\nhello\r\n0\r\n\r\n"),
				"NUL at the end":  []byte("text\x00\x00\x00"),
				"newline only":    []byte("\n"),
				"invalid UTF-8":   {0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80},
				"percent escapes": []byte("%2F%00%zz+a b"),
			} {
				id := c.uploadNew(m, data)
				c.wantWhole(other, id, data, name+", on another handle")
				c.wantWhole(m, id, data, name)
			}
		},
	},
	{
		id: "B3", priority: 1, rule: "W3",
		title: "a segment can be read on the same handle as soon as its upload has returned",
		run: func(c *T) {
			m := c.open()
			for round := range 50 {
				data := c.bytes(1 + c.intn(2000))
				c.wantWhole(m, c.uploadNew(m, data), data, fmt.Sprintf("round %d, at once after the upload", round))
			}
		},
	},
	{
		id: "B4", priority: 1, rule: "W3",
		title: "a segment can be read and listed on another handle as soon as its upload has returned",
		run: func(c *T) {
			writer, reader := c.open(), c.open()
			var ids []walstorage.SegmentID
			for round := range 20 {
				data, id := c.bytes(1+c.intn(2000)), c.newID()
				// The reader has looked before, so that an answer it remembers would show.
				c.wantMissing(reader, id, fmt.Sprintf("round %d, before the upload", round))
				c.upload(writer, id, data)
				ids = append(ids, id)
				c.wantWhole(reader, id, data, fmt.Sprintf("round %d, on another handle at once after the upload", round))
				c.wantListed(reader, walstorage.ListOptions{}, ids, fmt.Sprintf("round %d, on another handle at once after the upload", round))
			}
		},
	},
	{
		id: "B5", priority: 1, rule: "W1",
		title: "while a segment is being uploaded a reader finds all of it or nothing",
		run: func(c *T) {
			writer, reader := c.open(), c.open()
			size := c.size(256 << 10)
			for round := range 8 {
				data, id := c.bytes(size), c.newID()
				var uploaded atomic.Bool
				var uploadErr error
				looks := []func() (there bool, problem string){
					func() (bool, string) { return wholeOrMissing(c.Context(), reader, id, data) },
					func() (bool, string) { return listedWhole(c.Context(), reader, id, data) },
				}
				problems := make([]string, len(looks))
				c.together(1+len(looks), func(i int) {
					if i == len(looks) {
						uploadErr = writer.UploadSegment(c.Context(), id, data)
						uploaded.Store(true)
						return
					}
					for last := false; !last && problems[i] == ""; {
						last = uploaded.Load() // one more look after the upload has returned
						var there bool
						there, problems[i] = looks[i]()
						if last && !there && problems[i] == "" {
							problems[i] = "the upload has returned, and the segment is not there"
						}
					}
				})
				require.NoError(c, uploadErr, "round %d", round)
				require.Empty(c, strings.Join(problems, ""), "round %d, a reader and a list beside the upload", round)
			}
		},
	},
	{
		id: "B6", priority: 1, rule: "W5",
		title: "the caller may overwrite its buffer as soon as the upload has returned",
		run: func(c *T) {
			m, other := c.open(), c.open()
			size := c.size(64 << 10)
			buffer := make([]byte, size)
			ids, contents := c.newIDs(10), make([][]byte, 10)
			for i, id := range ids {
				contents[i] = c.bytes(size)
				copy(buffer, contents[i]) // overwrites what the call before had borrowed
				c.upload(m, id, buffer)
			}
			clear(buffer)
			for i, id := range ids {
				c.wantWhole(other, id, contents[i], "after the buffer of the upload was overwritten")
				c.wantWhole(m, id, contents[i], "after the buffer of the upload was overwritten")
			}
		},
	},
	{
		id: "B7", priority: 1, rule: "W5",
		title: "bytes fetched belong to the caller: changing them changes no later fetch, and no later call changes them",
		run: func(c *T) {
			m := c.open()
			data, other := c.bytes(5000), c.bytes(5000)
			id, otherID := c.uploadNew(m, data), c.uploadNew(m, other)
			mine := make([]byte, len(data))
			require.NoError(c, m.FetchSegment(c.Context(), id, 0, mine))
			c.wantBytes(data, mine, "the first fetch")
			pattern := bytes.Repeat([]byte{0x5a}, len(mine))
			copy(mine, pattern)
			for range 5 {
				c.wantWhole(m, id, data, "after the caller changed what it had fetched")
				c.wantWhole(m, otherID, other, "another segment")
			}
			c.wantBytes(pattern, mine, "a buffer whose fetch has returned, after further calls")
		},
	},
	{
		id: "B8", priority: 1, rule: "W5",
		title: "an upload does not change the data that it is given, whatever comes of it",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(10_000)
			before := bytes.Clone(data)
			id := c.uploadNew(m, data)
			c.wantBytes(before, data, "the caller's data after an upload")
			data[0]++
			before[0]++
			c.wantKind(m.UploadSegment(c.Context(), id, data), walstorage.ErrSegmentExists, "uploading other bytes")
			c.wantBytes(before, data, "the caller's data after a refused upload")
		},
	},
	{
		id: "B12", priority: 2, rule: "W7", needs: needMaxObjectSize,
		title: "a segment larger than the store takes is ErrTooLarge, without a request, and nothing is stored",
		costs: "The leader retries what can never succeed, and every later segment waits behind it.",
		run: func(c *T) {
			m := c.open()
			c.uploadNew(m, []byte("one request, so that requests are known to be counted"))
			c.countsRequests(m)
			id := c.newID()
			data := make([]byte, c.storage.cfg.MaxObjectSize+1)
			c.noRequest(m, "one byte over the limit", func() {
				c.wantKind(m.UploadSegment(c.Context(), id, data), walstorage.ErrTooLarge, "one byte over the limit")
			})
			c.wantMissing(m, id, "refused as too large")
		},
	},
	{
		id: "B13", priority: 1, rule: "W2",
		title: "the same upload again succeeds and changes nothing; other bytes of the same size are refused",
		costs: "A leader whose answer was lost gives up a segment that is stored, or overwrites bytes that followers have read.",
		run: func(c *T) {
			m, other := c.open(), c.open()
			for _, size := range []int{0, 1, 2000} {
				data := c.bytes(size)
				id := c.uploadNew(m, data)
				for _, again := range []*handle{m, other} {
					require.NoError(c, again.UploadSegment(c.Context(), id, bytes.Clone(data)), "the same %d bytes again", size)
				}
				if size > 0 {
					changed := bytes.Clone(data)
					changed[size-1] ^= 1
					for _, again := range []*handle{m, other} {
						c.wantKind(again.UploadSegment(c.Context(), id, changed), walstorage.ErrSegmentExists,
							fmt.Sprintf("other bytes of the same size %d", size))
					}
				}
				c.wantWhole(m, id, data, "after repeated uploads")
			}
		},
	},
	{
		id: "B15", priority: 2, rule: "W2",
		title: "the same content under two ids is two segments",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(3000)
			one, two := c.uploadNew(m, data), c.uploadNew(m, data)
			require.NoError(c, m.DeleteSegments(c.Context(), one))
			c.wantMissing(m, one, "deleted")
			c.wantWhole(m, two, data, "after its twin was deleted")
		},
	},
	{
		id: "B17", priority: 2, rule: "W2",
		title: "nil and an empty slice are the same empty segment",
		run: func(c *T) {
			m := c.open()
			id := c.uploadNew(m, nil)
			c.wantWhole(m, id, nil, "uploaded as nil")
			require.NoError(c, m.UploadSegment(c.Context(), id, []byte{}), "an empty slice over nil")
			err := m.UploadSegment(c.Context(), id, []byte{1})
			require.True(c, errors.Is(err, walstorage.ErrSegmentExists), "one byte over an empty segment: %v", err)
		},
	},
}
