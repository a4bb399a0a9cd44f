package s3_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// asking is a provider that does as the function says with the n-th question.
type asking struct {
	questions atomic.Int64
	answer    func(ctx context.Context, n int64) (aws.Credentials, error)
}

func (a *asking) Retrieve(ctx context.Context) (aws.Credentials, error) {
	return a.answer(ctx, a.questions.Add(1))
}

// W12: a provider that panics is the caller's, as is one that is a nil pointer: that ends a call, and not the process, and
// not the credentials.
func TestProviderThatPanics(t *testing.T) {
	for name, provider := range map[string]aws.CredentialsProvider{
		"once": &asking{answer: func(ctx context.Context, n int64) (aws.Credentials, error) {
			if n == 1 {
				panic("the provider's")
			}
			return keys().Retrieve(ctx)
		}},
		"nil": (*asking)(nil),
	} {
		for _, in := range []string{bucket, directoryBucket} {
			t.Run(name+" "+in, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if a, ok := provider.(*asking); ok && a != nil {
						a.questions.Store(0)
					}
					server, c := express(t)
					c.Bucket, c.Credentials = in, provider
					driver := open(t, c)
					err := operations["PutObject"](t.Context(), driver)
					var panicked *objectstore.PanicError
					require.ErrorAs(t, err, &panicked)
					assert.NoError(t, walstorage.KindOf(err))
					assert.Empty(t, server.Requests())
					if name == "once" {
						assert.NoError(t, operations["PutObject"](t.Context(), driver))
					}
				})
			})
		}
	}
	t.Run("a ready client's", func(t *testing.T) {
		_, url := serve(t, fake.Config{})
		ready := sdk.New(sdk.Options{Region: "eu-central-1", BaseEndpoint: &url, UsePathStyle: true, Credentials: (*asking)(nil)})
		var panicked *objectstore.PanicError
		assert.ErrorAs(t, operations["PutObject"](t.Context(), open(t, s3.Config{Bucket: bucket, Client: ready})), &panicked)
	})
	t.Run("a cache that is nil", func(t *testing.T) { // A2
		refused(t, s3.Config{Bucket: bucket, Region: "eu-central-1", Credentials: (*aws.CredentialsCache)(nil)}, "Credentials")
	})
}

// W12, D5: a question without an answer ends with the driver, whose Close waits for that, and without it after 30 s.
func TestProviderThatDoesNotAnswer(t *testing.T) {
	for name, closes := range map[string]bool{"closed": true, "left alone": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, ended := time.Now(), make(chan time.Duration, 1)
				server, _, c := inMemory(t, fake.Config{})
				c.StallTimeout = time.Minute
				c.Credentials = &asking{answer: func(ctx context.Context, n int64) (aws.Credentials, error) {
					if n == 1 {
						<-ctx.Done()
						ended <- time.Since(begun)
						return aws.Credentials{}, ctx.Err()
					}
					return keys().Retrieve(ctx)
				}}
				driver := open(t, c)
				got := make(chan error, 1)
				go func() { got <- operations["PutObject"](t.Context(), driver) }()
				synctest.Wait()
				assert.Empty(t, ended)
				if closes {
					require.NoError(t, driver.Close())
					require.Len(t, ended, 1, "Close has waited for it")
					assert.Zero(t, <-ended)
					assert.Equal(t, walstorage.ErrClosed, walstorage.KindOf(<-got))
					return
				}
				err := <-got
				assert.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "%v", err)
				assert.Equal(t, 30*time.Second, <-ended)
				assert.Empty(t, server.Requests())
				assert.NoError(t, operations["PutObject"](t.Context(), driver))
			})
		})
	}
}

// lasting is a provider that goes on with what it gave where there is nothing new, as that of an instance does.
type lasting struct{ asking }

func (l *lasting) HandleFailToRefresh(_ context.Context, previous aws.Credentials, _ error) (aws.Credentials, error) {
	previous.Expires = time.Now().Add(time.Hour)
	return previous, nil
}

// J21: what a provider does by itself about a refresh that fails stands.
func TestProviderThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := inMemory(t, fake.Config{})
		provider := &lasting{asking{answer: func(ctx context.Context, n int64) (aws.Credentials, error) {
			if n > 1 {
				return aws.Credentials{}, errors.New("down")
			}
			found, err := keys().Retrieve(ctx)
			found.CanExpire, found.Expires = true, time.Now().Add(time.Minute)
			return found, err
		}}}
		c.Credentials = provider
		driver := open(t, c)
		require.NoError(t, operations["PutObject"](t.Context(), driver))
		time.Sleep(2 * time.Minute)
		require.NoError(t, operations["ListObjectsV2"](t.Context(), driver))
		assert.Equal(t, int64(2), provider.questions.Load())
	})
}
