package gcs

import (
	"context"
	"errors"
	"sync"
	"time"

	"cloud.google.com/go/auth"
)

// tokenMargin is how long before its end a token is asked for again: a little longer than the time before it that the
// SDK's own providers have a new one.
const tokenMargin = 4 * time.Minute

// tokens keeps the token that a provider gives. It stands before the SDK's own cache, which holds a lock while it asks
// the network, so that a caller whose context has ended would wait for somebody else's answer (W8, D1).
type tokens struct {
	provider auth.TokenProvider

	mu       sync.Mutex
	current  *auth.Token
	unproven bool          // the token took the place of one that was refused, and has not worked yet
	renewing chan struct{} // closed when the provider has answered, nil if it is not being asked
}

// tokenError says that there is no token to send.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "no token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// token returns the token for a request. One caller asks the provider; those who have one that is still good go on with
// it, the others wait.
func (t *tokens) token(ctx context.Context) (*auth.Token, error) {
	for {
		t.mu.Lock()
		current, renewing := t.current, t.renewing
		left := time.Duration(0)
		switch {
		case current == nil:
		case current.Expiry.IsZero():
			left = tokenMargin + 1
		default:
			left = time.Until(current.Expiry)
		}
		if left > tokenMargin || left > 0 && renewing != nil {
			t.mu.Unlock()
			return current, nil
		}
		if renewing == nil {
			done := make(chan struct{})
			t.renewing = done
			t.mu.Unlock()
			return t.renew(ctx, left > 0, done)
		}
		t.mu.Unlock()
		select {
		case <-renewing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// renew asks the provider. No lock is held meanwhile (D1). A token that is still good is used on if there is no new one.
func (t *tokens) renew(ctx context.Context, good bool, done chan struct{}) (*auth.Token, error) {
	fresh, err := t.provider.Token(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewing = nil
	close(done)
	switch {
	case err == nil && fresh != nil && fresh.Value != "":
		t.current = fresh
	case good && t.current != nil:
	case err != nil:
		return nil, &tokenError{err: err}
	default:
		return nil, &tokenError{err: errors.New("the provider gave an empty one")}
	}
	return t.current, nil
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
	return again
}
