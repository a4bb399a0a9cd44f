package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// FaultsConfig says how the suite of faults reaches a backend that speaks HTTP, and how its protocol words what goes
// wrong. Driver or Open, and Handler or URL, must be set; every other field may stay zero.
type FaultsConfig struct {
	// Driver returns an independent handle on the store that is found at the endpoint, for a backend that is an
	// objectstore.Driver. The suite closes it.
	Driver func(tb testing.TB, at Endpoint) objectstore.Driver

	// Open returns an independent handle on the store as a whole manager, as Config.Open does. If it is nil,
	// objectstore.New over Driver is used. The suite counts requests: where store is not passed on to an
	// objectstore.Manager, the manager has to keep to the limits in it by itself.
	Open func(tb testing.TB, at Endpoint, store objectstore.Config) walstorage.WalStorageManager

	// Handler makes a server with an empty store, in this process, for one case. It lets the suite run in virtual time
	// what takes long, inside a testing/synctest bubble: the handler may not use the network, nor anything that was made
	// outside of the call and blocks. Buckets that Driver and Open name must exist.
	Handler func(tb testing.TB) http.Handler

	// URL is the scheme and host of a server that runs already, such as "http://127.0.0.1:9000". It serves every case
	// that needs no virtual time, also where Handler is set. The cases use places of their own and clean up.
	URL string

	// Host takes the place of the Host header on the way to URL, for servers that insist on their name. Default: what
	// the client sends, which signatures may cover.
	Host string

	// Operation tells what a request asks for: walstorage.OpUpload, OpFetch, OpStat, OpDelete, OpList, or "" for
	// anything else (a look for the bucket, a token). Default: by the method. PUT and POST are uploads, HEAD stats,
	// DELETE deletes, GET with a Range fetches, any other GET lists.
	Operation func(r *http.Request) walstorage.Op

	// Content returns the segment in the body of an upload, for protocols that put something around it. Such bodies
	// need no Content-Length either. Default: the body is the segment, and its length is told.
	Content func(r *http.Request, body []byte) ([]byte, error)

	// Answers are the protocol's words for what goes wrong.
	Answers FaultAnswers

	// Headers are the names of all headers that a request of an operation may have, beside Host, Content-Length,
	// User-Agent and Accept-Encoding (J24). Default: any, but for those of a chunked or trailing upload.
	Headers map[walstorage.Op][]string

	// Required are headers that every request of an operation must have, by name, with their value, "" for any (J24).
	Required map[walstorage.Op]map[string]string

	// WithoutToken rewrites a page of a list that has more pages so that it still says so and does not say where they
	// begin (E14). Leave it nil where the protocol cannot say that.
	WithoutToken func(page []byte) []byte

	// ListLarge is the number of segments that make a list of two pages. 0 means 1,001.
	ListLarge int

	// Operations is the number of operations of the random schedule (J28). 0 means 10,000 in virtual time and 500
	// without it.
	Operations int

	// Timeout is the watchdog's limit for one case, in real time. 0 means one minute.
	Timeout time.Duration

	// Secrets are strings that no error text may hold (W11): the credentials, signatures and tokens of the handles.
	Secrets []string

	// Seed chooses the pseudo-random choices of the cases, such as the schedule of J28. 0 is a seed like any other.
	Seed uint64

	// Shared names goroutines that are no leaks, as Config.Shared does. In virtual time there may be none: what a library
	// starts once and for all it has to start before RunFaults.
	Shared map[string]string

	// Skip holds the ids of cases not to run, each with the reason, which is printed.
	Skip map[string]string

	// Report, if it is set, is told of each case as it ends, one after another.
	Report func(Result)

	// manage makes a manager of a driver; nil is objectstore.New. The tests of the suite put wrong managers here.
	manage func(driver objectstore.Driver, store objectstore.Config) (walstorage.WalStorageManager, error)
	// brief makes the load of J18 a quarter and the large upload of J24 a small one, for those tests.
	brief bool
}

// Endpoint is where a handle finds its server.
type Endpoint struct {
	// URL is a scheme and a host, without a path.
	URL string
	// Client has to be used for every request if it is not nil: it reaches a server that no other client reaches. If it
	// is nil the backend uses what it uses in production.
	Client *http.Client
}

// FaultAnswer is an answer of the server that is not the right one. The body is left out where the request is a HEAD.
type FaultAnswer struct {
	Status int
	Header http.Header
	Body   string
}

