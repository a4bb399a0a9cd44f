// Package docs_test keeps the documentation true: what it shows of Go is compiled here, and of JSON parsed.
package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

func openAndCheck(cluster string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config := s3.Config{
		Bucket: "segments",
		Region: "eu-central-1",
		Store:  objectstore.Config{Cluster: cluster, Prefix: "wal"},
	}
	first, err := s3.New(ctx, config) // or New of another package, without Warm: what that would say, the check says better
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := s3.New(ctx, config) // as another broker would have it
	if err != nil {
		return err
	}
	defer second.Close()
	return check.Check(ctx, first, check.Options{Other: second}) // each violation on a line of its own
}

func openLocal(ctx context.Context, cluster string) (*objectstore.Manager, error) {
	return local.New(ctx, local.Config{
		Root:  "/mnt/shared/segments", // it has to exist
		Store: objectstore.Config{Cluster: cluster},
	})
}

func openS3(ctx context.Context, cluster string) (*objectstore.Manager, error) {
	store, err := s3.New(ctx, s3.Config{
		Bucket: "segments",
		Region: "eu-central-1", // default: what the environment says, as for the credentials
		Store:  objectstore.Config{Cluster: cluster, Prefix: "wal"},
	})
	if err != nil {
		return nil, err
	}
	if err := store.Warm(ctx); err != nil { // connections, and the first word of the store
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func openS3Express(ctx context.Context, cluster string) (*objectstore.Manager, error) {
	store, err := s3.New(ctx, s3.Config{
		Bucket: "segments--euc1-az1--x-s3",
		Region: "eu-central-1",
		Store:  objectstore.Config{Cluster: cluster},
	})
	if err != nil {
		return nil, err
	}
	if err := store.Warm(ctx); err != nil { // the session too, which the first upload would wait for
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func openCompatible(ctx context.Context, cluster, key, secret string) (*objectstore.Manager, error) {
	store, err := s3.New(ctx, s3.Config{
		Bucket:      "segments",
		Endpoint:    "https://s3.example.com:9000",
		Provider:    "versitygw", // or what the table has; here it sets PathStyle
		Credentials: credentials.NewStaticCredentialsProvider(key, secret, ""),
		Store:       objectstore.Config{Cluster: cluster},
	})
	if err != nil {
		return nil, err
	}
	if err := store.Warm(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func openGCS(ctx context.Context, cluster string) (*objectstore.Manager, error) {
	store, err := gcs.New(ctx, gcs.Config{
		Bucket: "segments", // credentials: Google's application default ones
		Store:  objectstore.Config{Cluster: cluster, Prefix: "wal"},
	})
	if err != nil {
		return nil, err
	}
	if err := store.Warm(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func openAzure(ctx context.Context, cluster string) (*objectstore.Manager, error) {
	store, err := azure.New(ctx, azure.Config{
		Account:   "walhop", // credentials: azidentity's default chain, or AccountKey, SAS, Credential
		Container: "segments",
		Store:     objectstore.Config{Cluster: cluster},
	})
	if err != nil {
		return nil, err
	}
	if err := store.Warm(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func openYourOwn(driver objectstore.Driver, cluster string) (*objectstore.Manager, error) {
	return objectstore.New(driver, objectstore.Config{
		Cluster:        cluster,
		Prefix:         "wal",
		AttemptTimeout: 500 * time.Millisecond, // of one request; the retries are the manager's
		MaxRetryTime:   time.Minute,            // where the caller's context has no deadline
	})
}

// blocks returns what stands between fences of a language.
func blocks(t *testing.T, language string) []string {
	text, err := os.ReadFile("backends.md")
	require.NoError(t, err)
	var found []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```\n").FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1])
	}
	require.NotEmpty(t, found)
	return found
}

// Each piece of Go is a function of this package's tests, and each of those functions is shown.
func TestGoOfBackends(t *testing.T) {
	shown := strings.Join(blocks(t, "go"), "")
	var compiled strings.Builder
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, function := range regexp.MustCompile(`(?ms)^func open.*?^}\n`).FindAllString(string(text), -1) {
			compiled.WriteString(function)
			assert.Contains(t, shown, function)
		}
	}
	for _, block := range blocks(t, "go") {
		assert.Contains(t, compiled.String(), block)
	}
}

// What is there to be pasted is JSON.
func TestJSONOfBackends(t *testing.T) {
	for _, block := range blocks(t, "json") {
		assert.True(t, json.Valid([]byte(block)), block)
	}
}

// A context that has ended is the answer of those that ask the store; the rest opens, or says what is missing.
func TestOpen(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, open := range map[string]func(context.Context, string) (*objectstore.Manager, error){
		"S3": openS3, "S3 Express": openS3Express, "Azure": openAzure,
		"compatible": func(ctx context.Context, cluster string) (*objectstore.Manager, error) {
			return openCompatible(ctx, cluster, "key", "secret")
		},
	} {
		_, err := open(ended, "c")
		assert.ErrorIs(t, err, context.Canceled, name)
	}
	_, err := openLocal(t.Context(), "c")
	assert.ErrorContains(t, err, "/mnt/shared/segments")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none"))
	_, err = openGCS(t.Context(), "c")
	assert.ErrorContains(t, err, "Credentials")
	store, err := openYourOwn(memory.New(memory.Config{}), "c")
	require.NoError(t, err)
	require.NoError(t, store.Close())
}

// W7: where the bucket is missing or something is refused, the check runs all the same, and says so as A1.
func TestOpenAndCheck(t *testing.T) {
	for code, test := range map[string]struct {
		status int
		kind   error
	}{
		"NoSuchBucket": {http.StatusNotFound, walstorage.ErrBucketNotFound},
		"AccessDenied": {http.StatusForbidden, walstorage.ErrAccessDenied},
	} {
		t.Run(code, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(test.status)
				_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
			}))
			defer server.Close()
			t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
			t.Setenv("AWS_ACCESS_KEY_ID", "key")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			err := openAndCheck("c")
			require.ErrorIs(t, err, test.kind)
			var violation *check.Violation
			require.ErrorAs(t, err, &violation)
			assert.Equal(t, "A1", violation.Case)
		})
	}
}
