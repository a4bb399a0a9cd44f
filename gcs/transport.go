package gcs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/internal/stall"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// exchange is one request on its way through the SDK to the transport: what was asked, so that the answer can be checked
// where it is still whole, and what became of it. It travels in the context.
type exchange struct {
	op           operation
	offset, last int64 // the range that a read asks for
	watch        *stall.Watch

	sent   atomic.Bool  // the one request has gone out
	again  atomic.Bool  // the SDK wanted a second one
	renew  atomic.Bool  // the token was refused, and another one is worth an attempt
	status atomic.Int64 // that of the answer, 0 before it: the SDK believes a document that names another
	broke  error        // what ended the body of a read, for the reader alone
	enough bool         // the first answer was all that was wanted, for the lister alone
}

type exchangeKey struct{}

// errAgain is the answer to a second request in one attempt: the reader of the SDK asks for the rest of a body that has
// broken off, and its iterator for another page after an empty one, for ever if need be and whatever its retries are set
// to (J20).
var errAgain = errors.New("gcs: an attempt is one request")

// transport sends the requests of the SDK: each exchange one, with a token, and checks the answers that the SDK does not.
type transport struct {
	base         http.RoundTripper
	tokens       *tokens // nil for anonymous requests
	quotaProject string
}

// RoundTrip implements http.RoundTripper. It runs in goroutines of the SDK, where nobody else contains what a client that is
// handed in panics with.
func (t *transport) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	defer func() {
		if value := recover(); value != nil {
			answer, err = nil, &objectstore.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	ctx := r.Context()
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		x = &exchange{}
	}
	r = r.Clone(ctx)
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if x.sent.Swap(true) {
		x.again.Store(true)
		_ = r.Body.Close()
		return nil, errAgain
	}
	if x.op == opGet {
		// Bytes come back as they were put (K6). This is what ReadCompressed would do: the SDK refuses it in JSON reads.
		r.Header.Set("Accept-Encoding", "gzip")
	}
	if t.tokens == nil {
		return t.send(r, x)
	}
	token, err := t.tokens.token(ctx)
	if err != nil {
		_ = r.Body.Close()
		return nil, err
	}
	kind := token.Type
	if kind == "" {
		kind = "Bearer"
	}
	r.Header.Set("Authorization", kind+" "+token.Value)
	if t.quotaProject != "" {
		r.Header.Set("X-Goog-User-Project", t.quotaProject)
	}
	answer, err = t.send(r, x)
	switch {
	case err != nil:
	case answer.StatusCode == http.StatusUnauthorized:
		x.renew.Store(t.tokens.refused(token))
	case provesToken(answer.StatusCode):
		t.tokens.worked(token)
	}
	return answer, err
}

// provesToken tells whether an answer shows that the service has taken the token: who is not let in is told nothing of objects.
// Something between us and the service may answer in other ways whatever the token.
func provesToken(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return true
	}
	return 200 <= status && status <= 299
}

// send sends the request and looks at the answers that the SDK would take for something else than they are.
func (t *transport) send(r *http.Request, x *exchange) (*http.Response, error) {
	body := &requestBody{ReadCloser: r.Body}
	if r.Body != http.NoBody {
		r.Body = body
	}
	answer, err := t.base.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case answer == nil:
		return nil, errNothing
	case answer.Body == nil:
		answer.Body = http.NoBody
	}
	if err := httpstore.RefuseUpgrade(answer); err != nil {
		return nil, err
	}
	answer.Body = httpstore.Watched(answer.Body, x.watch)
	status := answer.StatusCode
	x.status.Store(int64(status))
	found := 200 <= status && status <= 299
	if !found || x.op != opGet {
		makeReadable(answer, found)
	}
	switch {
	case status == http.StatusBadRequest, status == http.StatusForbidden, status == http.StatusNotFound:
		// What these mean hangs on their text, and the SDK would take half of it for all.
		_, err = whole(answer)
	case !found: // an error, for the SDK to read
	case x.op == opPut && !body.ended.Load():
		// Nobody would go on reading the body, and the SDK would wait for that for ever.
		err = odd("an answer to an upload came before its end")
	default:
		err = x.check(answer)
	}
	if err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// requestBody notes when the transport has read all of it.
type requestBody struct {
	io.ReadCloser
	ended atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}

