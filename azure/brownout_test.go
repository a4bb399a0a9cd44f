package azure_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	fake "github.com/walhop/walhop/internal/fakes/azure"
)

// J18, J4, J20: 100 uploads a second over HTTP, while the store answers 503 for 5 of the 20 seconds. None is lost, the
// store sees hardly a request more than without the outage, and soon after it everything is as before. The SDK's own
// retries would fail most of them.
func TestBrownout(t *testing.T) {
	const (
		uploads   = 2000
		interval  = 10 * time.Millisecond
		latency   = 12 * time.Millisecond
		downFrom  = 6 * time.Second
		downUntil = 11 * time.Second
		deadline  = 10 * time.Second
	)
	var lost, requests int
	var recovered time.Duration
	synctest.Test(t, func(t *testing.T) {
		server, _, c := inMemory(t, fake.Config{})
		c.Store.AttemptTimeout = 0
		c.Store.Seed = 1
		manager := manage(t, c)
		start := time.Now()
		server.Fault(func(fake.Request) fake.Fault {
			fault := fake.Fault{Delay: latency}
			if since := time.Since(start); downFrom <= since && since < downUntil {
				fault.Status, fault.Code = 503, "ServerBusy"
			}
			return fault
		})
		var mu sync.Mutex
		var late time.Duration // when the last upload ended that had to wait
		var all sync.WaitGroup
		for n := range uploads {
			// Offset by a nanosecond each, so that no two uploads share an instant (D2).
			time.Sleep(time.Until(start.Add(time.Duration(n)*interval + time.Duration(n))))
			id := segment(t)
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				began := time.Now()
				err := manager.UploadSegment(ctx, id, []byte{byte(n)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					lost++
					return
				}
				if time.Since(began) > 2*latency {
					late = max(late, time.Since(start))
				}
			})
		}
		all.Wait()
		require.Len(t, server.Keys(bucket), uploads-lost)
		requests, recovered = len(server.Requests()), late-downUntil
	})
	perUpload := float64(requests) / uploads
	fmt.Printf("brownout: %d uploads, %d lost, %.2fx requests per upload, recovered in %.1f s\n", uploads, lost, perUpload, recovered.Seconds())
	require.Zero(t, lost)
	require.LessOrEqual(t, perUpload, 1.1)
	require.Positive(t, recovered, "the outage was felt")
	require.Less(t, recovered, 2*time.Second)
}
