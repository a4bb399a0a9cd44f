package azure

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/walhop/walhop/internal/httpstore"
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
)

// codes are the error codes of the blob service, with what they mean (W7). A code that is not here is judged by its
// status.
var codes = map[bloberror.Code]error{
	bloberror.BlobNotFound:          walstorage.ErrSegmentNotFound,
	bloberror.ContainerNotFound:     walstorage.ErrBucketNotFound,
	bloberror.ContainerBeingDeleted: walstorage.ErrBucketNotFound,

	// Here "exists" is a 409, and "try again" is too (reports apache/opendal#6741, Azure/Azurite#1543).
	bloberror.BlobAlreadyExists:         walstorage.ErrSegmentExists,
	bloberror.ConditionNotMet:           walstorage.ErrSegmentExists, // of a create: nothing else here has a condition
	bloberror.UnauthorizedBlobOverwrite: walstorage.ErrSegmentExists, // 403, to a SAS that may create and not write
	bloberror.BlobImmutableDueToPolicy:  walstorage.ErrSegmentExists, // only what exists is immutable
	bloberror.SystemInUse:               walstorage.ErrUnavailable,
	bloberror.AccountBeingCreated:       walstorage.ErrUnavailable,

	bloberror.InvalidRange: walstorage.ErrInvalidRange,

	bloberror.AuthenticationFailed:        walstorage.ErrAccessDenied, // also where this machine's clock is wrong
	bloberror.InvalidAuthenticationInfo:   walstorage.ErrAccessDenied, // 400 or 401
	bloberror.NoAuthenticationInformation: walstorage.ErrAccessDenied,
	bloberror.AccountIsDisabled:           walstorage.ErrAccessDenied,
	bloberror.ContainerDisabled:           walstorage.ErrAccessDenied,
	bloberror.BlobArchived:                walstorage.ErrAccessDenied, // moved to the archive by a lifecycle rule
	bloberror.BlobBeingRehydrated:         walstorage.ErrAccessDenied,

	bloberror.ServerBusy:        walstorage.ErrUnavailable,
	bloberror.InternalError:     walstorage.ErrUnavailable,
	bloberror.OperationTimedOut: walstorage.ErrUnavailable, // 500, and it may have worked (report distribution/distribution#4571)

	bloberror.MD5Mismatch:   walstorage.ErrCorrupt,
	bloberror.CRC64Mismatch: walstorage.ErrCorrupt,
	bloberror.InvalidMD5:    walstorage.ErrCorrupt,

	bloberror.RequestBodyTooLarge:              walstorage.ErrTooLarge,
	bloberror.ContentLengthLargerThanTierLimit: walstorage.ErrTooLarge,
}

// kindOfStatus judges an answer without a code that is known. nil is unclassified: Manager does not retry it.
func kindOfStatus(op operation, status int) error {
	switch {
	case op == opPut && status == http.StatusPreconditionFailed:
		return walstorage.ErrSegmentExists
	case op == opGet && status == http.StatusRequestedRangeNotSatisfiable:
		return walstorage.ErrInvalidRange
	}
	return httpstore.KindOfStatus(status)
}

// kindOf judges an answer.
func kindOf(op operation, status int, code string) error {
	kind, known := codes[bloberror.Code(code)]
	switch {
	case status >= 200 && status < 300: // another than the operation has: something between us and the store
		return walstorage.ErrUnavailable
	case op == opDelete && status == http.StatusConflict && bloberror.Code(code) == bloberror.BlobImmutableDueToPolicy:
		return walstorage.ErrAccessDenied // a policy or a hold keeps the blob
	case !known, status >= 500, kind == walstorage.ErrSegmentExists && op != opPut:
		return kindOfStatus(op, status)
	case kind == walstorage.ErrSegmentExists: // of a create, whatever the status
		return kind
	case status == http.StatusForbidden:
		return walstorage.ErrAccessDenied // whatever the code is, a refusal is never "not found"
	case kind == walstorage.ErrSegmentNotFound && status != http.StatusNotFound,
		kind == walstorage.ErrBucketNotFound && status != http.StatusNotFound && status != http.StatusConflict:
		return kindOfStatus(op, status) // a code that somebody else's document has, such as a gateway's about its own trouble
	case kind == walstorage.ErrSegmentNotFound && op != opGet && op != opStat && op != opDelete,
		kind == walstorage.ErrInvalidRange && op != opGet:
		return nil
	}
	return kind
}

