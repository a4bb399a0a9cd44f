package protocols

import (
	"net/http"

	"github.com/walhop/walhop/conformance"
	"github.com/walhop/walhop/walstorage"
)

// Azure is the protocol of Azure Blob Storage. A marker alone says there that a list has more pages, and nobody renews a
// shared access signature.
func Azure() conformance.FaultsConfig {
	return conformance.FaultsConfig{
		Operation: azureOperation,
		Answers: conformance.FaultAnswers{
			Throttled: AzureError(503, "ServerBusy"),
			Internal:  AzureError(500, "InternalError"),
			Transient: []conformance.FaultAnswer{AzureError(500, "OperationTimedOut"), AzureError(409, "SystemInUse"), AzureError(408, "")},
			Conflict:  AzureError(409, "SystemInUse"),
			Exists:    []conformance.FaultAnswer{AzureError(409, "BlobAlreadyExists"), AzureError(412, "ConditionNotMet"), AzureError(403, "UnauthorizedBlobOverwrite")},
			Denied:    AzureError(403, "AuthorizationFailure"),
			Document:  AzureError(200, "InternalError"),
		},
	}
}

// AzureError is an error document, as a server sends it that is not at its best.
func AzureError(status int, code string) conformance.FaultAnswer {
	return conformance.FaultAnswer{
		Status: status,
		Header: http.Header{"Content-Type": {"application/xml"}, "X-Ms-Request-Id": {"proxy"}, "X-Ms-Error-Code": {code}},
		Body:   `<?xml version="1.0" encoding="utf-8"?><Error><Code>` + code + `</Code><Message>as the proxy wants it</Message></Error>`,
	}
}

func azureOperation(r *http.Request) walstorage.Op {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPut:
		return walstorage.OpUpload
	case r.Method == http.MethodDelete, query.Get("comp") == "batch":
		return walstorage.OpDelete
	case query.Get("comp") == "list":
		return walstorage.OpList
	case query.Get("restype") == "container":
		return "" // a look at the container
	case r.Method == http.MethodGet:
		return walstorage.OpFetch
	case r.Method == http.MethodHead:
		return walstorage.OpStat
	}
	return ""
}
