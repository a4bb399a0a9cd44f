package gcs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/auth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
)

// W12, M2, M4, M5: a store that is closed in the middle of everything, its first token and Warm among it, waits for what is
// under way, and leaves nothing behind; what was acknowledged is there. The race detector and goleak watch.
func TestCloseInTheMiddleOfEverything(t *testing.T) {
	server, url := serve(t, fake.Config{Tokens: []string{token}})
	var all sync.WaitGroup
	var mu sync.Mutex
	stored, closed := map[string]string{}, 0
	for round := range 24 {
		arrived := make(chan struct{}, 100)
		server.Fault(func(fake.Request) fake.Fault {
			select {
			case arrived <- struct{}{}:
			default:
			}
			return fake.Fault{}
		})
		c := config(url)
		c.Credentials = with(constant{token, time.Duration(round%4) * time.Millisecond})
		manager, err := gcs.New(t.Context(), c)
		require.NoError(t, err)
		note := func(err error) {
			if walstorage.KindOf(err) == walstorage.ErrClosed {
				mu.Lock()
				closed++
				mu.Unlock()
				return
			}
			assert.NoError(t, err)
		}
		var under sync.WaitGroup
		under.Go(func() { note(manager.Warm(t.Context())) })
		for i := range 8 {
			id, data := drivertest.Segment(t), fmt.Sprint(round, " ", i)
			under.Go(func() {
				for {
					err := manager.UploadSegment(t.Context(), id, []byte(data))
					note(err)
					if err != nil {
						return
					}
					mu.Lock()
					stored[drivertest.Key(t, id)] = data
					mu.Unlock()
					note(manager.FetchSegment(t.Context(), id, 0, make([]byte, len(data))))
				}
			})
		}
		for range round { // somewhere in it
			<-arrived
		}
		for range 2 {
			all.Go(func() { assert.NoError(t, manager.Close()) })
		}
		all.Wait()
		under.Wait()
	}
	assert.NotEmpty(t, stored)
	assert.Positive(t, closed)
	for key, data := range stored {
		object, _ := server.Object(bucket, key)
		assert.Equal(t, data, string(object))
	}
}

// constant gives the same token each time, after a while.
type constant struct {
	token string
	takes time.Duration
}

func (p constant) Token(ctx context.Context) (*auth.Token, error) {
	select {
	case <-time.After(p.takes):
		return &auth.Token{Value: p.token}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
