package conformance

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
)

var faultListCases = []testCase{
	overWire("E13", 0, func(c *T) {
		m := c.openFaults()
		c.storeMany(c.wire.cfg.ListLarge)
		// Every page is the first one again, with its token.
		var mu sync.Mutex
		var first *faultproxy.Answer
		c.alwaysOnWire(walstorage.OpList, faultproxy.Fault{Edit: func(a *faultproxy.Answer) {
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = a
			} else {
				*a = faultproxy.Answer{Status: first.Status, Header: first.Header.Clone(), Body: first.Body}
			}
		}})
		_, err := c.list(m, walstorage.ListOptions{})
		pages := c.wire.proxy.Count(string(walstorage.OpList))
		switch {
		case pages == 1:
			c.Fatalf("the list has ended with its first page (%v): FaultsConfig.ListLarge has to be more than a page", err)
		case err == nil || err == errEndless:
			c.Errorf("got %v after %d pages, want an error that says that a token has come again", err, pages)
		case pages > 10:
			c.Errorf("%d pages were asked for before it was noticed that they are one and the same", pages)
		}
	}),

	overWire("E14", needWithoutToken, func(c *T) {
		m := c.openFaults(attempts(3))
		c.storeMany(c.wire.cfg.ListLarge)
		changed := false
		c.onWire(walstorage.OpList, faultproxy.Fault{Edit: func(a *faultproxy.Answer) {
			before := string(a.Body)
			a.Body = c.wire.cfg.WithoutToken(a.Body)
			changed = before != string(a.Body)
		}})
		found, err := c.list(m, walstorage.ListOptions{})
		require.True(c, changed, "FaultsConfig.WithoutToken has changed nothing: is FaultsConfig.ListLarge more than a page?")
		if err == nil {
			c.Errorf("the list has ended after %d of %d segments without an error", len(found), c.wire.cfg.ListLarge)
		}
	}),

	overWire("E15", 0, func(c *T) {
		m, limited := c.openFaults(), c.openFaults(attempts(2))
		ids := c.storeMany(c.wire.cfg.ListLarge)
		half := func(a *faultproxy.Answer) { a.Body = a.Body[:len(a.Body)/2] }
		for situation, fault := range map[string]faultproxy.Fault{
			"the store is busy":                  answering(c.wire.cfg.Answers.Throttled),
			"the connection is reset":            {Reset: faultproxy.AfterServer},
			"the page is cut":                    {Cut: faultproxy.CutLength, Bytes: 20},
			"the page is cut, and well formed":   {Cut: faultproxy.CutClean, Bytes: 20},
			"the page is empty, and well formed": {Cut: faultproxy.CutClean},
			"half of the page, and well formed":  {Edit: half},
			"an error document in place of it":   answering(c.wire.cfg.Answers.Document),
		} {
			for page := range 2 {
				c.wire.proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
					if r.Operation == string(walstorage.OpList) && r.Number == page+1 {
						return fault
					}
					return faultproxy.Fault{}
				})
				c.wantListed(m, walstorage.ListOptions{}, ids, fmt.Sprintf("page %d: %s, once", page+1, situation))
				pages := c.wire.proxy.Count(string(walstorage.OpList))
				require.Greater(c, pages, 2, "FaultsConfig.ListLarge has to be more than a page")

				c.wire.proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
					if r.Operation == string(walstorage.OpList) && r.Number > page {
						return fault
					}
					return faultproxy.Fault{}
				})
				if found, err := c.list(limited, walstorage.ListOptions{}); err == nil {
					c.Errorf("page %d: %s, always: the list has ended after %d of %d segments without an error", page+1, situation, len(found), len(ids))
				}
			}
		}
	}),

	overWire("F10", 0, func(c *T) {
		m := c.openFaults()
		for situation, fault := range map[string]faultproxy.Fault{
			"the connection is reset after the delete":          {Reset: faultproxy.AfterServer},
			"the server deletes and answers that it has failed": {Answer: c.wire.cfg.Answers.Internal.raw(), At: faultproxy.AfterServer},
		} {
			c.meetsOnce(m, walstorage.OpDelete, fault, 1, situation)
		}
	}),
}
