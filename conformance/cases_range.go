package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// wantRange fetches n bytes from offset on and checks them against data, the whole segment.
func (c *T) wantRange(m *handle, id walstorage.SegmentID, data []byte, offset, n int) {
	situation := fmt.Sprintf("fetching [%d,%d) of %d bytes", offset, offset+n, len(data))
	// The buffer is a piece of a larger one, as a follower's is: what lies around it is somebody else's (W5).
	const around = 64
	buffer := bytes.Repeat([]byte{0xa5}, around+n+around)
	dst := buffer[around : around+n]
	require.NoError(c, m.FetchSegment(c.Context(), id, int64(offset), dst), situation)
	c.wantBytes(data[offset:offset+n], dst, situation)
	c.wantBytes(bytes.Repeat([]byte{0xa5}, around), buffer[:around], situation+": the bytes before the buffer")
	c.wantBytes(bytes.Repeat([]byte{0xa5}, around), buffer[around+n:], situation+": the bytes behind the buffer")
}

// wantInvalidRange checks that a range is refused as such.
func (c *T) wantInvalidRange(m *handle, id walstorage.SegmentID, size int, offset int64, n int) {
	situation := fmt.Sprintf("fetching %d bytes from offset %d of a segment of %d", n, offset, size)
	err := m.FetchSegment(c.Context(), id, offset, make([]byte, n))
	c.wantKind(err, walstorage.ErrInvalidRange, situation)
	if errors.Is(err, walstorage.ErrSegmentNotFound) {
		c.Errorf("%s: the segment is called missing: %v", situation, err)
	}
}

