package fakegcs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/auth"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/internal/protocols"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// token is what every request is sent with. The server does not look at it.
const token = "integration-token"

type provider struct{}

func (provider) Token(context.Context) (*auth.Token, error) { return &auth.Token{Value: token}, nil }

func credentials() *auth.Credentials {
	return auth.NewCredentials(&auth.CredentialsOptions{TokenProvider: provider{}})
}

// ours is the package that is tested.
var ours = drivertest.Driver[gcs.Config, *gcs.Driver]{New: gcs.New, NewDriver: gcs.NewDriver}

// config is a configuration for a bucket of the server at that address.
func config(address, bucket string) gcs.Config {
	return gcs.Config{
		Bucket: bucket, Endpoint: address, Credentials: credentials(),
		Store: objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second},
	}
}

// newBucket makes a bucket for one test. It goes with the server, which ends with the tests: an upload that was cancelled
// may land at any time (W1).
func newBucket(tb testing.TB, address string) string {
	bucket := "walhop-" + strings.ToLower(rand.Text())
	body, err := json.Marshal(map[string]string{"name": bucket})
	require.NoError(tb, err)
	call(tb, http.MethodPost, address+"/storage/v1/b?project=integration", body)
	return bucket
}

// call sends a request that has to succeed, and returns the body of the answer. No connection is kept: its goroutines
// would count as those of the case that opened it.
func call(tb testing.TB, method, url string, body []byte) []byte {
	request, err := http.NewRequestWithContext(tb.Context(), method, url, bytes.NewReader(body))
	require.NoError(tb, err)
	request.Header.Set("Content-Type", "application/json")
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	require.NoError(tb, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(tb, err)
	require.Less(tb, answer.StatusCode, 300, fmt.Sprintf("%s %s: %s", method, url, text))
	return text
}

// smallPages is the address of a proxy before the server, through which no page of a list has more than 100 objects.
func smallPages(tb testing.TB, address string) string {
	return integration.SmallPages(tb, address, protocols.GCS().Operation, "maxResults", "100")
}
