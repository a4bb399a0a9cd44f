package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// Group G: nobody gives a store keys, but everybody names places, by prefix and cluster, and a key is made of the place
// and the segment id. So what can go wrong with keys goes wrong with places.
var keyCases = []testCase{
	{
		id: "G1", priority: 1, rule: "W2", // redpanda-data/redpanda#10560
		title: "places may be named with every character that is allowed, in any position",
		costs: "A cluster whose name holds that character cannot use the store, or shares a place with another one.",
		run: func(c *T) {
			const upper, lower, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
			for _, part := range []string{
				upper + lower + digits + "._-", "-first", "_first", ".first", "..first", "0first", "last-", "last_", "last0",
				"in.the.middle", "in..the..middle", "in--the--middle", "in__the__middle", "-", "_", "0", "-_-",
			} {
				require.True(c, c.apart(place{c.storage.home.prefix + "/" + part, part}) == 1, "a place with Prefix %q and Cluster %q is refused", part, part)
			}
		},
	},
	{
		id: "G2", priority: 1, rule: "W2", // redpanda-data/redpanda#10560
		title: "names that are written in several ways, or quoted on the wire, are refused or are places of their own",
		costs: "Two clusters whose names the store takes for the same share a place: each deletes and reads the other's segments.",
		run: func(c *T) {
			c.odd(" ", "+", "%", "%20", "%2F", "%2f", "%252F", "?", "?x=1", "#", "&", "=", ";", ":", "*", "~", "!", "$", "@", ",",
				"'", `"`, "<", ">", "|", "^", "`", "{", "}", `\`,
				"\u00e9", "e\u0301", // one letter, composed and decomposed: some file systems store both as the same
				"\u212b", "\u00c5", "A\u030a", "\u65e5\u672c", "\U0001f600")
		},
	},
	{
		id: "G3", priority: 1, rule: "W2",
		title: "the longest place holds the longest segment id, and one that is longer still is refused or a place of its own",
		costs: "A cluster with a long name finds out in production that its segments cannot be stored.",
		run: func(c *T) {
			long := func(bytes int, end string) string {
				name := c.storage.home.prefix
				for len(name) < bytes-len(end) {
					name += "/" + strings.Repeat("p", min(bytes-len(end)-len(name)-1, 200))
				}
				return strings.TrimSuffix(name, "/") + end
			}
			const prefixBytes, clusterBytes = 512, 255
			longest := place{long(prefixBytes, ""), strings.Repeat("c", clusterBytes)}
			require.Len(c, longest.prefix, prefixBytes)
			m := c.openAt(longest)
			id := c.newIDAt(math.MaxInt32, math.MaxInt64, time.UnixMilli(1<<48-1))
			data := c.bytes(1000)
			c.upload(m, id, data)
			c.wantWhole(m, id, data, "the longest id in the longest place")
			c.wantListed(m, walstorage.ListOptions{}, []walstorage.SegmentID{id}, "the longest id in the longest place")
			require.NoError(c, m.DeleteSegments(c.Context(), id))
			c.wantMissing(m, id, "deleted from the longest place")

			// Cut to what is allowed, the places of each line are one.
			c.apart(place{long(prefixBytes+1, "x"), "c"}, place{long(prefixBytes+1, "y"), "c"})
			c.apart(place{c.storage.home.prefix, longest.cluster + "x"}, place{c.storage.home.prefix, longest.cluster + "y"}, place{c.storage.home.prefix, longest.cluster})
		},
	},
	{
		id: "G4", priority: 1, rule: "W2",
		title: "names with empty parts, with \".\" and \"..\", and with slashes at odd places are refused or are places of their own",
		costs: "The place lies where nobody looks for it, over another one's or outside of what the store was given.",
		run: func(c *T) {
			home := c.storage.home.prefix
			c.apart(
				place{home + "/a", "c"}, place{home + "//a", "c"}, place{home + "/./a", "c"}, place{home + "/x/../a", "c"},
				place{home + "/a/.", "c"}, place{home + "/a//", "c"}, place{"/" + home + "/a", "c"}, place{"./" + home + "/a", "c"},
				place{home + "/x/..", "c"}, place{home, "c"}, place{home + "/.", "c"}, place{home + "//", "c"}, place{home + "/a.", "c"},
			)
			c.apart(
				place{home, "c"}, place{home, "c/"}, place{home, "/c"}, place{home, "./c"}, place{home, "x/../c"}, place{home, "c/."},
				place{home, "c."}, place{home, "."}, place{home, ""}, place{home, "/"},
			)
			c.apart(place{home, "a/c"}, place{home + "/a", "c"}, place{home + "/a", "../a/c"}, place{home + "/b", "../a/c"})
		},
	},
	{
		id: "G5", priority: 1, rule: "W2",
		title: "names with NUL, control characters or bytes that are no UTF-8 are refused or are places of their own",
		costs: "A name is cut at the odd byte or loses it, and two places become one; or it breaks a request in two.",
		run: func(c *T) {
			c.odd("\x00", "\x01", "\t", "\n", "\r\n", "\x1b", "\x1f", "\x7f", "\x80", "\xff", "\xc3", "\xed\xa0\x80", "\ufffd", "\ufeff", "\u2028")
		},
	},
	{
		id: "G6", priority: 2, rule: "W2",
		title: "places whose names differ in case alone never see each other",
		costs: "Two clusters share a place: each deletes and reads the other's segments.",
		run: func(c *T) {
			home := c.storage.home.prefix
			n := c.apart(
				place{home + "/case", "wal"}, place{home + "/case", "Wal"}, place{home + "/case", "WAL"},
				place{home + "/Case", "wal"}, place{home + "/CASE", "WAL"},
			)
			require.Equal(c, 5, n, "places opened: all of these names are allowed")
		},
	},
	{
		id: "G7", priority: 1, rule: "W2",
		title: "places may lie within one another, down to a segment's own name: each keeps its segments",
		costs: "A folder in the way of a segment, or a segment in the way of a folder, makes one of them disappear.",
		run: func(c *T) {
			outer := c.open()
			data, id := c.bytes(1000), c.newID()
			c.upload(outer, id, data)
			parts := strings.Split(strings.TrimPrefix(c.key(id), c.storage.home.prefix+"/"), "/")
			for n := 1; n < len(parts)-1; n++ {
				inner := place{c.storage.home.prefix + "/" + strings.Join(parts[:n], "/"), parts[n]}
				require.True(c, c.apart(inner) == 1, "a place with Prefix %q and Cluster %q is refused", inner.prefix, inner.cluster)
				c.wantWhole(outer, id, data, "beside a place in its folder")
				c.wantListed(outer, walstorage.ListOptions{}, []walstorage.SegmentID{id}, "beside a place in its folder")
			}

			// A place below the segment itself: on stores of files it cannot be, and then the segment has to be unharmed.
			last := len(parts) - 1
			below := c.openIfLegal(place{c.storage.home.prefix + "/" + strings.Join(parts[:last], "/"), parts[last]})
			if below == nil {
				return
			}
			other, otherID := c.bytes(1001), c.newID()
			ctx, cancel := context.WithTimeout(c.Context(), c.prompt)
			defer cancel()
			err := below.UploadSegment(ctx, otherID, other)
			c.wantWhole(outer, id, data, "after an upload to a place below the segment's own name")
			if err != nil {
				return
			}
			c.wantWhole(below, otherID, other, "in a place below a segment's name")
			require.NoError(c, outer.DeleteSegments(c.Context(), id))
			c.wantWhole(below, otherID, other, "after the segment above was deleted")
			c.upload(outer, id, data)
			require.NoError(c, below.DeleteSegments(c.Context(), otherID))
			c.wantWhole(outer, id, data, "after the segment below was deleted")
		},
	},
	{
		id: "G9", priority: 1, rule: "W10",
		title: "places named like temporaries, sidecars and lock files are places like any other",
		costs: "Whoever clears what was left behind deletes the segments of that cluster, or lists pass over them.",
		run: func(c *T) {
			for _, part := range []string{
				".tmp", "tmp", "x.tmp", ".x.swp", ".attrs", "x.attrs", "x.partial", "x.part", "x.lock", ".lock", "LOCK", "lost.found",
				".nfs0001", ".trash", ".Trash-0", ".multipart", ".minio.sys", ".uploads", ".sgwtmp", ".versions", "x.versions", "x.wal", "x.wal.tmp", ".wal",
			} {
				require.True(c, c.apart(place{c.storage.home.prefix + "/" + part, part}) == 1, "a place with Prefix %q and Cluster %q is refused", part, part)
			}
		},
	},
}

// odd is apart for places that differ in one piece of their prefix or cluster, in the middle and at the end of it, and
// for those that they could be taken for.
func (c *T) odd(pieces ...string) {
	home := c.storage.home.prefix
	plain := []string{"a", "ab", "a_b", "a-b", "b"}
	prefixes, clusters := []place{{home + "/a/b", "c"}}, []place{}
	for _, name := range plain {
		prefixes, clusters = append(prefixes, place{home + "/" + name, "c"}), append(clusters, place{home, name})
	}
	for _, piece := range pieces {
		prefixes = append(prefixes, place{home + "/a" + piece + "b", "c"}, place{home + "/a" + piece, "c"})
		clusters = append(clusters, place{home, "a" + piece + "b"}, place{home, "a" + piece})
	}
	c.apart(prefixes...)
	c.apart(clusters...)
}

// apart stores other bytes under one id in each of the places, and checks that each place holds its own segment, lists
// that one alone, and is empty after a delete that leaves the others alone. Places whose names the store refuses are left
// out; it returns how many have been opened.
func (c *T) apart(places ...place) (opened int) {
	id := c.newID()
	type opening struct {
		m    *handle
		data []byte
		name string
	}
	var open []opening
	for _, at := range places {
		m := c.openIfLegal(at)
		if m == nil {
			continue
		}
		o := opening{m, c.bytes(100 + len(open)), fmt.Sprintf("in the place with Prefix %q and Cluster %q", at.prefix, at.cluster)}
		if err := m.UploadSegment(c.Context(), id, o.data); errors.Is(err, walstorage.ErrSegmentExists) {
			c.Fatalf("%s there is a segment that was stored in another place", o.name)
		} else if err != nil {
			c.Fatalf("%s: uploading: %v", o.name, err)
		}
		open = append(open, o)
	}
	for _, o := range open {
		c.wantWhole(o.m, id, o.data, o.name)
		c.wantListed(o.m, walstorage.ListOptions{}, []walstorage.SegmentID{id}, o.name)
	}
	for i, o := range open {
		require.NoError(c, o.m.DeleteSegments(c.Context(), id), o.name)
		c.wantMissing(o.m, id, o.name+", deleted")
		if next := i + 1; next < len(open) {
			c.wantWhole(open[next].m, id, open[next].data, open[next].name+", after a delete elsewhere")
		}
	}
	return len(open)
}
