package drivertest

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// With is the configuration with a change.
func With[C any](config C, change func(config *C)) C {
	change(&config)
	return config
}

// in is the configuration for a place in its store.
func (d Driver[C, D]) in(config C, place objectstore.Config) C {
	*fieldsOf(&config).Store = place
	return config
}

// Suite says to conformance.Run how handles are opened on the store of a configuration, which may depend on the case.
func (d Driver[C, D]) Suite(config func(tb testing.TB) C) conformance.Config {
	return conformance.Config{
		Open: func(tb testing.TB, place objectstore.Config) walstorage.WalStorageManager {
			manager, err := d.New(tb.Context(), d.in(config(tb), place))
			require.NoError(tb, err)
			return manager
		},
		Driver: func(tb testing.TB) objectstore.Driver {
			driver, err := d.NewDriver(tb.Context(), config(tb))
			require.NoError(tb, err)
			return driver
		},
	}
}

// Faults adds to the words of a protocol how handles are opened for conformance.RunFaults, with the configuration for an
// address.
func (d Driver[C, D]) Faults(words conformance.FaultsConfig, config func(url string) C) conformance.FaultsConfig {
	at := func(at conformance.Endpoint, place objectstore.Config) C {
		c := d.in(config(at.URL), place)
		*fieldsOf(&c).HTTPClient = at.Client
		return c
	}
	words.Driver = func(tb testing.TB, endpoint conformance.Endpoint) objectstore.Driver {
		driver, err := d.NewDriver(tb.Context(), at(endpoint, objectstore.Config{}))
		require.NoError(tb, err)
		return driver
	}
	words.Open = func(tb testing.TB, endpoint conformance.Endpoint, place objectstore.Config) walstorage.WalStorageManager {
		manager, err := d.New(tb.Context(), at(endpoint, place))
		require.NoError(tb, err)
		return manager
	}
	return words
}

// InBubbles has the cases run each on a fake of its own, in virtual time. Under the race detector the random schedule is
// short.
func InBubbles[H handler](cfg conformance.FaultsConfig, start func() H) conformance.FaultsConfig {
	cfg.Handler = func(tb testing.TB) http.Handler {
		fake := start()
		tb.Cleanup(fake.Close)
		return fake
	}
	if Race {
		cfg.Operations = 1000
	}
	return cfg
}

// Residue lists what a fake holds under a prefix that is no segment.
func Residue[F any](fake Fake[F]) func(tb testing.TB, prefix string) []string {
	return func(_ testing.TB, prefix string) (names []string) {
		for _, key := range fake.Keys(Bucket) {
			if strings.HasPrefix(key, prefix) && !strings.HasSuffix(key, ".wal") {
				names = append(names, key)
			}
		}
		return names
	}
}

// Long are the cases that take long, each with why a second run of the suite on the same driver goes without it. The first
// is TestConformance/plain.
func Long(reason string) map[string]string {
	skip := make(map[string]string)
	for _, id := range []string{"C3", "C4", "C5", "F9", "H4", "H8", "L2", "L3", "L7", "L10"} {
		skip[id] = "long, and " + reason + ": TestConformance/plain has it"
	}
	return skip
}

// What a peer process is told: the address of the store, and which place or which kind of store it is.
const (
	peerURL  = "WALHOP_PEER_URL"
	peerKind = "WALHOP_PEER_KIND"
)

// Peer starts this test binary again, and in it the test named, for the suite to race with. That test, or TestMain, calls
// [Driver.PeerMain].
func Peer(test, url, kind string) func(tb testing.TB) *exec.Cmd {
	return func(tb testing.TB) *exec.Cmd {
		cmd := conformance.Reexecute(tb, test)
		cmd.Env = append(cmd.Env, peerURL+"="+url, peerKind+"="+kind)
		return cmd
	}
}

// PeerMain is conformance.PeerMain, with the configuration for what [Peer] has told.
func (d Driver[C, D]) PeerMain(config func(url, kind string) C) {
	conformance.PeerMain(func(place objectstore.Config) (walstorage.WalStorageManager, error) {
		manager, err := d.New(context.Background(), d.in(config(os.Getenv(peerURL), os.Getenv(peerKind)), place))
		if err != nil {
			return nil, err // and no manager that is nil and yet something
		}
		return manager, nil
	})
}
