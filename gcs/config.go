package gcs

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/storage"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Config says where the store is. Bucket and Store.Cluster are all that a broker in Google's cloud sets. It is copied:
// changing it later has no effect.
type Config struct {
	// Bucket is the bucket's name. Required; the bucket has to exist.
	Bucket string

	// Endpoint is the URL of an emulator, of a private endpoint or of a sovereign cloud: http or https, a host, no path,
	// and nothing that has to be kept secret. Default: "https://storage.googleapis.com", which is refused where the
	// credentials come from a file that names another cloud.
	Endpoint string

	// Anonymous sends requests without credentials, as emulators behind https and public buckets take them.
	Anonymous bool

	// Credentials give the tokens: what package cloud.google.com/go/auth/credentials makes of a file or of JSON, or
	// auth.NewCredentials of a token provider. They are asked for another token where one is refused: those of package
	// credentials keep theirs until shortly before its end, and then the refusal stands. A provider has to heed its context,
	// which ends after 30 s and with Close: that waits for it. Default: the environment's application default credentials,
	// and none where Endpoint is plain http.
	Credentials *auth.Credentials

	// Parallelism is the number of requests that are expected to be under way at once. Twice as many idle connections
	// are kept. More requests than that work too, over connections that are opened for them. Default 64, at most 10,000.
	Parallelism int

	// DialTimeout limits how long a connection may take to open, and its TLS handshake again. Default 3 s.
	DialTimeout time.Duration

	// ResponseHeaderTimeout limits how long an answer may take to begin once the request has been sent. Default 10 s.
	// Store.AttemptTimeout is usually shorter, and then counts.
	ResponseHeaderTimeout time.Duration

	// StallTimeout limits how long a request or an answer may go without a byte moving. Default 10 s. Here too the
	// deadline of the attempt is usually shorter.
	StallTimeout time.Duration

	// HTTPClient sends the requests to the store in place of the package's own client, and the package adds the tokens;
	// Parallelism, DialTimeout and ResponseHeaderTimeout are then its own affair, and so is closing it. It should speak
	// HTTP/1.1: over HTTP/2 all requests share one connection and its loss. Its Transport, Jar and Timeout are used; it is
	// not asked about redirects, of which none is followed. Tokens are fetched by a client of the SDK.
	HTTPClient *http.Client

	// Client is a ready client of the SDK, of storage.NewClient (one of storage.NewGRPCClient is refused), whose endpoint,
	// credentials and HTTP client are used; the fields here that say the same must be empty, Parallelism, DialTimeout and
	// ResponseHeaderTimeout have no effect, and closing it is its owner's affair. Its retries are not used, and it makes a
	// copy of each upload, whose sending StallTimeout then limits as a whole, as it does the coming of a list. The package
	// does not see the raw answers then: a Content-Range whose end alone is wrong, an answer without the size that was
	// asked for, and an error document under status 200 in answer to a list or a delete, pass unnoticed; a status that an
	// error document names counts before that of its answer; and an answer with 101, a change of protocol, is waited for in
	// vain, beyond the context.
	Client *storage.Client

	// Store configures the Manager above the driver: cluster, key prefix, retries, hooks, the logger. NewDriver does not
	// look at it.
	Store objectstore.Config
}

const defaultEndpoint = "https://storage.googleapis.com"

// withDefaults returns the configuration with its zero values filled in, or an error of kind
// walstorage.ErrInvalidArgument that names the wrong field. It never repeats a value that may be secret.
func (c Config) withDefaults() (Config, error) {
	if problem := wrongBucket(c.Bucket); problem != "" {
		return Config{}, invalid("Bucket", "%s", problem)
	}
	if c.Endpoint != "" {
		if problem := wrongEndpoint(c.Endpoint); problem != "" {
			return Config{}, invalid("Endpoint", "%s", problem)
		}
	}
	if c.Anonymous && c.Credentials != nil {
		return Config{}, invalid("Anonymous", "is set, and so is Credentials")
	}
	if c.Credentials != nil && c.Credentials.TokenProvider == nil {
		return Config{}, invalid("Credentials", "have no token provider")
	}
	if c.Client != nil {
		for _, field := range []struct {
			name string
			set  bool
		}{
			{"Endpoint", c.Endpoint != ""},
			{"Anonymous", c.Anonymous},
			{"Credentials", c.Credentials != nil},
			{"HTTPClient", c.HTTPClient != nil},
		} {
			if field.set {
				return Config{}, invalid(field.name, "is set, and so is Client, which has its own")
			}
		}
		if problem := wrongClient(c.Client); problem != "" {
			return Config{}, invalid("Client", "%s", problem)
		}
	}
	if c.Endpoint == "" {
		c.Endpoint = defaultEndpoint
	}
	settings, field, problem := c.settings().WithDefaults()
	if problem != "" {
		return Config{}, invalid(field, "%s", problem)
	}
	c.Parallelism, c.DialTimeout = settings.Parallelism, settings.DialTimeout
	c.ResponseHeaderTimeout, c.StallTimeout = settings.ResponseHeaderTimeout, settings.StallTimeout
	return c, nil
}

// plain tells whether requests go out as plain text. A scheme may be in capitals.
func (c *Config) plain() bool {
	u, err := url.Parse(c.Endpoint)
	return err != nil || u.Scheme != "https"
}

// settings are those of the requests.
func (c *Config) settings() httpstore.Settings {
	return httpstore.Settings{
		Parallelism: c.Parallelism, DialTimeout: c.DialTimeout,
		ResponseHeaderTimeout: c.ResponseHeaderTimeout, StallTimeout: c.StallTimeout,
	}
}

// wrongBucket says what is wrong with a bucket's name, "" if nothing is. 222 is the service's limit for names with dots.
func wrongBucket(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_" // emulators take capitals
	switch {
	case name == "":
		return "is empty"
	case len(name) > 222:
		return fmt.Sprintf("has %d bytes, and 222 are the most", len(name))
	case strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(letters, r) }):
		return fmt.Sprintf("%q has something else in it than letters, digits, dots, - and _", name)
	case strings.Trim(name, ".") == "":
		return fmt.Sprintf("%q is no name", name)
	}
	return ""
}

// wrongEndpoint says what is wrong with an endpoint, "" if nothing is. Uploads and all else have different paths there,
// so that it can have none itself.
func wrongEndpoint(endpoint string) string {
	if problem := httpstore.WrongEndpoint(endpoint); problem != "" {
		return problem
	}
	if u, err := url.Parse(endpoint); err != nil || strings.Trim(u.EscapedPath(), "/") != "" {
		return "has a path"
	}
	return ""
}

func invalid(field, format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("gcs.Config: "+field+": "+format, args...))
}
