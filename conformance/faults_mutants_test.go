package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// faultMutants are wrong backends over HTTP, for RunFaults: drivers with a flaw, or right ones under a wrong manager.
var faultMutants = []mutant{
	// Wrong in how often they ask.
	blobMutant("two layers retry", "J20", "C13 J3 J4 J7 J11 J17 J18", blobFlaws{retriesInside: true}),
	blobMutant("a second attempt sends a body that was consumed", "J10", "C13 C15 J1 J2 J3 J4 J6 J7 J8 J11 J17 J18 J20 J21 J24 J25 J28 J29", blobFlaws{resendsConsumed: true}),
	blobMutant("what is wrong is sent again", "J19", "", blobFlaws{badIsRetried: true}),
	blobMutant("408 is final", "J6", "J20 J28", blobFlaws{timeoutIsFinal: true}),
	blobMutant("429 is final", "C15", "J3 J5 J20 J28", blobFlaws{tooManyIsFinal: true}),
	blobMutant("502 and 504 are final", "J1", "J20 J28", blobFlaws{gatewayIsFinal: true}),
	blobMutant("503 is final", "J2", "E15 J3 J20 J28", blobFlaws{throttleIsFinal: true}),
	blobMutant("503 to an upload is final", "J5", "C9 J2 J3 J4 J10 J18 J20 J28 J29", blobFlaws{busyIsFinal: true}),
	blobMutant("Retry-After is not read", "J3", "", blobFlaws{ignoresRetryAfter: true}),
	blobMutant("a lost connection is no reason to ask again", "J8", "C9 C10 C11 E15 F10 J7 J9 J10 J11 J20 J25 J28", blobFlaws{lostIsUnclassified: true}),
	blobMutant("a connection that does not come about is no reason to ask again", "J7", "", blobFlaws{dialIsUnclassified: true}),
	blobMutant("an answer that was cut is one", "J11", "J28", blobFlaws{cutIsFinal: true}),
	blobMutant("expired credentials are not renewed", "J21", "", blobFlaws{neverRefreshes: true}),
	managerMutant("no gate, and a budget of five attempts", "J18", "J4 J20 J28", func(store *objectstore.Config) {
		store.GateFailures = 1 << 30
		if store.MaxAttempts == 0 {
			store.MaxAttempts = 5
		}
	}),
	managerMutant("no gate: everybody asks a busy store by himself", "J4", "J18", func(store *objectstore.Config) { store.GateFailures = 1 << 30 }),

	// Wrong in what they believe.
	blobMutant("304 is exists", "C14", "", blobFlaws{takes304: true}),
	blobMutant("a conflict is exists", "C13", "", blobFlaws{conflictIsExists: true}),
	blobMutant("exists is success, whoever has won", "C10", "C11 C14 C15 J19 J28 J29", blobFlaws{createsSilently: true}),
	blobMutant("a refusal is a missing segment", "J19", "J29", blobFlaws{deniedIsMissing: true}),
	blobMutant("a lost connection is a missing segment", "J9", "C9 C10 C11 E15 F10 I8 J7 J8 J10 J11 J17 J20 J25 J28", blobFlaws{lostIsMissing: true}),
	blobMutant("a short body is success", "J11", "I8 J15 J28", blobFlaws{shortIsSuccess: true}),
	blobMutant("Content-Range is not read", "D14", "J19 J28", blobFlaws{ignoresRange: true}),
	blobMutant("the whole object passes for a range", "D13", "D14 J19 J28", blobFlaws{takesWhole: true}),
	blobMutant("every 2xx is success", "J16", "J17 J29", blobFlaws{anySuccess: true}),
	blobMutant("a page that cannot be read is the end of the list", "E15", "I8 J15 J16 J28", blobFlaws{listIgnoresErrors: true}),
	blobMutant("more without a token is the end of the list", "E14", "", blobFlaws{listIgnoresMore: true}),
	blobMutant("a second delete fails", "F10", "J1 J2 J3 J6 J7 J8 J9 J13 J21 J22 J25 J28", blobFlaws{deleteMissingFails: true}),
	managerOver("exists after a lost answer is an error", "C9", "C11 C12 C13 C14 C15 J1 J2 J3 J5 J6 J7 J8 J9 J10 J13 J14 J18 J21 J22 J25 J28 J29", func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
		return newDoubter(d, store)
	}),
	managerOver("a list follows a repeated token for ever", "E13", "", func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
		return newManager(&uniqueTokens{Driver: d}, store)
	}),
	managerOver("a failure is told with its query string", "I8", "J7 J8 J20", func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
		return newTeller(d, store, func(err, raw error) error { return &told{error: err, text: err.Error() + ": " + raw.Error()} })
	}),
	managerOver("an attempt's deadline looks like the caller's", "J13", "J14", func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
		m, err := newManager(d, store)
		return &careless{m}, err
	}),

	// Wrong in waiting.
	blobMutant("a stalled download is not ended", "J15", "J13 J28", blobFlaws{deafToStalls: true}),
	blobMutant("a stalled upload is not ended", "J14", "C12 J13 J28", blobFlaws{deafToUploads: true}),
	blobMutant("an answer that does not begin is waited for", "J13", "C12 J14 J15", blobFlaws{deafToHeaders: true}),
	blobMutant("an upload is sent to its end, whatever the answer", "J29", "", blobFlaws{waitsForBody: true}),

	// Wrong in what they send and decode.
	blobMutant("no checksum is sent", "K1", "K2", blobFlaws{noChecksum: true}),
	blobMutant("what is called gzip is decoded", "K6", "", blobFlaws{decodesGzip: true}),
	blobMutant("an upload is chunked", "J24", "", blobFlaws{chunked: true}),
	blobMutant("a header too many", "J24", "", blobFlaws{extraHeader: true}),
	blobMutant("a create without its condition", "J24", "", blobFlaws{noCondition: true}),
	blobMutant("what is large is sent in parts", "J24", "", blobFlaws{largeInParts: true}),

	// Wrong in their connections, and about other servers.
	blobMutant("two connections are kept", "L9", "", blobFlaws{fewConnections: true}),
	blobMutant("the bodies of errors are not closed", "L9", "", blobFlaws{leavesErrorsOpen: true}),
	blobMutant("Close closes the caller's connections", "M7", "", blobFlaws{closesClient: true}),
	blobMutant("one request at a time", "J30", "J18 "+leftBehind, blobFlaws{oneAtATime: true}),
	blobMutant("a redirect is a missing segment", "J17", "", blobFlaws{redirectIsMissing: true}),
	blobMutant("an answer of another time is none", "J22", "", blobFlaws{looksAtClock: true}),
}

