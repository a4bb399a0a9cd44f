package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/faultproxy"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// RunFaults proves that a backend that speaks HTTP survives what networks and servers do to it: a proxy between the
// backend and its server loses answers, stalls, cuts, damages, throttles and lies. It runs groups J and K, and over the
// wire the cases of groups C, D, E and F that ask for it, as subtests of t named by their ids. See the package
// documentation for what to give it.
func RunFaults(t *testing.T, cfg FaultsConfig) {
	t.Helper()
	cfg, err := cfg.check()
	if err != nil {
		t.Fatal(err)
	}
	r := newFaultsRunner(cfg)
	r.prints = true
	r.runAll(t, faultCases)
}

// newFaultsRunner returns the runner of a checked configuration.
func newFaultsRunner(cfg FaultsConfig) *runner {
	r := &runner{
		suite: "RunFaults",
		given: cfg.given(), skip: cfg.Skip, timeout: cfg.Timeout, prompt: promptly, patience: leakPatience, tidyRounds: tidyRounds,
		seed: cfg.Seed, shared: cfg.Shared, report: cfg.Report, brief: cfg.brief,
		attach: func(c *T) func() []string {
			c.wire = newWire(cfg, c)
			c.storage = newStorage(c.wire.config(), c)
			return func() []string {
				c.wire.proxy.Script(nil)
				return c.storage.tidy(c)
			}
		},
	}
	if cfg.Handler != nil {
		r.inBubble = inBubble
	}
	return r
}

// inBubble runs the body of a case in virtual time. What the recorder's context is made of must be made in the bubble.
func inBubble(outer testing.TB, rec *recorder, body func()) {
	t, ok := outer.(*testing.T)
	if !ok {
		rec.Errorf("virtual time needs a *testing.T, and this is a %T", outer)
		return
	}
	defer rec.recovered() // a bubble in which nothing moves any more panics
	synctest.Test(t, func(*testing.T) {
		rec.ctx, rec.cancel = context.WithCancel(context.Background())
		body()
	})
}

// wire is what lies between a case's handles and their server.
type wire struct {
	cfg FaultsConfig
	// virtual tells that the case runs in a bubble.
	virtual bool
	// behind is what the proxies of the case stand before.
	behind faultproxy.Config
	proxy  *faultproxy.Proxy
	server *faultproxy.Server
	// clean leads to the same server without faults, for looking at what is stored.
	clean *faultproxy.Server
	// direct is a handle on clean, made when it is first needed, by the goroutine of the case.
	direct *handle
	// usual is what requestsOf has found, by the goroutine of the case.
	usual map[walstorage.Op]int

	mu sync.Mutex
	// contents are the segments that the case has made, by key: a proxy cannot ask a server for more of an object than
	// its client has signed for.
	contents map[string][]byte
}

// know tells the proxies what a segment holds.
func (c *T) know(id walstorage.SegmentID, data []byte) {
	key := c.key(id)
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	c.wire.contents[key] = data
}

// whole returns the segment that a request reads, nil for one that is not known.
func (w *wire) whole(r *http.Request) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, data := range w.contents {
		if strings.HasSuffix(r.URL.Path, "/"+key) {
			return data
		}
	}
	return nil
}

// newWire makes the network of one case. It is taken down when everything else of the case has ended.
func newWire(cfg FaultsConfig, c *T) *wire {
	w := &wire{cfg: cfg, virtual: c.virtual && cfg.Handler != nil, contents: map[string][]byte{}, usual: map[walstorage.Op]int{}}
	behind := faultproxy.Config{
		Host:      cfg.Host,
		URL:       cfg.URL,
		Whole:     w.whole,
		Operation: func(r *http.Request) string { return string(cfg.Operation(r)) },
	}
	if w.virtual || cfg.URL == "" {
		behind.URL, behind.Host, behind.Handler = "", "", cfg.Handler(c)
		require.NotNil(c, behind.Handler, "FaultsConfig.Handler returned nil")
	}
	w.behind = behind
	listen := faultproxy.Listen
	if w.virtual {
		listen = faultproxy.Pipe
	}
	start := func() (*faultproxy.Proxy, *faultproxy.Server) {
		proxy, err := faultproxy.New(behind)
		require.NoError(c, err)
		server := listen(proxy)
		c.Cleanup(server.Close)
		return proxy, server
	}
	w.proxy, w.server = start()
	_, w.clean = start()
	return w
}

