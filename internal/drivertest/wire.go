package drivertest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage/objectstore"
)

// OneUpload proves J24 as far as it is the same for all: an upload is one request, over HTTP/1.1. What is in it is the
// protocol's affair: it is the last one of the fake's.
func OneUpload[F any](t *testing.T, fake Fake[F], driver objectstore.Driver, key string, data []byte) {
	t.Helper()
	before := len(fake.Came())
	require.NoError(t, driver.Put(t.Context(), key, objectstore.NewBody(data), Checksum(data)))
	requests := fake.Came()[before:]
	require.Len(t, requests, 1, "one request for an upload")
	assert.Equal(t, "HTTP/1.1", requests[0].Proto)
}

// OtherCalls makes the calls other than Put, each once, and proves what they give back: four bytes of an object of ten, what
// is told of it, a list of one page, and a delete of two keys of which one is there. What Stat and List have told is returned.
func OtherCalls[F any](t *testing.T, fake Fake[F], driver objectstore.Driver) (object, listed objectstore.Object) {
	t.Helper()
	fake.Store(Bucket, "a/1", []byte("0123456789"))
	dst := make([]byte, 4)
	require.NoError(t, driver.Get(t.Context(), "a/1", 3, dst))
	assert.Equal(t, "3456", string(dst))
	object, err := driver.Stat(t.Context(), "a/1")
	require.NoError(t, err)
	assert.Equal(t, int64(10), object.Size)
	page, next, err := driver.List(t.Context(), "a/", "")
	require.NoError(t, err)
	require.Len(t, page, 1)
	assert.Equal(t, int64(10), page[0].Size)
	assert.Empty(t, next)
	require.NoError(t, driver.Delete(t.Context(), []string{"a/1", "a/2"}))
	assert.Empty(t, fake.Keys(Bucket))
	for _, r := range fake.Came() {
		assert.Equal(t, "HTTP/1.1", r.Proto)
	}
	return object, page[0]
}

// Headers proves that a request has all of those that it must have, and else only those that it may have.
func Headers(t *testing.T, op string, header http.Header, may, must []string) {
	t.Helper()
	for _, name := range must {
		if header.Get(name) == "" {
			t.Errorf("%s: no header %s", op, name)
		}
	}
	for name := range header {
		if !slices.Contains(may, name) && !slices.Contains(must, name) {
			t.Errorf("%s: header %s: %q", op, name, header.Get(name))
		}
	}
}
