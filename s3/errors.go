package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// operation is what was asked: a few answers mean different things to different questions.
type operation int

const (
	opPut operation = iota
	opGet
	opStat
	opDelete
	opList
	opBucket
)

// expiry are the codes that other credentials may make good.
var expiry = map[string]bool{
	"ExpiredToken":          true,
	"ExpiredTokenException": true,
	"TokenRefreshRequired":  true,
	"RequestExpired":        true,
}

// kindOfStatus judges an answer without a code that is known. nil is unclassified: Manager does not retry it.
func kindOfStatus(op operation, status int) error {
	switch {
	case status == http.StatusNotFound && op == opStat:
		return walstorage.ErrSegmentNotFound // the answer to a HEAD has no code
	case status == http.StatusNotFound && op == opBucket:
		return walstorage.ErrBucketNotFound
	case op == opPut && status == http.StatusPreconditionFailed: // 304 says nothing of the kind (C14)
		return walstorage.ErrSegmentExists
	case op == opGet && status == http.StatusRequestedRangeNotSatisfiable:
		return walstorage.ErrInvalidRange
	}
	return httpstore.KindOfStatus(status)
}

// classify turns the failure of an attempt into the driver's error (W7). What the store has answered stands, even if
// the context has ended since.
func (d *Driver) classify(ctx context.Context, w *stall.Watch, op operation, generation uint64, err error) error {
	var own *walstorage.Error
	var partial *objectstore.DeleteError
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	// The SDK makes such an error, with status 0, of a request that had no answer too.
	answered := errors.As(err, &answer) && answer.Response != nil && answer.HTTPStatusCode() > 0
	var none *credentialsError
	switch {
	case errors.As(err, &none):
		// The store was not asked: an answer in the chain is that of a service that gives credentials.
		answered = false
	case errors.As(err, &partial):
		return err
	case errors.As(err, &own):
		if own.Kind != walstorage.ErrUnavailable {
			return err
		}
	case answered && (answer.HTTPStatusCode() < 200 || answer.HTTPStatusCode() > 299):
		code := ""
		if errors.As(err, &api) {
			code = api.ErrorCode()
		}
		return d.answered(op, generation, code, answer, err)
	}
	// From here on no answer came, or not the whole of it.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if stalled := w.Cause(err); stalled != nil {
		return stalled
	}
	if own != nil {
		return own
	}
	var certificate *tls.CertificateVerificationError
	var sending *smithyhttp.RequestSendError
	switch {
	case errors.As(err, &certificate):
		// No time will mend it: it is reported, and not retried.
		return walstorage.NewError(nil, err)
	case none != nil:
		return walstorage.NewError(none.kind(), err)
	case errors.As(err, &sending), answered:
		return walstorage.NewError(walstorage.ErrUnavailable, err)
	}
	return walstorage.NewError(nil, err)
}

// answered classifies what the store has answered.
func (d *Driver) answered(op operation, generation uint64, code string, answer *smithyhttp.ResponseError, err error) error {
	status := answer.HTTPStatusCode()
	head := op == opStat || op == opBucket
	if region := d.elsewhere(code, head, answer.Response); region != "" {
		return walstorage.NewError(nil, fmt.Errorf("s3: the bucket is in the region %q, and requests are for %q: %w", region, d.region, err))
	}
	// The answer to a HEAD has no code. A session that is not known, or not any more, can be made anew at any time.
	if expiry[code] || head && status == http.StatusBadRequest ||
		isDirectory(d.bucket) && (code == "InvalidToken" || status == http.StatusUnauthorized) {
		if d.credentials.expired(generation) {
			return walstorage.NewError(walstorage.ErrUnavailable, err)
		}
		return walstorage.NewError(walstorage.ErrAccessDenied, err)
	}
	kind, known := d.codes[code]
	switch {
	case !known, kind == walstorage.ErrSegmentExists && op != opPut,
		// A code that somebody else's document has, such as a gateway's about its own trouble.
		(kind == walstorage.ErrSegmentNotFound || kind == walstorage.ErrBucketNotFound) && status != http.StatusNotFound && status != http.StatusForbidden,
		(kind == walstorage.ErrSegmentExists || kind == walstorage.ErrInvalidRange) && status >= 500:
		kind = kindOfStatus(op, status)
	case status == http.StatusForbidden && kind != walstorage.ErrNoSpace && kind != walstorage.ErrUnavailable:
		kind = walstorage.ErrAccessDenied // whatever the code is, a refusal is never "not found"
	case kind == walstorage.ErrSegmentNotFound && op != opGet && op != opStat, kind == walstorage.ErrInvalidRange && op != opGet:
		kind = nil
	}
	if kind == nil && !known && cut(err) {
		kind = walstorage.ErrUnavailable // the code was in the part that did not come (J11)
	}
	switch kind {
	case walstorage.ErrSegmentNotFound, walstorage.ErrSegmentExists, walstorage.ErrInvalidRange:
		d.credentials.worked(generation) // who is not let in is not told that
	}
	classified := walstorage.NewError(kind, err)
	if kind == walstorage.ErrUnavailable {
		classified.RetryAfter = httpstore.RetryAfter(answer.Response.Header)
	}
	return classified
}

// elsewhere returns the region that the bucket is in, where the store says that and refuses the request because it is for
// another (J17), "" otherwise. Older regions redirect, and newer ones call the request malformed; to a HEAD, which has no
// code, that looks like credentials that have expired.
func (d *Driver) elsewhere(code string, head bool, answer *smithyhttp.Response) string {
	region := answer.Header.Get("X-Amz-Bucket-Region")
	if isMultiRegion(d.bucket) {
		return "" // its requests are for all regions, and any of its buckets may answer
	}
	switch status := answer.StatusCode; {
	case region == d.region:
	case status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect:
		return region
	case status == http.StatusBadRequest && (head || code == "AuthorizationHeaderMalformed" || code == "IllegalLocationConstraintException"):
		return region
	}
	return ""
}

// isMultiRegion tells whether a bucket's name is the ARN of an access point of many regions, which names none.
func isMultiRegion(bucket string) bool {
	parsed, err := arn.Parse(bucket)
	return err == nil && parsed.Region == ""
}

// cut tells whether the connection was lost while an answer came, or was given up since the answer had no end.
func cut(err error) bool {
	var lost *net.OpError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, httpstore.ErrEndless) || errors.As(err, &lost)
}