func blobMutant(name, caught, also string, flaws blobFlaws) mutant {
	return faultMutant(name, caught, also, blobConfig(flaws, nil))
}

// managerMutant is a right driver under a manager whose configuration was changed.
func managerMutant(name, caught, also string, change func(*objectstore.Config)) mutant {
	return managerOver(name, caught, also, func(d objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error) {
		change(&store)
		return newManager(d, store)
	})
}

// managerOver is a right driver under a wrong manager.
func managerOver(name, caught, also string, manage func(objectstore.Driver, objectstore.Config) (walstorage.WalStorageManager, error)) mutant {
	return faultMutant(name, caught, also, blobConfig(blobFlaws{}, manage))
}

// overHTTP begins the names of faultMutants, some of which are those of mutants.
const overHTTP = "over HTTP: "

func faultMutant(name, caught, also string, cfg FaultsConfig) mutant {
	return mutant{name: overHTTP + name, caught: caught, also: also, run: func(t *testing.T) map[string][]string { return runFaultMutant(t, cfg) }}
}

// runFaultMutant runs every case of RunFaults and returns the failures by id.
func runFaultMutant(t *testing.T, cfg FaultsConfig) map[string][]string {
	cfg.Operations, cfg.brief = 200, true
	cfg, err := cfg.check()
	require.NoError(t, err)
	r := newFaultsRunner(cfg)
	r.prompt, r.tidyRounds = 2*time.Second, 1 // less than flaws wait
	return runAllOn(t, r, faultCases)
}

// careless is a manager whose errors have all that the library below has said in their chain.
type careless struct{ walstorage.WalStorageManager }

func (m *careless) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	err := m.WalStorageManager.UploadSegment(ctx, id, data)
	if errors.Is(err, walstorage.ErrUnavailable) && strings.Contains(err.Error(), "no answer within") {
		err = errors.Join(err, context.DeadlineExceeded)
	}
	return err
}

// The right driver that the wrong ones are made of fails nothing, under the same limits.
func TestFaultMutantsAreMadeOfARightDriver(t *testing.T) {
	t.Parallel()
	require.Empty(t, runFaultMutant(t, blobConfig(blobFlaws{}, nil)))
}

// A configuration of the suite of faults that is wrong is refused by the name of the field.
func TestFaultsConfigIsChecked(t *testing.T) {
	for field, spoil := range map[string]func(cfg *FaultsConfig){
		"Open":              func(cfg *FaultsConfig) { cfg.Driver = nil },
		"Handler":           func(cfg *FaultsConfig) { cfg.Handler = nil },
		"URL":               func(cfg *FaultsConfig) { cfg.URL = "127.0.0.1:9000" },
		"FaultsConfig.URL":  func(cfg *FaultsConfig) { cfg.URL = "http://user:password@127.0.0.1" },
		"URL is no scheme":  func(cfg *FaultsConfig) { cfg.URL = "http://127.0.0.1/path?token=1" },
		"ListLarge":         func(cfg *FaultsConfig) { cfg.ListLarge = -1 },
		"Operations":        func(cfg *FaultsConfig) { cfg.Operations = -1 },
		"Timeout":           func(cfg *FaultsConfig) { cfg.Timeout = -1 },
		"Secrets":           func(cfg *FaultsConfig) { cfg.Secrets = []string{""} },
		"Shared":            func(cfg *FaultsConfig) { cfg.Shared = map[string]string{"": "a reason"} },
		`Skip["J1"]`:        func(cfg *FaultsConfig) { cfg.Skip = map[string]string{"J1": ""} },
		`Skip["A1"]: there`: func(cfg *FaultsConfig) { cfg.Skip = map[string]string{"A1": "a case of the other suite"} },
	} {
		cfg := blobConfig(blobFlaws{}, nil)
		spoil(&cfg)
		_, err := cfg.check()
		require.ErrorContains(t, err, field)
		require.NotContains(t, fmt.Sprint(err), "password")
	}
}

// Without an Operation a request is told by its method.
func TestOperationByMethod(t *testing.T) {
	for method, op := range map[string]walstorage.Op{
		http.MethodPut: walstorage.OpUpload, http.MethodPost: walstorage.OpUpload, http.MethodHead: walstorage.OpStat,
		http.MethodDelete: walstorage.OpDelete, http.MethodGet: walstorage.OpList, http.MethodOptions: "",
	} {
		require.Equal(t, op, operationByMethod(&http.Request{Method: method}), method)
	}
	require.Equal(t, walstorage.OpFetch, operationByMethod(&http.Request{Method: http.MethodGet, Header: http.Header{"Range": {"bytes=0-1"}}}))
}
