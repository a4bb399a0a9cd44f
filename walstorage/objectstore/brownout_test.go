package objectstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// J18, J4: 2,000 uploads, 100 a second, while the store answers 503 for 5 of the 20 seconds. None is lost, the store
// sees hardly a request more than without the outage, and soon after it everything is as before.
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
		manager, driver := newManager(t, objectstore.Config{Seed: 1}, memory.Config{})
		start := time.Now()
		driver.Fault(func(memory.Call) memory.Fault {
			if since := time.Since(start); downFrom <= since && since < downUntil {
				return memory.Fault{Delay: latency, Err: busy()}
			}
			return memory.Fault{Delay: latency}
		})
		var mu sync.Mutex
		var late time.Duration // when the last upload ended that had to wait
		var all sync.WaitGroup
		for n := range uploads {
			// Offset by a nanosecond each, so that no two uploads share an instant (D2).
			time.Sleep(time.Until(start.Add(time.Duration(n)*interval + time.Duration(n))))
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				began := time.Now()
				err := manager.UploadSegment(ctx, segment(n), []byte{byte(n)})
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
		require.Len(t, driver.Store().Keys(), uploads-lost)
		requests, recovered = driver.Calls("Put")+driver.Calls("Stat"), late-downUntil
	})
	perUpload := float64(requests) / uploads
	fmt.Printf("brownout: %d uploads, %d lost, %.2fx requests per upload, recovered in %.1f s\n", uploads, lost, perUpload, recovered.Seconds())
	require.Zero(t, lost)
	require.LessOrEqual(t, perUpload, 1.1)
	require.Positive(t, recovered, "the outage was felt")
	require.Less(t, recovered, 2*time.Second)
}
