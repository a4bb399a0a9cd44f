package azure

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/walhop/walhop/walstorage"
)

// scopes name what a token is for. It is the same in every cloud.
var scopes = []string{"https://storage.azure.com/.default"}

const (
	// tokenTimeout limits one asking for a token, whatever tools, metadata services and retries a credential tries.
	tokenTimeout = time.Minute
	// refreshBefore is how long before its end a token is replaced, if the credential names no time, and refreshPause how
	// long after an asking that failed the next one begins as long as the old token is good. They are the SDK's.
	refreshBefore = 5 * time.Minute
	refreshPause  = 30 * time.Second
)

// tokens caches the token of a credential. The SDK would ask for it within the attempt that needs it first, whose deadline
// may be shorter than the asking takes, while all others wait for that attempt whatever their contexts say. Here one
// goroutine asks, which outlasts the attempt, and each waits for it as long as its own context allows (W8).
//
// A token that the store refuses is dropped, and each drop begins a new generation: a request that went with an older
// one may be sent again, and one whose generation has never worked may not.
type tokens struct {
	source azcore.TokenCredential
	ctx    context.Context // ended by close
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	token      azcore.AccessToken
	fetch      *fetch // nil if nobody asks
	asked      time.Time
	generation uint64
	unproven   bool   // this generation took the place of a refused one and has not worked yet
	claims     string // what the store wants to see in the next token, "" for nothing in particular
}

// fetch is one asking for a token. err may be read when done is closed.
type fetch struct {
	done chan struct{}
	err  error
}

func newTokens(ctx context.Context, source azcore.TokenCredential) *tokens {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &tokens{source: source, ctx: ctx, cancel: cancel}
}

// close ends the asking and waits for its end.
func (t *tokens) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.asking.Wait()
}

// tokenError says that there is no token.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "no token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// ready waits until there is a token, and has an old one replaced. It returns the generation of the token, or a later
// one.
func (t *tokens) ready(ctx context.Context) (generation uint64, err error) {
	t.mu.Lock()
	now := time.Now()
	usable := now.Before(t.token.ExpiresOn)
	if t.fetch == nil && (!usable || t.old(now)) {
		if t.closed {
			t.mu.Unlock()
			return 0, walstorage.NewError(walstorage.ErrClosed, nil)
		}
		t.fetch = &fetch{done: make(chan struct{})}
		t.asked = now
		t.asking.Go(t.ask)
	}
	waiting := t.fetch
	generation = t.generation
	t.mu.Unlock()
	if usable {
		return generation, nil
	}
	select {
	case <-waiting.done:
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case t.ctx.Err() != nil:
		return 0, walstorage.NewError(walstorage.ErrClosed, nil)
	case waiting.err != nil:
		return 0, &tokenError{waiting.err}
	}
	return generation, nil
}

// old tells whether it is time to replace a token that is still good.
func (t *tokens) old(now time.Time) bool {
	if now.Before(t.asked.Add(refreshPause)) {
		return false
	}
	if refresh := t.token.RefreshOn; !refresh.IsZero() {
		return !now.Before(refresh)
	}
	return !now.Before(t.token.ExpiresOn.Add(-refreshBefore))
}

// ask asks once.
func (t *tokens) ask() {
	ctx, cancel := context.WithTimeout(t.ctx, tokenTimeout)
	defer cancel()
	t.mu.Lock()
	claims := t.claims
	t.mu.Unlock()
	token, err := t.askSource(ctx, claims)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.token = token
		if t.claims == claims {
			t.claims = ""
		}
	}
	t.fetch.err = err
	close(t.fetch.done)
	t.fetch = nil
}

// askSource contains a panic of the credential: this goroutine is nobody's call.
func (t *tokens) askSource(ctx context.Context, claims string) (token azcore.AccessToken, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the credential panicked")
		}
	}()
	token, err = t.source.GetToken(ctx, policy.TokenRequestOptions{Scopes: scopes, Claims: claims, EnableCAE: true})
	if err == nil && token.Token == "" {
		err = errors.New("the credential gave an empty one")
	}
	return token, err
}

// GetToken implements azcore.TokenCredential, for the SDK. It asks nobody: the SDK calls it under contexts that do not
// end, while all its other requests wait. The SDK is to keep nothing: what it gets here has its end at once.
func (t *tokens) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token := t.current()
	if token == "" {
		return azcore.AccessToken{}, walstorage.NewError(walstorage.ErrUnavailable, errors.New("azure: the token was refused meanwhile"))
	}
	return azcore.AccessToken{Token: token, ExpiresOn: time.Now()}, nil
}

// current is the token itself, which no error text may hold.
func (t *tokens) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token.Token
}

// worked says that the store has taken the token.
func (t *tokens) worked(generation uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation == t.generation {
		t.unproven = false
	}
}

// refused says that the store did not take the token of an attempt, and with what claims it would take one. again tells
// whether another is worth an attempt.
func (t *tokens) refused(generation uint64, claims string) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation != t.generation {
		return true
	}
	t.claims = claims
	again = !t.unproven
	t.unproven = true
	t.generation++
	t.token = azcore.AccessToken{}
	return again
}