// Group D: reads are exact, also at the edges, where stores differ most (the report fluree/db#1712).
var rangeCases = []testCase{
	{
		id: "D1", priority: 1, rule: "W6",
		title: "the whole segment, its first byte, its last and bytes from its middle",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(10)
			id := c.uploadNew(m, data)
			for _, r := range [][2]int{{0, 10}, {0, 1}, {9, 1}, {3, 4}, {4, 1}} {
				c.wantRange(m, id, data, r[0], r[1])
			}
		},
	},
	{
		id: "D2", priority: 1, rule: "W6",
		title: "from any offset to the end, and from and to every border that a store may have inside",
		run: func(c *T) {
			m := c.open()
			data := c.bytes(5000)
			id := c.uploadNew(m, data)
			for _, offset := range []int{0, 1, 511, 512, 4095, 4096, 4097, 4999} {
				c.wantRange(m, id, data, offset, len(data)-offset)
			}
			// Around the borders of the blocks that stores keep and send objects in.
			data = c.bytes(c.size(2<<20 + 1))
			id = c.uploadNew(m, data)
			for _, border := range []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20} {
				if border >= len(data) {
					break
				}
				for _, offset := range []int{border - 1, border, border + 1} {
					if offset < len(data) {
						c.wantRange(m, id, data, offset, min(2000, len(data)-offset))
					}
					c.wantRange(m, id, data, offset-2000, 2000)
				}
				c.wantRange(m, id, data, border, len(data)-border)
				c.wantRange(m, id, data, 0, border)
			}
		},
	},
	{
		id: "D3", priority: 1, rule: "W6",
		title: "a range that ends beyond the segment is ErrInvalidRange, and is never cut short",
		run: func(c *T) {
			m := c.open()
			id := c.uploadNew(m, c.bytes(10))
			for _, r := range [][2]int{{0, 11}, {5, 6}, {5, 10}, {9, 2}, {0, 5000}} {
				c.wantInvalidRange(m, id, 10, int64(r[0]), r[1])
			}
		},
	},
	{
		id: "D4", priority: 1, rule: "W6",
		title: "a range that begins at the end of the segment is ErrInvalidRange",
		run: func(c *T) {
			m := c.open()
			id := c.uploadNew(m, c.bytes(10))
			c.wantInvalidRange(m, id, 10, 10, 1)
			c.wantInvalidRange(m, id, 10, 10, 10)
		},
	},
	{
		id: "D5", priority: 1, rule: "W6",
		title: "a range that begins beyond the end is ErrInvalidRange, not a missing segment, and is not tried again",
		run: func(c *T) {
			m := c.open()
			id := c.uploadNew(m, c.bytes(10))
			for _, offset := range []int64{11, 20, 1 << 20, 1 << 40} {
				before := m.attempts.Load()
				c.wantInvalidRange(m, id, 10, offset, 1)
				if sent := m.attempts.Load() - before; sent > 1 {
					c.Errorf("a range beyond the end was asked for %d times", sent)
				}
			}
		},
	},
	{
		id: "D6", priority: 1, rule: "W6",
		title: "an empty dst is nil without a request, wherever the range begins and whether the segment is there or not",
		costs: "A range of no bytes has no form in HTTP: stores answer with the whole object, which overruns the buffer.",
		run: func(c *T) {
			m := c.open()
			id := c.uploadNew(m, c.bytes(10))
			missing := c.newID()
			c.countsRequests(m)
			for _, dst := range [][]byte{nil, {}} {
				for _, offset := range []int64{0, 3, 10, 11, math.MaxInt64} {
					c.noRequest(m, "an empty dst", func() {
						require.NoError(c, m.FetchSegment(c.Context(), id, offset, dst), "an empty dst at offset %d", offset)
						require.NoError(c, m.FetchSegment(c.Context(), missing, offset, dst), "an empty dst of a missing segment")
					})
				}
			}
		},
	},
	{
		id: "D7", priority: 1, rule: "W7",
		title: "a negative offset and an id that names no segment are ErrInvalidArgument without a request",
		costs: "A request that can never succeed is sent and tried again, or names an object that is no segment.",
		run: func(c *T) {
			m := c.open()
			id := c.uploadNew(m, c.bytes(10))
			c.countsRequests(m)
			c.noRequest(m, "a negative offset", func() {
				for _, offset := range []int64{-1, -10, math.MinInt64} {
					c.wantKind(m.FetchSegment(c.Context(), id, offset, make([]byte, 1)), walstorage.ErrInvalidArgument, fmt.Sprintf("offset %d", offset))
				}
			})
			for name, wrong := range wrongIDs(id) {
				c.noRequest(m, name, func() {
					c.wantKind(m.UploadSegment(c.Context(), wrong, []byte{1}), walstorage.ErrInvalidArgument, "UploadSegment with "+name)
					c.wantKind(m.FetchSegment(c.Context(), wrong, 0, make([]byte, 1)), walstorage.ErrInvalidArgument, "FetchSegment with "+name)
					_, err := m.StatSegment(c.Context(), wrong)
					c.wantKind(err, walstorage.ErrInvalidArgument, "StatSegment with "+name)
				})
			}
			c.wantListed(m, walstorage.ListOptions{}, []walstorage.SegmentID{id}, "after calls with wrong arguments")
		},
	},
	{
		id: "D8", priority: 2, rule: "W6",
		title: "a range whose end overflows 64 bits is ErrInvalidRange or ErrInvalidArgument, and reads nothing",
		run: func(c *T) {
			m := c.open()
			id := c.uploadNew(m, c.bytes(10))
			for _, r := range []struct {
				offset int64
				n      int
			}{{math.MaxInt64, 1}, {math.MaxInt64 - 1, 10}, {math.MaxInt64 - 10, 11}} {
				err := m.FetchSegment(c.Context(), id, r.offset, make([]byte, r.n))
				if !errors.Is(err, walstorage.ErrInvalidRange) && !errors.Is(err, walstorage.ErrInvalidArgument) {
					c.Errorf("fetching %d bytes from offset %d: got %v", r.n, r.offset, err)
				}
			}
		},
	},
	{
		id: "D9", priority: 1, rule: "W6",
		title: "every range of an empty segment but the empty one is ErrInvalidRange",
		run: func(c *T) {
			m := c.open()
			id := c.uploadNew(m, nil)
			require.NoError(c, m.FetchSegment(c.Context(), id, 0, nil), "no bytes of an empty segment")
			c.wantInvalidRange(m, id, 0, 0, 1)
			c.wantInvalidRange(m, id, 0, 0, 100)
			c.wantInvalidRange(m, id, 0, 1, 1)
			info, err := m.StatSegment(c.Context(), id)
			require.NoError(c, err, "an empty segment is there")
			require.Zero(c, info.Size)
		},
	},
	{
		id: "D10", priority: 1, rule: "W7",
		title: "a range of a missing segment is ErrSegmentNotFound, whatever the range",
		run: func(c *T) {
			m := c.open()
			id := c.newID()
			for _, r := range [][2]int{{0, 1}, {5, 100}, {1 << 30, 1}} {
				err := m.FetchSegment(c.Context(), id, int64(r[0]), make([]byte, r[1]))
				c.wantKind(err, walstorage.ErrSegmentNotFound, fmt.Sprintf("%d bytes from offset %d of a missing segment", r[1], r[0]))
			}
		},
	},
	{
		id: "D11", priority: 1, rule: "W6",
		title: "two hundred random ranges, right and wrong, against a model",
		run: func(c *T) {
			m := c.open()
			size := c.size(100_000)
			data := c.bytes(size)
			id := c.uploadNew(m, data)
			for range 200 {
				offset, n := c.intn(size+100), 1+c.intn(size/10)
				if offset+n > size {
					c.wantInvalidRange(m, id, size, int64(offset), n)
				} else {
					c.wantRange(m, id, data, offset, n)
				}
			}
		},
	},
	{
		id: "D12", priority: 1, rule: "W6", needs: needDriver,
		title: "a body that ends early is asked for again, or is an error; never short data without one",
		run: func(c *T) {
			short := walstorage.NewError(walstorage.ErrUnavailable, errors.New("unexpected end of the body"))
			faults := &faultDriver{}
			faults.onGet = func(n int, call getCall) error {
				if n%2 == 1 {
					copy(call.dst, bytes.Repeat([]byte{0xee}, len(call.dst)/2)) // what came before the end
					return short
				}
				return call.next()
			}
			m := c.openFaulty(faults)
			data := c.bytes(3000)
			id := c.uploadNew(m, data)
			for _, r := range [][2]int{{0, 3000}, {100, 1000}, {2999, 1}} {
				c.wantRange(m, id, data, r[0], r[1])
			}
			require.Equal(c, 6, faults.calls("Get"), "reads sent for three ranges whose first answer each ended early")
		},
	},
	{
		id: "D15", priority: 2, rule: "W12",
		title: "disjoint ranges of one segment read at once",
		run: func(c *T) {
			m := c.open()
			const parts = 16
			size := c.size(256<<10) / parts * parts
			data := c.bytes(size)
			id := c.uploadNew(m, data)
			got := make([]byte, size)
			var errs recordedErrors
			c.together(parts, func(i int) {
				part := got[i*size/parts : (i+1)*size/parts]
				errs.add(m.FetchSegment(c.Context(), id, int64(i*size/parts), part))
			})
			require.Empty(c, errs.errs)
			c.wantBytes(data, got, "sixteen parts read at once")
		},
	},
}

// wrongIDs returns ids that name no segment, made from a right one.
func wrongIDs(id walstorage.SegmentID) map[string]walstorage.SegmentID {
	broker, epoch, random := id, id, id
	broker.BrokerID = -1
	epoch.BrokerEpoch = -1
	random.UUID = uuid.UUID{0: 1, 6: 0x40, 8: 0x80} // of version 4
	return map[string]walstorage.SegmentID{
		"the zero id":                     {},
		"a negative broker id":            broker,
		"a negative broker epoch":         epoch,
		"a UUID that is not of version 7": random,
		"a zero UUID":                     {BrokerID: 1, BrokerEpoch: 1},
	}
}
