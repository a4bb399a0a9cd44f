package azure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// W10: a page that is odd in one blob is either that page, with the truth of it, or an error that is tried again; never a
// page without the blob, and never one with a size that none has.
func TestOddBlobsInLists(t *testing.T) {
	blob := func(name, properties string) string {
		return `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://a/" ContainerName="segments"><Blobs>` +
			`<Blob>` + name + `<Properties>` + properties + `</Properties></Blob></Blobs><NextMarker/></EnumerationResults>`
	}
	const name, size = "<Name>k</Name>", "<Content-Length>7</Content-Length>"
	seven := objectstore.Object{Key: "k", Size: 7}
	at := seven
	at.Stored = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		document string
		want     []objectstore.Object // nil is an error
	}{
		"as usual":                      {blob(name, "<Last-Modified>Mon, 05 Jan 2026 00:00:00 GMT</Last-Modified>"+size+"<BlobType>BlockBlob</BlobType>"), []objectstore.Object{at}},
		"what nobody has heard of":      {blob(name, size+"<Placeholder>true</Placeholder><AccessTier>Glacial</AccessTier><New><a/></New>"), []objectstore.Object{seven}},
		"with metadata and tags":        {blob(name+"<Metadata><walhopcrc32c>x</walhopcrc32c></Metadata><Tags><TagSet/></Tags>", size), []objectstore.Object{seven}},
		"no size":                       {blob(name, ""), nil},
		"a size below zero":             {blob(name, "<Content-Length>-1</Content-Length>"), nil},
		"a size that is none":           {blob(name, "<Content-Length>many</Content-Length>"), nil},
		"a size beyond 64 bits":         {blob(name, "<Content-Length>99999999999999999999</Content-Length>"), nil},
		"a time that is none":           {blob(name, size+"<Last-Modified>yesterday</Last-Modified>"), nil},
		"no properties":                 {`<EnumerationResults><Blobs><Blob><Name>k</Name></Blob></Blobs><NextMarker/></EnumerationResults>`, nil},
		"a name that is badly encoded":  {blob(`<Name Encoded="true">%zz</Name>`, size), nil},
		"a name that is no UTF-8":       {blob("<Name>\xff</Name>", size), nil},
		"an entity that is not known":   {blob("<Name>&k;</Name>", size), nil},
		"a name with an escaped letter": {blob("<Name>&#107;</Name>", size), []objectstore.Object{seven}},
	}
	server, url := serve(t, fake.Config{})
	driver := open(t, config(url))
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			server.Always("ListBlobs", fake.Fault{Document: test.document})
			page, next, err := driver.List(t.Context(), "", "")
			assert.Empty(t, next)
			for i := range page {
				page[i].Stored = page[i].Stored.UTC()
			}
			assert.Equal(t, test.want, page)
			if test.want == nil {
				assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}
