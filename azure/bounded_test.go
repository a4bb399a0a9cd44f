package azure

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
)

// An answer as long as it may be is read whole, also where its end comes with its last bytes, and one that is longer is an
// error, however it is read.
func TestBoundedBody(t *testing.T) {
	for length, whole := range map[int]bool{0: true, 9: true, 10: true, 11: false, 1000: false} {
		for name, read := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "by the byte": iotest.OneByteReader, "with the end": iotest.DataErrReader,
		} {
			body := &boundedBody{ReadCloser: io.NopCloser(read(strings.NewReader(strings.Repeat("a", length)))), limit: 10, left: 10}
			got, err := io.ReadAll(body)
			assert.Equal(t, whole, err == nil, "%d %s: %v", length, name, err)
			if whole {
				assert.Len(t, got, length, name)
			}
		}
	}
}

// A list of 5,000 blobs whose names have 1,024 characters that are all escaped is no answer without end.
func TestLargestPage(t *testing.T) {
	blob := "<Blob><Name>" + strings.Repeat("&quot;", 1024) + "</Name><Properties><Creation-Time>Mon, 05 Jan 2026 00:00:00 GMT</Creation-Time>" +
		"<Last-Modified>Mon, 05 Jan 2026 00:00:00 GMT</Last-Modified><Etag>0x8DE4B0000000000</Etag><Content-Length>300000</Content-Length>" +
		"<Content-Type>application/octet-stream</Content-Type><Content-MD5>AAAAAAAAAAAAAAAAAAAAAA==</Content-MD5><BlobType>BlockBlob</BlobType>" +
		"<AccessTier>Hot</AccessTier><LeaseStatus>unlocked</LeaseStatus><ServerEncrypted>true</ServerEncrypted></Properties></Blob>"
	assert.Less(t, 5000*len(blob), documentBytes)
}
