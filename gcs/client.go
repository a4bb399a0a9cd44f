package gcs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"reflect"
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
		if err := wrongVariable(); err != nil {
			return err
		}
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
	var look func() (auth.TokenProvider, error)
	if found == nil && !config.Anonymous && !config.plain() {
		var err error
		if found, err = detect(); err != nil {
			return nil, invalid("Credentials", "are not set, and those of the environment: %w", err)
		}
		look = func() (auth.TokenProvider, error) { return detect() }
	}
	if found == nil {
		return through, nil
	}
	if problem := elsewhere(ctx, config.Endpoint, found); problem != "" {
		return nil, invalid("Endpoint", "%s", problem)
	}
	project, err := found.QuotaProjectID(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, invalid("Credentials", "tell no quota project: %w", err)
	}
	t.tokens, t.quotaProject = newTokens(found.TokenProvider, look), project
	d.tokens = t.tokens
	return through, nil
}

// elsewhere says whose credentials of a sovereign cloud are about to be sent to Google's own, "" if they are not. Those of a
// file tell it without a request.
func elsewhere(ctx context.Context, endpoint string, found *auth.Credentials) string {
	if endpoint != defaultEndpoint || len(found.JSON()) == 0 {
		return ""
	}
	if domain, err := found.UniverseDomain(ctx); err == nil && domain != "googleapis.com" {
		return fmt.Sprintf("is not set, and the credentials are of %q: its store may be https://storage.%s", domain, domain)
	}
	return ""
}

// detect looks for the credentials of the environment: what the SDK asks for, without the rest of the cloud.
func detect() (*auth.Credentials, error) {
	found, err := credentials.DetectDefault(&credentials.DetectOptions{
		Scopes: []string{storage.ScopeFullControl},
		// By itself the SDK writes requests and answers to the standard error output where a variable says so: these have the
		// tokens in them (W11). In those to the store there are none before they reach our transport.
		Logger: slog.New(slog.DiscardHandler),
	})
	var file *fs.PathError
	if errors.As(err, &file) {
		// Some put the key itself where the name of its file belongs: the name is not repeated (W11).
		return nil, fmt.Errorf("the file that GOOGLE_APPLICATION_CREDENTIALS names cannot be read: %w", file.Err)
	}
	return found, err
}

// wrongVariable refuses the one value of STORAGE_EMULATOR_HOST that has an effect: the SDK wants it to be a URL if it looks
// like one, used or not, and repeats it in its error.
func wrongVariable() error {
	const variable = "STORAGE_EMULATOR_HOST"
	if host := os.Getenv(variable); strings.Contains(host, "://") {
		if _, err := url.Parse(host); err != nil {
			return walstorage.NewError(walstorage.ErrInvalidArgument, errors.New("gcs: the variable "+variable+", which is not used, is no URL"))
		}
	}
	return nil
}

// wrongClient says what is wrong with a client that is handed in, "" if nothing is. The SDK itself does not tell its
// clients apart: this looks at what it keeps to itself, and finds nothing wrong where it does not know what it sees.
func wrongClient(client *storage.Client) string {
	inner := reflect.ValueOf(client).Elem().FieldByName("tc")
	switch {
	case inner.Kind() != reflect.Interface:
	case inner.IsNil():
		return "was not made by storage.NewClient"
	case strings.Contains(inner.Elem().Type().String(), "grpc"):
		return "speaks gRPC, which is not supported: storage.NewClient makes one that does not"
	}
	return ""
}
