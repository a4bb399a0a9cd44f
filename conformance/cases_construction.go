package conformance

import (
	"errors"
	"sort"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// Group A: a handle is made, from a right configuration or a wrong one, and sees its own place and no other.
var constructionCases = []testCase{
	{
		id: "A1", priority: 1, rule: "W3",
		title: "the first operations on a fresh handle work",
		run: func(c *T) {
			m := c.open()
			id := c.newID()
			c.wantMissing(m, id, "in a fresh place")
			data := c.bytes(1000)
			c.upload(m, id, data)
			c.wantWhole(m, id, data, "after the first upload")
			require.NoError(c, m.DeleteSegments(c.Context(), id))
			c.wantMissing(m, id, "after the first delete")
		},
	},
	{
		id: "A2", priority: 1, rule: "W7", needs: needInvalid,
		title: "a wrong configuration is refused with an error that names the field",
		costs: "A typing error in a deployment shows up as an outage hours later, and nothing says which setting is wrong.",
		run: func(c *T) {
			fields := make([]string, 0, len(c.storage.cfg.Invalid))
			for field := range c.storage.cfg.Invalid {
				fields = append(fields, field)
			}
			sort.Strings(fields)
			for _, field := range fields {
				err := c.storage.cfg.Invalid[field]()
				kind := walstorage.KindOf(err)
				switch {
				case err == nil:
					c.Errorf("a configuration with a wrong %s is accepted", field)
				case !strings.Contains(err.Error(), field):
					c.Errorf("the error for a wrong %s does not name the field: %v", field, err)
				case kind == walstorage.ErrUnavailable || kind == walstorage.ErrAccessDenied || kind == walstorage.ErrBucketNotFound:
					// What only a store can say: the field was not looked at before it was asked.
					c.Errorf("a wrong %s is reported as %q: %v", field, kind, err)
				}
			}
		},
	},
	{
		id: "A3", priority: 1, rule: "W7", needs: needNoBucket,
		title: "a bucket that does not exist is told apart from a segment that does not exist, on opening or at first use",
		costs: "A wrong bucket name looks like an empty store: followers fall back to the leader for ever and nobody learns why.",
		run: func(c *T) {
			opened, err := c.storage.cfg.NoBucket(c)
			if err != nil {
				c.wantKind(err, walstorage.ErrBucketNotFound, "opening a bucket that does not exist")
				return
			}
			m := c.wrap(opened)
			id := c.newID()
			c.wantKind(m.UploadSegment(c.Context(), id, []byte("data")), walstorage.ErrBucketNotFound, "uploading into a bucket that does not exist")
			c.wantNoBucket(m, id)
		},
	},
	{
		id: "A4", priority: 1, rule: "W3",
		title: "two handles on one place see each other's segments",
		run: func(c *T) {
			one, two := c.open(), c.open()
			first, second := c.bytes(300), c.bytes(400)
			firstID, secondID := c.uploadNew(one, first), c.uploadNew(two, second)
			c.wantWhole(two, firstID, first, "uploaded on one handle, read on the other")
			c.wantWhole(one, secondID, second, "uploaded on the other handle, read on the one")
			for _, m := range []*handle{one, two} {
				c.wantListed(m, walstorage.ListOptions{}, []walstorage.SegmentID{firstID, secondID}, "on each of two handles")
			}
			require.NoError(c, one.DeleteSegments(c.Context(), secondID))
			c.wantMissing(two, secondID, "deleted on the other handle")
		},
	},
	{
		id: "A5", priority: 1, rule: "W2",
		title: "handles on different places never see each other, even if the name of one begins with the name of the other",
		costs: "The sweeper of one cluster deletes the segments of another, or reads them as its own.",
		run: func(c *T) {
			home := c.storage.home
			places := []place{
				home,
				{home.prefix + "2", home.cluster}, // a sibling prefix that begins with ours
				{home.prefix, home.cluster + "2"}, // another cluster on our prefix
				{home.prefix, "nest"},             // its keys begin like
				{home.prefix + "/nest", "7"},      // those of this place, whose cluster looks like a broker
				{home.prefix + "/" + home.cluster, home.cluster},
			}
			// One id for all of them: only the place tells the segments apart.
			id := c.newID()
			handles := make([]*handle, len(places))
			contents := make([][]byte, len(places))
			for i, at := range places {
				handles[i], contents[i] = c.openAt(at), c.bytes(100+i)
				c.wantMissing(handles[i], id, "in place "+at.prefix+" "+at.cluster+" before anything was stored there")
				c.upload(handles[i], id, contents[i])
			}
			for i, at := range places {
				c.wantWhole(handles[i], id, contents[i], "in place "+at.prefix+" "+at.cluster)
				c.wantListed(handles[i], walstorage.ListOptions{}, []walstorage.SegmentID{id}, "in place "+at.prefix+" "+at.cluster)
			}
			require.NoError(c, handles[0].DeleteSegments(c.Context(), id))
			c.wantMissing(handles[0], id, "deleted")
			for i := 1; i < len(places); i++ {
				c.wantWhole(handles[i], id, contents[i], "in place "+places[i].prefix+" "+places[i].cluster+" after a delete in "+home.prefix)
			}
		},
	},
	{
		id: "A6", priority: 2, rule: "W2",
		title: "a slash at the end of the prefix changes nothing",
		costs: "A broker whose configuration was written by another hand looks into an empty place.",
		run: func(c *T) {
			without, with := c.open(), c.openAt(place{c.storage.home.prefix + "/", c.storage.home.cluster})
			data := c.bytes(200)
			id := c.uploadNew(without, data)
			c.wantWhole(with, id, data, "stored without the slash, read with it")
			c.wantListed(with, walstorage.ListOptions{}, []walstorage.SegmentID{id}, "stored without the slash, listed with it")
			require.NoError(c, with.DeleteSegments(c.Context(), id))
			c.wantMissing(without, id, "deleted with the slash")
		},
	},
	{
		id: "A7", priority: 2, rule: "W10",
		title: "opening and closing a handle stores nothing",
		costs: "Each start of a broker leaves an object that nobody deletes.",
		run: func(c *T) {
			require.NoError(c, c.open().Close())
			c.wantListed(c.open(), walstorage.ListOptions{}, nil, "after a handle was opened and closed")
			if c.storage.cfg.Driver != nil {
				keys, err := rawKeys(c.Context(), c.driver(), c.storage.home.prefix+"/")
				require.NoError(c, err)
				require.Empty(c, keys, "objects in a place where only a handle was opened")
			}
			require.Empty(c, c.residue(), "left by opening and closing a handle")
		},
	},
}

// wantNoBucket checks that reads, lists and deletes on a bucket that does not exist say so (A3, I3).
func (c *T) wantNoBucket(m *handle, id walstorage.SegmentID) {
	_, statErr := m.StatSegment(c.Context(), id)
	_, listErr := c.list(m, walstorage.ListOptions{})
	for call, err := range map[string]error{
		"StatSegment":    statErr,
		"FetchSegment":   m.FetchSegment(c.Context(), id, 0, make([]byte, 1)),
		"ListSegments":   listErr,
		"DeleteSegments": m.DeleteSegments(c.Context(), id),
	} {
		c.wantKind(err, walstorage.ErrBucketNotFound, call+" in a bucket that does not exist")
		if errors.Is(err, walstorage.ErrSegmentNotFound) {
			c.Errorf("%s in a bucket that does not exist calls the segment missing: %v", call, err)
		}
	}
}
