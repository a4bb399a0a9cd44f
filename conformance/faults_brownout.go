package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// brownOut is 100 uploads a second for 20 seconds, in 5 of which the store answers 503. The budget of retries that
// libraries have by themselves fails most of such uploads.
var brownOut = testCase{
	id: "J18", priority: 1, rule: "W7", virtual: true, needs: needHandler,
	title: "503 for 5 s at 100 uploads a second, then healthy: none is lost, at most 1.1 requests for an upload, recovered in under 2 s",
	costs: "An upload that fails for good makes the leader skip data forward; one that is repeated too often keeps the store down.",
	run: func(c *T) {
		const (
			interval = 10 * time.Millisecond
			latency  = 12 * time.Millisecond
			deadline = 10 * time.Second
		)
		uploads, downFrom, downUntil := 2000, 6*time.Second, 11*time.Second
		if c.wire.cfg.brief {
			uploads, downFrom, downUntil = uploads/4, downFrom/4, downUntil/4
		}
		m := c.openFaults(func(store *objectstore.Config) {
			// As it is in production: every default.
			*store = objectstore.Config{Prefix: store.Prefix, Cluster: store.Cluster, Seed: store.Seed, Hooks: store.Hooks}
		})
		start := time.Now()
		c.wire.proxy.Script(func(faultproxy.Request) faultproxy.Fault {
			fault := faultproxy.Fault{Delay: latency}
			if since := time.Since(start); downFrom <= since && since < downUntil {
				fault.Answer = c.wire.cfg.Answers.Throttled.raw()
			}
			return fault
		})
		var mu sync.Mutex
		var lost int
		var last error
		var late time.Duration // when the last upload ended that had to wait
		var all sync.WaitGroup
		for n := range uploads {
			// Offset by a nanosecond each, so that no two uploads share an instant (D2).
			time.Sleep(time.Until(start.Add(time.Duration(n)*interval + time.Duration(n))))
			id := c.newID()
			all.Go(func() {
				ctx, cancel := context.WithTimeout(c.Context(), deadline)
				defer cancel()
				began := time.Now()
				err := m.UploadSegment(ctx, id, []byte{byte(n)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					lost, last = lost+1, err
					return
				}
				if time.Since(began) > 2*latency {
					late = max(late, time.Since(start))
				}
			})
		}
		all.Wait()
		perUpload := float64(len(c.wire.proxy.Requests())) / float64(uploads)
		recovered := late - downUntil
		c.said("brownout: %d uploads, %d lost, %.2fx requests per upload, recovered in %.1f s", uploads, lost, perUpload, recovered.Seconds())
		if lost > 0 {
			c.Errorf("%d of %d uploads were lost, the last with: %v", lost, uploads, last)
		}
		if perUpload > 1.1 {
			c.Errorf("%.2f requests for an upload, at most 1.1 are allowed", perUpload)
		}
		if recovered <= 0 {
			c.Errorf("the outage was not felt: does the handle use the endpoint?")
		}
		if recovered >= 2*time.Second {
			c.Errorf("recovered %v after the outage, want less than 2 s", recovered)
		}
		found, err := c.list(c.direct(), walstorage.ListOptions{})
		if err != nil || len(found) != uploads-lost {
			c.Errorf("%d segments are stored after %d uploads have succeeded (%v)", len(found), uploads-lost, err)
		}
	},
}
