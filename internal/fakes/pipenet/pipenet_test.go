package pipenet_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/fakes/pipenet"
)

// D5: client and server talk in one bubble, an hour of waiting takes no time, and nothing is left when both are closed.
func TestTalkInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := pipenet.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.Copy(w, r.Body)
		}))
		defer server.Close()
		client, began := server.Client(), time.Now()
		for range 2 {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://anywhere.invalid/", http.NoBody)
			require.NoError(t, err)
			response, err := client.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
		}
		assert.Equal(t, 2*time.Hour, time.Since(began))
		assert.Equal(t, 1, server.Dialled(), "the connection is used again")

		client.CloseIdleConnections()
		server.Refuse(true)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://anywhere.invalid/", http.NoBody)
		require.NoError(t, err)
		_, err = client.Do(request)
		assert.ErrorContains(t, err, "refused")
	})
}
