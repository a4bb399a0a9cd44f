package gcs

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/storage"
	"google.golang.org/api/option"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
)

// connect makes the SDK's client, and with it the handle of the bucket.
func (d *Driver) connect(ctx context.Context, config Config) error {
	client := config.Client
	if client == nil {
		through, err := d.transport(ctx, config)
		if err != nil {
			return err
		}
		// The endpoint is always given: the SDK would take it from STORAGE_EMULATOR_HOST. Tokens are the transport's
		// affair: with a client that is given, the SDK adds none.
		client, err = storage.NewClient(ctx,
			option.WithHTTPClient(through),
			option.WithEndpoint(strings.TrimRight(config.Endpoint, "/")+"/storage/v1/"),
			option.WithoutAuthentication(),
			storage.WithJSONReads(),
		)
		if err != nil {
			return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("gcs: the SDK's client: %w", err))
		}
		d.seesAnswers = true
	}
	// One layer retries, and it is not the SDK (J20).
	d.bucket = client.Bucket(config.Bucket).Retryer(storage.WithPolicy(storage.RetryNever))
	return nil
}

// transport makes the client that the SDK sends its requests through.
func (d *Driver) transport(ctx context.Context, config Config) (*http.Client, error) {
	t := &transport{}
	through := &http.Client{
		Transport: t,
		// A token is for one host, and an upload is one request.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if given := config.HTTPClient; given != nil {
		t.base, through.Jar, through.Timeout = given.Transport, given.Jar, given.Timeout
		if t.base == nil {
			t.base = http.DefaultTransport
		}
	} else {
		d.own = &http.Transport{Proxy: http.ProxyFromEnvironment}
		httpstore.Configure(d.own, config.settings())
		t.base = d.own
	}
	found := config.Credentials
	if found == nil && !config.Anonymous && !strings.HasPrefix(config.Endpoint, "http:") {
		var err error
		// What the SDK asks for, without the rest of the cloud.
		found, err = credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{storage.ScopeFullControl}})
		if err != nil {
			return nil, invalid("Credentials", "are not set, and those of the environment: %w", err)
		}
	}
	return through, t.use(ctx, found)
}

// use sets the credentials.
func (t *transport) use(ctx context.Context, found *auth.Credentials) error {
	if found == nil {
		return nil
	}
	project, err := found.QuotaProjectID(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return invalid("Credentials", "tell no quota project: %w", err)
	}
	t.tokens, t.quotaProject = &tokens{provider: found.TokenProvider}, project
	return nil
}
