package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
)

// exchange is one request on its way through the SDK to the transport: what was asked, so that the answer can be checked
// where it is still whole, and what became of it. It travels in the context.
type exchange struct {
	op           operation
	offset, last int64 // the range that a read asks for

	sent  atomic.Bool // the one request has gone out
	again atomic.Bool // the SDK wanted a second one
	renew atomic.Bool // the token was refused, and another one is worth an attempt
	broke error       // what ended the body of a read, for the reader alone
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

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
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
	answer, err := t.send(r, x)
	switch {
	case err != nil:
	case answer.StatusCode == http.StatusUnauthorized:
		x.renew.Store(t.tokens.refused(token))
	default:
		t.tokens.worked(token)
	}
	return answer, err
}

// send sends the request and looks at the answers that the SDK would take for something else than they are.
func (t *transport) send(r *http.Request, x *exchange) (*http.Response, error) {
	body := &requestBody{ReadCloser: r.Body}
	if r.Body != http.NoBody {
		r.Body = body
	}
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch status := answer.StatusCode; {
	case status == http.StatusBadRequest, status == http.StatusForbidden, status == http.StatusNotFound:
		// What these mean hangs on their text, and the SDK would take half of it for all.
		_, err = whole(answer)
	case status < 200, status > 299: // an error, for the SDK to read
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
