package azure

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// onceAndHang gives one token, and then hangs until nobody waits any more.
type onceAndHang struct{ asked int }

func (o *onceAndHang) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if o.asked++; o.asked == 1 {
		return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
	}
	<-ctx.Done()
	return azcore.AccessToken{}, ctx.Err()
}

// W8: a batch whose token is refused, by the answer to another request, between the beginning of the attempt and the signing
// of its parts, waits for no credential: the SDK signs the parts under a context that nobody ends.
func TestTokenRefusedWhileABatchIsSigned(t *testing.T) {
	source := &onceAndHang{}
	tokens := newTokens(t.Context(), source)
	defer tokens.close()
	generation, err := tokens.ready(t.Context())
	require.NoError(t, err)
	given, err := tokens.GetToken(context.Background(), policy.TokenRequestOptions{Scopes: scopes})
	require.NoError(t, err)
	assert.Equal(t, "token", given.Token)
	require.True(t, tokens.refused(generation, ""))

	_, err = tokens.GetToken(context.Background(), policy.TokenRequestOptions{Scopes: scopes})

	assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "another attempt waits for the next token as long as it may")
	assert.Equal(t, 1, source.asked)
}