// check returns an error for an answer that the SDK would take for a good one and is not.
func (x *exchange) check(answer *http.Response) error {
	switch x.op {
	case opGet:
		answer.Body = &answerBody{ReadCloser: answer.Body, exchange: x}
		return httpstore.CheckRange(answer.StatusCode, answer.Header.Get("Content-Range"), answer.ContentLength, x.offset, x.last)
	case opStat:
		return checkObject(answer)
	case opDelete:
		return checkNothing(answer)
	case opList, opBucket:
		return checkList(answer)
	}
	return nil
}

// answerBody notes what ends the body of a read: the SDK asks again, and tells no more than what comes of that.
type answerBody struct {
	io.ReadCloser
	exchange *exchange
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.exchange.broke = err
	}
	return n, err
}

// checkNothing looks whether an answer to a delete says nothing, as it should: an error document would pass for success.
func checkNothing(answer *http.Response) error {
	said, err := whole(answer)
	if err != nil {
		return err
	}
	switch string(bytes.TrimSpace(said)) {
	case "", "null", "{}": // emulators
		return nil
	}
	return odd("the answer to a delete says something")
}

// checkObject looks whether an answer tells the size of an object: the SDK takes one that is not told for 0, which would make
// another object of ours (W2).
func checkObject(answer *http.Response) error {
	said, err := whole(answer)
	if err != nil {
		return err
	}
	var object struct {
		Size json.RawMessage `json:"size"`
	}
	if err := json.Unmarshal(said, &object); err != nil {
		return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("the answer describes no object: %w", err))
	}
	if len(object.Size) == 0 || string(object.Size) == "null" {
		return odd("the answer tells no size of the object")
	}
	return nil
}

// checkList looks whether an answer is a list, which has nothing in it but these: a document of another kind, such as an
// error, would pass for an empty one (W10).
func checkList(answer *http.Response) error {
	said, err := whole(answer)
	if err != nil {
		return err
	}
	var list map[string]json.RawMessage
	if err := json.Unmarshal(said, &list); err != nil {
		return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("the answer is no list: %w", err))
	}
	if list == nil { // "null" is no list either
		return odd("the answer is no list")
	}
	for field := range list {
		switch field {
		case "kind", "items", "prefixes", "nextPageToken":
		default:
			return odd("the answer is no list")
		}
	}
	return nil
}

// errNothing is what becomes of a transport that gives nothing at all.
var errNothing = errors.New("gcs: the transport of the HTTP client gave no answer and no error")

const (
	// errorBytes is the most that is read of an answer that is an error. The service's own have some hundred bytes; a page
	// of something before it would stand in the error's text, whole.
	errorBytes = 8 << 10
	// documentBytes is the most that is read of a good answer which is not the bytes of an object: far more than a page of a
	// list has.
	documentBytes = 64 << 20
)

// makeReadable makes of the body of an answer, other than the bytes of an object, one that the SDK can read: unpacked, since
// reads ask for bytes as they are (K6), and so an error may come packed; and not without end.
func makeReadable(answer *http.Response, found bool) {
	most := int64(errorBytes)
	if found {
		most = documentBytes
	}
	answer.Body = replaced{io.LimitReader(&unpacked{from: bufio.NewReader(answer.Body)}, most), answer.Body}
}

// unpacked reads a text as it is, or what it is once unpacked, whatever is said of it: no text begins like gzip.
type unpacked struct {
	from *bufio.Reader
	text io.Reader
}

func (u *unpacked) Read(p []byte) (int, error) {
	if u.text == nil {
		u.text = u.from
		if start, _ := u.from.Peek(2); string(start) == "\x1f\x8b" {
			unzipped, err := gzip.NewReader(u.from)
			if err != nil {
				return 0, err
			}
			u.text = unzipped
		}
	}
	return u.text.Read(p)
}

// whole reads the body of an answer, and leaves it to be read.
func whole(answer *http.Response) ([]byte, error) {
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, broken(err)
	}
	answer.Body = replaced{bytes.NewReader(said), answer.Body}
	return said, nil
}

// replaced is a body that has been read, and the one that is to be closed.
type replaced struct {
	io.Reader
	io.Closer
}

func odd(text string) error {
	return walstorage.NewError(walstorage.ErrUnavailable, errors.New("gcs: "+text))
}

func broken(err error) error {
	return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf("gcs: the answer broke off: %w", err))
}

// with returns a context in which the transport finds the exchange.
func (x *exchange) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}
