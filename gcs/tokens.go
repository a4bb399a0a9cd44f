package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/auth"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

const (
	// tokenMargin is how long before its end a token is asked for again: a little longer than the time before it that the
	// SDK's own providers have a new one.
	tokenMargin = 4 * time.Minute
	// tokenPause is how long the next question waits while the token at hand is still good: providers keep theirs, and some
	// give none that lasts for the margin.
	tokenPause = 10 * time.Second
	// tokenTimeout limits one question.
	tokenTimeout = 30 * time.Second
	// lookPause is how soon the credentials of the environment are looked for again where they are refused.
	lookPause = time.Minute
)

// tokens keeps the token that a provider gives. It stands before the SDK's own cache, which holds a lock while it asks
// the network, so that a caller whose context has ended would wait for somebody else's answer (W8, D1).
//
// The provider is asked in a goroutine of its own, once for all who wait, and not within the time of an attempt: that is
// half a second for a small upload, less than a token may take, and each attempt would begin anew.
type tokens struct {
	// look looks for the credentials of the environment anew, since the SDK keeps the token that was refused, and a file may
	// hold another key by now. nil if the provider was given.
	look func() (auth.TokenProvider, error)

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu       sync.Mutex
	provider auth.TokenProvider // nil if it is to be looked for
	looked   time.Time
	current  *auth.Token
	refusals int
	unproven bool      // the token took the place of one that was refused, and has not worked yet
	question *question // that is under way, nil for none
	next     time.Time // of the next question, as long as the token is good
	closed   bool
}

// question is what all who wait for a token share.
type question struct {
	answered chan struct{} // closed once the rest is set
	token    *auth.Token
	err      error
}

// newTokens makes the tokens of a provider.
func newTokens(provider auth.TokenProvider, look func() (auth.TokenProvider, error)) *tokens {
	t := &tokens{provider: provider, look: look, looked: time.Now()}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// close ends a question that is under way, and waits for it.
func (t *tokens) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.asking.Wait()
}

// tokenError says that there is no token to send.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "no token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// token returns the token for a request. Who has one that is still good goes on with it, also while the provider is asked
// for the next; the others wait.
func (t *tokens) token(ctx context.Context) (*auth.Token, error) {
	current, asked, err := t.state()
	if current != nil || err != nil {
		return current, err
	}
	select {
	case <-asked.answered:
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // first, whatever woke us (D2)
		return nil, ctx.Err()
	}
	return asked.token, asked.err
}

// state returns the token if it is good, and else the question to wait for.
func (t *tokens) state() (*auth.Token, *question, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	good, due := false, true
	if t.current != nil {
		left := time.Until(t.current.Expiry)
		lasting := t.current.Expiry.IsZero() || left > tokenMargin
		good = lasting || left > 0
		due = !good || !lasting && !time.Now().Before(t.next)
	}
	if due && t.question == nil && !t.closed {
		t.question = &question{answered: make(chan struct{})}
		asked := t.question
		t.asking.Go(func() { t.renew(asked) })
	}
	switch {
	case good:
		return t.current, nil, nil
	case t.question == nil:
		return nil, nil, walstorage.NewError(walstorage.ErrClosed, nil)
	}
	return nil, t.question, nil
}

// renew asks the provider, and answers the question with what came of it.
func (t *tokens) renew(asked *question) {
	ctx, cancel := context.WithTimeout(t.ctx, tokenTimeout)
	defer cancel()
	fresh, err := t.ask(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && (fresh == nil || fresh.Value == ""):
		asked.err = &tokenError{err: errors.New("the provider gave an empty one")}
	case err == nil:
		t.current, asked.token = fresh, fresh
	case t.ctx.Err() != nil:
		asked.err = walstorage.NewError(walstorage.ErrClosed, nil)
	default:
		none := &tokenError{err: err}
		if t.look != nil && none.kind() == walstorage.ErrAccessDenied && time.Since(t.looked) >= lookPause {
			t.provider = nil
		}
		asked.err = none
	}
	t.question, t.next = nil, time.Now().Add(tokenPause)
	close(asked.answered)
}

// ask asks the provider, and again if meanwhile the service has refused the token before: this may be the same. No lock is
// held meanwhile (D1).
func (t *tokens) ask(ctx context.Context) (*auth.Token, error) {
	for {
		t.mu.Lock()
		refusals := t.refusals
		t.mu.Unlock()
		fresh, err := t.askOnce(ctx)
		t.mu.Lock()
		same := t.refusals == refusals
		t.mu.Unlock()
		if err != nil || same {
			return fresh, err
		}
	}
}

// askOnce asks the provider, and contains its panic: it is the caller's, and this is a goroutine of ours.
func (t *tokens) askOnce(ctx context.Context) (fresh *auth.Token, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &objectstore.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	t.mu.Lock()
	provider := t.provider
	if provider == nil {
		t.looked = time.Now()
	}
	t.mu.Unlock()
	if provider == nil {
		if provider, err = t.look(); err != nil {
			return nil, err
		}
		t.mu.Lock()
		t.provider = provider
		t.mu.Unlock()
	}
	return provider.Token(ctx)
}

// worked says that the service has taken a token.
func (t *tokens) worked(token *auth.Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token == t.current {
		t.unproven = false
	}
}

// refused says that the service has refused a token. again tells whether another one is worth an attempt.
func (t *tokens) refused(token *auth.Token) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token != t.current {
		return true
	}
	again = !t.unproven
	t.unproven = true
	t.current = nil
	t.refusals++
	if again && t.look != nil {
		t.provider = nil
	}
	return again
}

// statusText is how the SDK's providers write the status of an answer that they make no typed error of.
var statusText = regexp.MustCompile(`(?:status code|Received) ([0-9]{3})\b`)

// kind tells whether the provider of tokens could not be reached, or has given what is no answer, or does not want to give
// one.
func (e *tokenError) kind() error {
	var answer *auth.Error
	var unreached *url.Error
	var network net.Error
	var syntax *json.SyntaxError
	var file *fs.PathError // in which lies a syscall.Errno, which passes for a net.Error
	switch {
	case errors.As(e.err, &file): // of a key or a token, which is not where it should be
		return walstorage.ErrAccessDenied
	case errors.As(e.err, &answer):
		if answer.Response != nil {
			return kindOfIssuer(answer.Response.StatusCode)
		}
		return walstorage.ErrAccessDenied
	case errors.As(e.err, &unreached), errors.As(e.err, &network), errors.As(e.err, &syntax),
		errors.Is(e.err, io.EOF), errors.Is(e.err, io.ErrUnexpectedEOF),
		errors.Is(e.err, context.DeadlineExceeded), errors.Is(e.err, context.Canceled):
		return walstorage.ErrUnavailable
	}
	if found := statusText.FindStringSubmatch(e.err.Error()); found != nil {
		status, _ := strconv.Atoi(found[1])
		return kindOfIssuer(status)
	}
	return walstorage.ErrAccessDenied
}

// kindOfIssuer is what the status of an answer to a request for a token means.
func kindOfIssuer(status int) error {
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return walstorage.ErrUnavailable
	}
	return walstorage.ErrAccessDenied
}
