package azurite

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/caseresults"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What networks do to requests does not harm segments in a real server: a proxy before it loses, cuts and damages. The
// handles have a shared access signature.
func TestFaults(t *testing.T) {
	address := integration.Azurite.Address(t)
	name := newContainer(t, address)
	sas := signature(t, address, name)
	values, err := url.ParseQuery(sas)
	require.NoError(t, err)
	at := func(at conformance.Endpoint, store objectstore.Config) azure.Config {
		c := config(at.URL, name)
		c.AccountKey, c.SAS, c.HTTPClient, c.Store = "", sas, at.Client, store
		return c
	}
	conformance.RunFaults(t, conformance.FaultsConfig{
		URL: smallPages(t, address),
		Driver: func(tb testing.TB, endpoint conformance.Endpoint) objectstore.Driver {
			driver, err := azure.NewDriver(tb.Context(), at(endpoint, objectstore.Config{}))
			require.NoError(tb, err)
			return driver
		},
		Open: func(tb testing.TB, endpoint conformance.Endpoint, store objectstore.Config) walstorage.WalStorageManager {
			manager, err := azure.New(tb.Context(), at(endpoint, store))
			require.NoError(tb, err)
			return manager
		},
		Operation: operationOf,
		Answers: conformance.FaultAnswers{
			Throttled: azureError(503, "ServerBusy"),
			Internal:  azureError(500, "InternalError"),
			Transient: []conformance.FaultAnswer{azureError(500, "OperationTimedOut"), azureError(409, "SystemInUse"), azureError(408, "")},
			Conflict:  azureError(409, "SystemInUse"),
			Exists:    []conformance.FaultAnswer{azureError(409, "BlobAlreadyExists"), azureError(412, "ConditionNotMet"), azureError(403, "UnauthorizedBlobOverwrite")},
			Denied:    azureError(403, "AuthorizationFailure"),
			Document:  azureError(200, "InternalError"),
		},
		Timeout:   3 * time.Minute,
		ListLarge: 101,
		Secrets:   []string{sas, values.Get("sig"), url.QueryEscape(values.Get("sig"))},
		Skip:      integration.Gaps(t, integration.Azurite, "RunFaults"),
		Report:    caseresults.Record(t, string(integration.Azurite)),
	})
}

// azureError is an error document, as a server sends it that is not at its best.
func azureError(status int, code string) conformance.FaultAnswer {
	return conformance.FaultAnswer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/xml"}, "X-Ms-Request-Id": {"proxy"}, "X-Ms-Error-Code": {code}},
		Body:   `<?xml version="1.0" encoding="utf-8"?><Error><Code>` + code + `</Code><Message>as the proxy wants it</Message></Error>`,
	}
}

// operationOf tells what a request to Azure asks for.
func operationOf(r *http.Request) walstorage.Op {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPut:
		return walstorage.OpUpload
	case r.Method == http.MethodPost && query.Get("comp") == "batch", r.Method == http.MethodDelete:
		return walstorage.OpDelete
	case r.Method == http.MethodGet && query.Get("comp") == "list":
		return walstorage.OpList
	case r.Method == http.MethodGet:
		return walstorage.OpFetch
	case r.Method == http.MethodHead && strings.Count(r.URL.Path, "/") > 2:
		return walstorage.OpStat
	}
	return "" // a look at the container
}
