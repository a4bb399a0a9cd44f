package httpstore

import (
	"net/http"

	"github.com/walhop/walhop/walstorage"
)

// KindOfStatus judges an answer by its status alone, where that means one thing whatever was asked (W7): 401 and 403 are a
// refusal, 413 too much, 507 no space; 408, 429 and 5xx, but for 501 and 505, may go better another time. nil is
// unclassified, which Manager does not retry: among them are 304, 404, 409, 412 and 416, which only the driver can tell.
func KindOfStatus(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return walstorage.ErrAccessDenied
	case http.StatusRequestEntityTooLarge:
		return walstorage.ErrTooLarge
	case http.StatusInsufficientStorage:
		return walstorage.ErrNoSpace
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return nil
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return walstorage.ErrUnavailable
	}
	if status >= 500 {
		return walstorage.ErrUnavailable
	}
	return nil
}

// RefuseUpgrade returns an error for an answer that changes the protocol, and closes it: nobody has asked for that, and its
// body is the connection, whose reading no context ends (W8).
func RefuseUpgrade(answer *http.Response) error {
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	_ = answer.Body.Close()
	return unavailable("the server wants to speak another protocol")
}
