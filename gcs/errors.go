package gcs

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// operation is what was asked: a few answers mean different things to different questions.
type operation int

const (
	opPut operation = iota + 1
	opGet
	opStat
	opDelete
	opList
	opBucket
)

// limits are the reasons, of whatever status, that say "not so fast".
var limits = map[string]bool{
	"rateLimitExceeded":     true,
	"userRateLimitExceeded": true,
}

// kindOf judges an answer by its status and, where it is the service's own, its reason (W7). nil is unclassified: Manager
// does not retry it.
func kindOf(op operation, status int, reason, message string) error {
	known := reason != "" // it is an answer of the service, and not of something before it
	if limits[reason] {
		return walstorage.ErrUnavailable
	}
	switch status {
	case http.StatusNotFound:
		switch {
		case op == opGet, op == opStat && known, op == opDelete && known:
			return walstorage.ErrSegmentNotFound // or the bucket is missing: the caller asks
		case known:
			return walstorage.ErrBucketNotFound
		}
	case http.StatusPreconditionFailed:
		if op == opPut {
			return walstorage.ErrSegmentExists
		}
	case http.StatusRequestedRangeNotSatisfiable:
		if op == opGet {
			return walstorage.ErrInvalidRange
		}
	case http.StatusConflict:
		// Somebody else is at it: that is not "exists".
		if op == opPut || op == opDelete {
			return walstorage.ErrUnavailable
		}
	case http.StatusBadRequest:
		if op == opPut && garbled(reason, message) {
			return walstorage.ErrCorrupt
		}
	}
	return httpstore.KindOfStatus(status)
}

// garbled tells whether the service says that an upload has not arrived as it was sent: with other bytes, or with the
// parts around them damaged.
func garbled(reason, message string) bool {
	for _, part := range []string{"CRC32C", "MD5", "Malformed multipart"} {
		if strings.Contains(message, part) {
			return true
		}
	}
	return reason == "parseError"
}

// classify turns the failure of an attempt into the driver's error (W7). What the service has answered stands, even if
// the context has ended since.
func classify(ctx context.Context, w *stall.Watch, x *exchange, err error) error {
	var own *walstorage.Error
	var answer *googleapi.Error
	switch {
	case errors.As(err, &own):
		if own.Kind != walstorage.ErrUnavailable {
			return own
		}
	case errors.As(err, &answer):
		return answered(x, answer, err)
	case errors.Is(err, storage.ErrObjectNotExist): // by the XML API, whose answer the SDK drops
		return walstorage.NewError(walstorage.ErrSegmentNotFound, err)
	}
	// From here on no answer came, or not the whole of it, or one that the SDK makes nothing of: of an upload the outcome
	// is unknown.
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
	if errors.As(err, &certificate) {
		// No time will mend it: it is reported, and not retried.
		return walstorage.NewError(nil, err)
	}
	var panicked *objectstore.PanicError
	if errors.As(err, &panicked) {
		return walstorage.NewError(nil, err)
	}
	var none *tokenError
	if errors.As(err, &none) {
		return walstorage.NewError(none.kind(), err)
	}
	return walstorage.NewError(walstorage.ErrUnavailable, err)
}

// answered classifies what the service has answered.
func answered(x *exchange, answer *googleapi.Error, err error) error {
	reason, message := told(answer)
	status := answer.Code
	if came := int(x.status.Load()); came != 0 {
		status = came // an error document may name another: that of a server behind the one that has answered
	}
	kind := kindOf(x.op, status, reason, message)
	if x.renew.Load() {
		kind = walstorage.ErrUnavailable
	}
	classified := walstorage.NewError(kind, err)
	if kind == walstorage.ErrUnavailable {
		classified.RetryAfter = httpstore.RetryAfter(answer.Header)
	}
	return classified
}

// told is what the service says of a failure. Of a read the SDK keeps no more than the text of the answer.
func told(answer *googleapi.Error) (reason, message string) {
	said := *answer
	if len(said.Errors) == 0 {
		var document struct{ Error googleapi.Error }
		if json.Unmarshal([]byte(answer.Body), &document) == nil {
			said = document.Error
		}
	}
	if len(said.Errors) > 0 {
		reason = said.Errors[0].Reason
	}
	return reason, said.Message
}

// saysObject tells whether an answer says that it is the object that does not exist, and not the bucket.
func saysObject(err error) bool {
	var answer *googleapi.Error
	return errors.Is(err, walstorage.ErrSegmentNotFound) && errors.As(err, &answer) &&
		strings.Contains(answer.Body, "No such object") // JSON, or a plain text where bytes were asked for
}
