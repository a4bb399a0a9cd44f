package s3_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
)

// W12: an HTTP client that panics while a session is made ends that upload's attempt, which is tried again, and holds up
// nobody who waits for the session.
func TestPanicWhileASessionIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, c := express(t)
		given, sessions := c.HTTPClient.Transport, 0
		c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("session") {
				if sessions++; sessions == 1 { // one at a time is made
					time.Sleep(time.Millisecond) // until the others wait for it
					panic("the client's")
				}
			}
			return given.RoundTrip(r)
		})}
		manager := manage(t, c)
		begun := time.Now()
		var all sync.WaitGroup
		for range 10 {
			id := drivertest.Segment(t)
			all.Go(func() { assert.NoError(t, manager.UploadSegment(t.Context(), id, []byte("data"))) })
		}
		all.Wait()
		require.Equal(t, 1, server.Count("CreateSession"))
		assert.Less(t, time.Since(begun), c.Store.AttemptTimeout, "nobody waited for the end of an attempt")
	})
}