// classify turns the failure of an attempt into the driver's error (W7). What the store has answered stands, even if
// the context has ended since.
func (d *Driver) classify(ctx context.Context, a *attempt, op operation, err error) error {
	var own *walstorage.Error
	var partial *objectstore.DeleteError
	var refusal *azcore.ResponseError
	answered := a.answer != nil
	switch {
	case errors.As(err, &partial):
		return err
	case errors.As(err, &own):
		if own.Kind != walstorage.ErrUnavailable {
			return err
		}
	case errors.As(err, &refusal):
		return d.answered(a.generation, op, refusal.StatusCode, refusal.ErrorCode, refusal.RawResponse, err)
	case answered && a.answer.StatusCode >= 300:
		// Its head has come, and not the whole of its body, which may say what the head does not (J11).
		err = d.answered(a.generation, op, a.answer.StatusCode, a.answer.Header.Get("x-ms-error-code"), a.answer, err)
		if kind := walstorage.KindOf(err); kind != nil {
			return err
		}
	}
	// From here on no answer came, or not the whole of it.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if stalled := a.watch.Cause(d.bare(err)); stalled != nil {
		return stalled
	}
	if own != nil {
		return own
	}
	var none *tokenError
	var refused *azidentity.AuthenticationFailedError // of a ready client's credential
	var certificate *tls.CertificateVerificationError
	var final interface{ NonRetriable() } // what the SDK would not repeat either
	switch {
	case answered:
		return walstorage.NewError(walstorage.ErrUnavailable, d.bare(err))
	case errors.As(err, &none), errors.As(err, &refused):
		return d.tokenless(ctx, err)
	case errors.As(err, &certificate), errors.As(err, &final):
		// No time will mend it: it is reported, and not retried.
		return walstorage.NewError(nil, d.bare(err))
	}
	return walstorage.NewError(walstorage.ErrUnavailable, d.bare(err))
}

// answered classifies what the store has answered.
func (d *Driver) answered(generation uint64, op operation, status int, code string, answer *http.Response, err error) error {
	kind := kindOf(op, status, code)
	if status == http.StatusUnauthorized && d.tokens != nil && d.tokens.refused(generation, claimsOf(answer)) {
		kind = walstorage.ErrUnavailable
	}
	classified := walstorage.NewError(kind, d.bare(err))
	if kind == walstorage.ErrUnavailable && answer != nil {
		classified.RetryAfter = httpstore.RetryAfter(answer.Header)
	}
	return classified
}

// tokenless classifies the failure to get a token: where nobody answers, or is busy, another time may be better, and
// else the credential is refused.
func (d *Driver) tokenless(ctx context.Context, err error) error {
	var own *walstorage.Error
	var refusal *azidentity.AuthenticationFailedError
	var network net.Error
	var file *fs.PathError // in which lies a syscall.Errno, which passes for a net.Error
	kind := walstorage.ErrAccessDenied
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &own):
		return own
	case errors.As(err, &file): // of a key or a token, which is not where it should be
	case errors.As(err, &refusal) && refusal.RawResponse != nil:
		if kindOfStatus(opGet, refusal.RawResponse.StatusCode) == walstorage.ErrUnavailable {
			kind = walstorage.ErrUnavailable
		}
	case errors.As(err, &network): // a deadline too
		kind = walstorage.ErrUnavailable
	}
	return walstorage.NewError(kind, d.bare(err))
}