// FaultAnswers are the answers that differ between protocols. A field that is left zero has the default named there; a
// case that needs one without a default is skipped.
type FaultAnswers struct {
	// Throttled asks to come again later. Default: 503 without a body.
	Throttled FaultAnswer
	// Internal says that the server has failed. Default: 500 without a body.
	Internal FaultAnswer
	// Transient are further answers after which the same request has to be sent again, such as RequestTimeout of S3.
	Transient []FaultAnswer
	// Conflict says of a create that another one of the same name is under way, and asks to try again (C13). No default.
	Conflict FaultAnswer
	// Exists are the answers to a create that mean that the object exists. Default: 412 without a body.
	Exists []FaultAnswer
	// Denied refuses the request. Default: 403 without a body.
	Denied FaultAnswer
	// Expired says that the credentials have expired (J21); handles must then be able to get others. No default.
	Expired FaultAnswer
	// Document is an error document under status 200 (J16). Default: one of XML.
	Document FaultAnswer
}

func (a FaultAnswers) withDefaults() FaultAnswers {
	for _, d := range []struct {
		answer *FaultAnswer
		status int
	}{
		{&a.Throttled, http.StatusServiceUnavailable},
		{&a.Internal, http.StatusInternalServerError},
		{&a.Denied, http.StatusForbidden},
	} {
		if d.answer.Status == 0 {
			d.answer.Status = d.status
		}
	}
	if len(a.Exists) == 0 {
		a.Exists = []FaultAnswer{{Status: http.StatusPreconditionFailed}}
	}
	if a.Document.Status == 0 {
		a.Document = FaultAnswer{
			Status: http.StatusOK,
			Header: http.Header{"Content-Type": {"application/xml"}},
			Body:   `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>`,
		}
	}
	return a
}

// operationByMethod is the default of FaultsConfig.Operation.
func operationByMethod(r *http.Request) walstorage.Op {
	switch r.Method {
	case http.MethodPut, http.MethodPost:
		return walstorage.OpUpload
	case http.MethodHead:
		return walstorage.OpStat
	case http.MethodDelete:
		return walstorage.OpDelete
	case http.MethodGet:
		if r.Header.Get("Range") != "" {
			return walstorage.OpFetch
		}
		return walstorage.OpList
	}
	return ""
}

// check returns the configuration with its defaults, or an error that names the wrong field.
func (cfg FaultsConfig) check() (FaultsConfig, error) {
	switch {
	case cfg.Driver == nil && cfg.Open == nil:
		return cfg, fmt.Errorf("conformance: FaultsConfig: neither Driver nor Open is set")
	case cfg.Handler == nil && cfg.URL == "":
		return cfg, fmt.Errorf("conformance: FaultsConfig: neither Handler nor URL is set")
	case cfg.ListLarge < 0:
		return cfg, fmt.Errorf("conformance: FaultsConfig.ListLarge is negative: %d", cfg.ListLarge)
	case cfg.Operations < 0:
		return cfg, fmt.Errorf("conformance: FaultsConfig.Operations is negative: %d", cfg.Operations)
	case cfg.Timeout < 0:
		return cfg, fmt.Errorf("conformance: FaultsConfig.Timeout is negative: %v", cfg.Timeout)
	case slices.Contains(cfg.Secrets, ""):
		return cfg, fmt.Errorf("conformance: FaultsConfig.Secrets holds an empty string")
	}
	if cfg.URL != "" {
		u, err := url.Parse(cfg.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Path != "" && u.Path != "/" {
			return cfg, fmt.Errorf("conformance: FaultsConfig.URL is no scheme and host alone")
		}
	}
	if err := checkReasons("FaultsConfig.Shared", cfg.Shared); err != nil {
		return cfg, err
	}
	if err := checkSkip("FaultsConfig.Skip", cfg.Skip, faultCases); err != nil {
		return cfg, err
	}
	if cfg.Operation == nil {
		cfg.Operation = operationByMethod
	}
	cfg.Answers = cfg.Answers.withDefaults()
	if cfg.ListLarge == 0 {
		cfg.ListLarge = listLargeFaults
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = timeoutDefault
	}
	return cfg, nil
}

// given tells what the cases have to work with.
func (cfg FaultsConfig) given() need {
	var given need
	for bit, set := range map[need]bool{
		needFaultsDriver: cfg.Driver != nil,
		needHandler:      cfg.Handler != nil,
		needConflict:     cfg.Answers.Conflict.Status != 0,
		needExpired:      cfg.Answers.Expired.Status != 0,
		needWithoutToken: cfg.WithoutToken != nil,
	} {
		if set {
			given |= bit
		}
	}
	return given
}
