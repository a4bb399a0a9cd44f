package s3

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/walhop/walhop/walstorage"
)

// credentials caches what a provider gives, and drops it when the store says that it has expired. Each drop begins a
// new generation: a request that was signed with an older one may be sent again whatever others were told, and one
// whose generation has never worked may not (report cockroachdb/cockroach#169763).
type credentials struct {
	cache     *aws.CredentialsCache // nil where requests are not signed
	questions *questions

	mu         sync.Mutex
	generation uint64
	unproven   bool // this generation took the place of an expired one and has not worked yet
}

func newCredentials(provider aws.CredentialsProvider, questions *questions) *credentials {
	if provider == nil || isAnonymous(provider) {
		return &credentials{}
	}
	cache, ok := provider.(*aws.CredentialsCache)
	if !ok {
		cache = cached(provider, questions)
	}
	return &credentials{cache: cache, questions: questions}
}

func isAnonymous(provider aws.CredentialsProvider) bool {
	return aws.IsCredentialsProvider(provider, (*aws.AnonymousCredentials)(nil))
}

// cached makes a cache that does not trust the provider with the process.
func cached(provider aws.CredentialsProvider, questions *questions) *aws.CredentialsCache {
	return aws.NewCredentialsCache(&asked{provider: provider, questions: questions})
}

// Retrieve implements aws.CredentialsProvider.
func (c *credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.cache.Retrieve(ctx)
	switch {
	case err != nil && c.questions.ctx.Err() != nil:
		return aws.Credentials{}, walstorage.NewError(walstorage.ErrClosed, nil)
	case err != nil:
		return aws.Credentials{}, &credentialsError{err: err}
	}
	return found, nil
}

// begin returns the generation that an attempt is signed with, or a later one.
func (c *credentials) begin() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

// worked says that the store has taken the credentials.
func (c *credentials) worked(generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation == c.generation {
		c.unproven = false
	}
}

// expired says that the store called the credentials of an attempt expired. again tells whether others are worth an
// attempt.
func (c *credentials) expired(generation uint64) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cache == nil {
		return false
	}
	if generation != c.generation {
		return true
	}
	again = !c.unproven
	c.unproven = true
	c.generation++
	c.cache.Invalidate()
	return again
}
