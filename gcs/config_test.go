package gcs_test

import (
	"net/http"
	"strings"
	"testing"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/storage"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"

	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// wrong are the changes to a configuration that are refused, by the field that has to be named: those of every driver, and
// ours.
func wrong(t *testing.T) map[string][]func(*gcs.Config) {
	type config = gcs.Config
	client, err := storage.NewClient(t.Context(), option.WithHTTPClient(&http.Client{}))
	require.NoError(t, err)
	// besides sets a field beside a ready client, which has its own.
	besides := func(change func(*config)) func(*config) {
		return func(c *config) {
			*c = config{Bucket: c.Bucket, Client: client, Store: c.Store}
			change(c)
		}
	}
	return ours.Wrong(besides, map[string][]func(*config){
		"Bucket": {
			func(c *config) { c.Bucket = "" },
			func(c *config) { c.Bucket = "a/b" },
			func(c *config) { c.Bucket = "a b" },
			func(c *config) { c.Bucket = "gs://a" },
			func(c *config) { c.Bucket = "b?token=x" },
			func(c *config) { c.Bucket = ".." },
			func(c *config) { c.Bucket = strings.Repeat("a", 223) },
		},
		"Endpoint": {func(c *config) { c.Endpoint = "http://localhost/storage/v1/" }},
		"Anonymous": {
			func(c *config) { c.Anonymous, c.Credentials = true, with(provider(token)) },
			besides(func(c *config) { c.Anonymous = true }),
		},
		"Credentials": {
			func(c *config) { c.Credentials = &auth.Credentials{} },
			func(c *config) { c.Endpoint = "" },                  // those of the environment: an empty file
			func(c *config) { c.Endpoint = "https://localhost" }, // the same
			besides(func(c *config) { c.Credentials = with(provider(configtest.Secret)) }),
		},
		"Client": { // gRPC: TestClientThatIsNotSupported
			besides(func(c *config) { c.Client = &storage.Client{} }),
		},
	})
}

// A2: each wrong value of each field is refused with the name of the field and without what may be secret (W11), and no
// field is forgotten.
func TestConfig(t *testing.T) {
	configtest.Run(t, configtest.Table[gcs.Config]{
		Valid: gcs.Config{Bucket: bucket, Endpoint: "http://localhost:1", Store: objectstore.Config{Cluster: "c"}},
		Open:  ours.Try,
		Wrong: wrong(t),
	})
}

// invalid are the wrong values for the suite.
func invalid(t *testing.T) map[string]func() error {
	return configtest.First(config("http://localhost:1"), wrong(t), func(c gcs.Config) error { return ours.Try(t, c) })
}
