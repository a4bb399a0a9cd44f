package gcs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

type providerFunc func() (*auth.Token, error)

func (f providerFunc) Token(context.Context) (*auth.Token, error) { return f() }

// J21: credentials of the environment that are refused are looked for again, at a measured pace: who changes a key need not
// restart the broker, and a broker that is refused does not open a connection with each request.
func TestLooksForCredentialsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := providerFunc(func() (*auth.Token, error) { return nil, errors.New("invalid_grant") })
		granting := providerFunc(func() (*auth.Token, error) { return &auth.Token{Value: "new"}, nil })
		looks := 0
		var found auth.TokenProvider = refusing
		var looking error
		tokens := newTokens(refusing, func() (auth.TokenProvider, error) {
			looks++
			return found, looking
		})
		defer tokens.close()
		for range 10 * 60 {
			_, err := tokens.token(t.Context())
			var none *tokenError
			require.ErrorAs(t, err, &none)
			require.Equal(t, walstorage.ErrAccessDenied, none.kind())
			time.Sleep(time.Second)
		}
		assert.InDelta(t, 10, looks, 1, "once a minute")

		looking = errors.New("the file is being written")
		time.Sleep(lookPause)
		_, err := tokens.token(t.Context())
		assert.Error(t, err)
		found, looking = granting, nil
		time.Sleep(lookPause)
		for range 2 { // the first learns that the old one is not good any more
			_, err = tokens.token(t.Context())
		}
		require.NoError(t, err)
	})
}

// J21: an answer to a question that was asked before the service refused the token may be that token: it is asked again.
func TestTokenThatIsRefusedDuringTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &auth.Token{Value: "old", Expiry: time.Now().Add(tokenMargin / 2)}
		asked := 0
		keeping := providerFunc(func() (*auth.Token, error) {
			if asked++; asked > 1 {
				time.Sleep(time.Second)
			}
			return old, nil
		})
		tokens := newTokens(keeping, func() (auth.TokenProvider, error) {
			return providerFunc(func() (*auth.Token, error) { return &auth.Token{Value: "new"}, nil }), nil
		})
		defer tokens.close()
		_, err := tokens.token(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * tokenPause)
		token, err := tokens.token(t.Context()) // which begins the next question
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, asked)

		assert.True(t, tokens.refused(token))
		token, err = tokens.token(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "new", token.Value)
	})
}

// J22: by a clock that is an hour ahead each token has ended when it comes, and is worth a try all the same.
func TestTokenThatHasEndedByOurClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := newTokens(providerFunc(func() (*auth.Token, error) {
			return &auth.Token{Value: "t", Expiry: time.Now().Add(-time.Second)}, nil
		}), nil)
		defer tokens.close()
		for range 3 {
			token, err := tokens.token(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "t", token.Value)
		}
	})
}

// D1: a token is got without a lock that is held while others wait; once the tokens are closed there is none.
func TestClosedTokens(t *testing.T) {
	tokens := newTokens(providerFunc(func() (*auth.Token, error) { return &auth.Token{Value: "t"}, nil }), nil)
	tokens.close()
	tokens.close()
	_, err := tokens.token(t.Context())
	assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(err))
}
