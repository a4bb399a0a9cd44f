package azure_test

import (
	"context"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// credential gives tokens as a test wants it.
type credential struct {
	give func(ctx context.Context, number int) (azcore.AccessToken, error)

	mu    sync.Mutex
	asked int
}

func (c *credential) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.mu.Lock()
	c.asked++
	number := c.asked
	c.mu.Unlock()
	if c.give == nil {
		return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(time.Hour)}, nil
	}
	return c.give(ctx, number)
}

func (c *credential) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}