// config is how the rest of the suite reaches the server: without faults.
func (w *wire) config() Config {
	cfg := Config{ListLarge: w.cfg.ListLarge, Secrets: w.cfg.Secrets, Seed: w.cfg.Seed, manage: w.cfg.manage}
	if w.cfg.Driver != nil {
		cfg.Driver = func(tb testing.TB) objectstore.Driver { return w.cfg.Driver(tb, endpointOf(w.clean)) }
	}
	if w.cfg.Open != nil {
		cfg.Open = func(tb testing.TB, store objectstore.Config) walstorage.WalStorageManager {
			return w.cfg.Open(tb, endpointOf(w.clean), store)
		}
	}
	return cfg
}

func endpointOf(server *faultproxy.Server) Endpoint {
	return Endpoint{URL: server.URL, Client: server.Client}
}

// openFaults returns a handle on the case's place whose requests pass the proxy. Pauses between attempts are short and
// deadlines long, unless change says otherwise; a call that is repeated without end ends long before the watchdog.
func (c *T) openFaults(change ...func(*objectstore.Config)) *handle {
	return c.openFaultsAt(endpointOf(c.wire.server), change...)
}

func (c *T) openFaultsAt(at Endpoint, change ...func(*objectstore.Config)) *handle {
	c.storage.remember(c.storage.home)
	store := c.storage.home.config()
	store.Seed = c.seed
	store.MaxRetryTime = 15 * time.Second
	store.BackoffBase, store.BackoffCap = time.Millisecond, 10*time.Millisecond
	store.ProbeMin, store.ProbeMax = time.Millisecond, 10*time.Millisecond
	for _, f := range change {
		f(&store)
	}
	h := &handle{c: c}
	if c.wire.cfg.Open != nil {
		h.WalStorageManager = c.wire.cfg.Open(c, at, store)
	} else {
		m, err := c.storage.cfg.manager(c.wire.cfg.Driver(c, at), store)
		require.NoError(c, err, "objectstore.New over the driver of the configuration")
		h.WalStorageManager = m
	}
	require.NotNil(c, h.WalStorageManager, "FaultsConfig.Open returned nil")
	c.Cleanup(func() { h.finish() })
	return h
}

// faultsDriver returns a driver whose requests pass the proxy.
func (c *T) faultsDriver() objectstore.Driver {
	driver := c.wire.cfg.Driver(c, endpointOf(c.wire.server))
	require.NotNil(c, driver, "FaultsConfig.Driver returned nil")
	c.Cleanup(func() {
		if err := driver.Close(); err != nil {
			c.Errorf("closing a driver: %v", err)
		}
	})
	return driver
}

// onWire gives the requests of one operation these faults, by their number; later ones, and all others, have none. It
// begins a new count of requests.
func (c *T) onWire(op walstorage.Op, faults ...faultproxy.Fault) {
	c.wire.proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
		if r.Operation == string(op) && r.Number <= len(faults) {
			return faults[r.Number-1]
		}
		return faultproxy.Fault{}
	})
}

// alwaysOnWire gives every request of one operation the same fault.
func (c *T) alwaysOnWire(op walstorage.Op, fault faultproxy.Fault) {
	c.wire.proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
		if r.Operation == string(op) {
			return fault
		}
		return faultproxy.Fault{}
	})
}

// wantRequests checks how many requests of an operation have come over the wire since the script was set.
func (c *T) wantRequests(op walstorage.Op, want int, situation string) {
	if got := c.wire.proxy.Count(string(op)); got != want {
		c.Errorf("%s: %d requests of %s came over the wire, want %d", situation, got, op, want)
	}
}

// answering is the fault of an answer.
func answering(a FaultAnswer) faultproxy.Fault { return faultproxy.Fault{Answer: a.raw()} }

// status is an answer that is told by its status alone.
func status(code int) faultproxy.Fault { return answering(FaultAnswer{Status: code}) }

func (a FaultAnswer) raw() *faultproxy.Answer {
	return &faultproxy.Answer{Status: a.Status, Header: a.Header.Clone(), Body: []byte(a.Body)}
}

// with adds a header to an answer.
func (a FaultAnswer) with(name, value string) FaultAnswer {
	if a.Header = a.Header.Clone(); a.Header == nil {
		a.Header = http.Header{}
	}
	a.Header.Set(name, value)
	return a
}

// said prints a line of its own, in a run that prints.
func (c *T) said(format string, args ...any) {
	if c.prints {
		fmt.Printf(format+"\n", args...)
		return
	}
	c.Logf(format, args...)
}
