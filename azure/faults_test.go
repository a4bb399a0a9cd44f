package azure_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/internal/caseresults"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// What networks and servers do to requests, group J and all that RunFaults has beside it.
func TestFaults(t *testing.T) {
	t.Parallel()
	cfg := faultsConfig()
	cfg.Report = caseresults.Record(t, "azure")
	conformance.RunFaults(t, cfg)
}

func faultsConfig() conformance.FaultsConfig {
	operations := 0 // the suite's own number
	if raceDetector {
		operations = 1000
	}
	at := func(at conformance.Endpoint, store objectstore.Config) azure.Config {
		c := withSAS(at.URL) // a shared key's signature covers the range, which the suite changes on its way
		c.HTTPClient, c.Store = at.Client, store
		return c
	}
	return conformance.FaultsConfig{
		Handler: func(tb testing.TB) http.Handler {
			server := newFake(fake.Config{PageSize: 100})
			tb.Cleanup(server.Close)
			return server
		},
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
		Headers: map[walstorage.Op][]string{
			walstorage.OpUpload: slices.Concat(allowed, []string{"If-None-Match", "X-Ms-Blob-Type", "X-Ms-Content-Crc64", "X-Ms-Meta-Walhopcrc32c"}),
			walstorage.OpFetch:  slices.Concat(allowed, []string{"X-Ms-Range"}),
			walstorage.OpStat:   allowed,
			walstorage.OpDelete: allowed,
			walstorage.OpList:   allowed,
		},
		Required: map[walstorage.Op]map[string]string{
			walstorage.OpUpload: {"If-None-Match": "*", "X-Ms-Blob-Type": "BlockBlob", "X-Ms-Content-Crc64": "", "X-Ms-Meta-Walhopcrc32c": ""},
		},
		ListLarge:  101,
		Operations: operations,
		Secrets:    secrets(),
		Skip: map[string]string{
			"E14": "List Blobs says that there is more by the marker alone; without the marker it is no list, which is J16 and TestBrokenLists",
			"J21": "nobody renews a SAS: for tokens TestRefusedToken has it",
		},
	}
}

// azureError is an error document.
func azureError(status int, code string) conformance.FaultAnswer {
	return conformance.FaultAnswer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/xml"}, "X-Ms-Request-Id": {"proxy"}, "X-Ms-Error-Code": {code}},
		Body:   `<?xml version="1.0" encoding="utf-8"?><Error><Code>` + code + `</Code><Message>as the proxy wants it</Message></Error>`,
	}
}

// operationOf tells what a request to the blob service asks for.
func operationOf(r *http.Request) walstorage.Op {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPut:
		return walstorage.OpUpload
	case r.Method == http.MethodDelete, query.Get("comp") == "batch":
		return walstorage.OpDelete
	case query.Get("comp") == "list":
		return walstorage.OpList
	case r.Method == http.MethodGet:
		return walstorage.OpFetch
	case r.Method == http.MethodHead:
		return walstorage.OpStat
	}
	return ""
}
