package azure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A list of 5,000 blobs whose names have 1,024 characters that are all escaped is no answer without end.
func TestLargestPage(t *testing.T) {
	blob := "<Blob><Name>" + strings.Repeat("&quot;", 1024) + "</Name><Properties><Creation-Time>Mon, 05 Jan 2026 00:00:00 GMT</Creation-Time>" +
		"<Last-Modified>Mon, 05 Jan 2026 00:00:00 GMT</Last-Modified><Etag>0x8DE4B0000000000</Etag><Content-Length>300000</Content-Length>" +
		"<Content-Type>application/octet-stream</Content-Type><Content-MD5>AAAAAAAAAAAAAAAAAAAAAA==</Content-MD5><BlobType>BlockBlob</BlobType>" +
		"<AccessTier>Hot</AccessTier><LeaseStatus>unlocked</LeaseStatus><ServerEncrypted>true</ServerEncrypted></Properties></Blob>"
	assert.Less(t, 5000*len(blob), documentBytes)
}
