package s3

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// credentialsError says that there are no credentials to sign with. What it holds is the failure of whoever gives them,
// a metadata service, STS, a program, and never one of the store.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "no credentials: " + e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// kind tells whether the source of credentials could not be reached, or is busy, or has given what is no answer, which
// another time may mend, or does not want to give any (W7, J21).
func (e *credentialsError) kind() error {
	var panicked *objectstore.PanicError
	if errors.As(e.err, &panicked) {
		return nil // the provider is broken and not busy
	}
	switch status := e.status(); {
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, e.busy():
		return walstorage.ErrUnavailable
	case status >= 300:
		return walstorage.ErrAccessDenied
	case e.unreached(), e.broken():
		return walstorage.ErrUnavailable
	}
	return walstorage.ErrAccessDenied
}

// status is that of the answer, 0 if there was none.
func (e *credentialsError) status() int {
	var answer *smithyhttp.ResponseError
	if errors.As(e.err, &answer) { // whose method fails where no answer came
		if answer.Response == nil || answer.Response.Response == nil {
			return 0
		}
		return answer.Response.StatusCode
	}
	var other interface{ HTTPStatusCode() int } // such as that of a container's endpoint, whose type has no public name
	if errors.As(e.err, &other) {
		return other.HTTPStatusCode()
	}
	return 0
}

// busy tells whether the code of the answer asks for patience: STS says so under status 400.
func (e *credentialsError) busy() bool {
	var api smithy.APIError
	if !errors.As(e.err, &api) {
		return false
	}
	code := api.ErrorCode()
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	_, late := retry.DefaultRetryableErrorCodes[code]
	return throttled || late || code == "IDPCommunicationError"
}

// unreached tells whether the network is to blame. A file that is missing is not that, although its error too can tell
// whether it was a time-out.
func (e *credentialsError) unreached() bool {
	var sending *smithyhttp.RequestSendError
	var asking *url.Error
	var operation *net.OpError
	var name *net.DNSError
	var network net.Error
	return errors.As(e.err, &sending) || errors.As(e.err, &asking) && asking.Op != "parse" ||
		errors.As(e.err, &operation) || errors.As(e.err, &name) || errors.As(e.err, &network) && network.Timeout() ||
		errors.Is(e.err, context.DeadlineExceeded) || errors.Is(e.err, context.Canceled)
}

// broken tells whether an answer came that is none.
func (e *credentialsError) broken() bool {
	var unread *smithy.DeserializationError
	var syntax *json.SyntaxError
	return errors.As(e.err, &unread) || errors.As(e.err, &syntax) ||
		errors.Is(e.err, io.EOF) || errors.Is(e.err, io.ErrUnexpectedEOF)
}
