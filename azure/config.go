package azure

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Config says where the store is. Account, Container and Store.Cluster are all that a broker in Azure sets. It is
// copied: changing it later has no effect.
type Config struct {
	// Account is the name of the storage account: 3 to 24 of a-z 0-9. Required, unless Endpoint is set and AccountKey is
	// not.
	Account string

	// Container is the container's name: 3 to 63 of a-z 0-9 and single hyphens between them. Required; the container has
	// to exist.
	Container string

	// Endpoint is the URL of the blob service, for private endpoints, sovereign clouds and emulators: http or https, a
	// host, perhaps a path, and nothing that has to be kept secret. Default: https://<Account>.blob.core.windows.net.
	Endpoint string

	// AccountKey is one of the account's two keys, in base64. It may do everything to the account: a SAS, or better
	// Credential, gives less away.
	AccountKey string

	// SAS is a shared access signature for the container or the account, with or without the "?" before it.
	SAS string

	// Credential gives tokens. It needs https, and has to heed its context, which Close ends and then waits. Default, where
	// AccountKey and SAS are empty too: azidentity.NewDefaultAzureCredential.
	Credential azcore.TokenCredential

	// MD5 sends the MD5 of the body in place of the CRC-64, for servers that refuse the latter's header. It costs a
	// pass at some 600 MB/s in place of one at tens of GB/s. Default: off.
	MD5 bool

	// Parallelism is the number of requests that are expected to be under way at once. Twice as many idle connections
	// are kept. More requests than that work too, over connections that are opened for them. Default 64, at most 10,000.
	Parallelism int

	// DialTimeout limits how long a connection may take to open, and its TLS handshake again. Default 3 s.
	DialTimeout time.Duration

	// ResponseHeaderTimeout limits how long an answer may take to begin once the request has been sent. Default 10 s.
	// Store.AttemptTimeout is usually shorter, and then counts.
	ResponseHeaderTimeout time.Duration

	// StallTimeout limits how long a request or an answer may go without a byte moving (of a ready client the whole answer
	// to a list or a batch). Default 10 s. Here too the deadline of the attempt is usually shorter.
	StallTimeout time.Duration

	// HTTPClient sends the requests to the store in place of the package's own client; Parallelism, DialTimeout and
	// ResponseHeaderTimeout are then its own affair, and so is closing it. It should speak HTTP/1.1: over HTTP/2 all
	// requests share one connection and its loss. Its Transport, Jar and Timeout are used; it is not asked about redirects,
	// of which none is followed. Tokens are asked for through a client of the SDK, unless Credential has another.
	HTTPClient *http.Client

	// Client is a ready client of the SDK for the container, whose URL, credentials, transport and policies are used; the
	// fields here that say the same must be empty, Container among them. Its retries are not used. Tokens that it has to
	// ask for have to come within Store.AttemptTimeout: see [Driver.Warm]. What is answered where it has followed a redirect
	// is an error; how it answers a challenge, how much of an answer it reads, and what the SDK's log is told of a URL are
	// its own affair.
	Client *container.Client

	// Store configures the Manager above the driver: cluster, key prefix, retries, hooks, the logger. NewDriver does not
	// look at it.
	Store objectstore.Config
}

// withDefaults returns the configuration with its zero values filled in, or an error of kind
// walstorage.ErrInvalidArgument that names the wrong field. It never repeats a value that may be secret (W11).
func (c Config) withDefaults() (Config, error) {
	var err error
	if c.Client != nil {
		err = c.checkClient()
	} else {
		err = c.checkPlace()
	}
	if err != nil {
		return Config{}, err
	}
	settings, field, problem := c.settings().WithDefaults()
	if problem != "" {
		return Config{}, invalid(field, "%s", problem)
	}
	c.Parallelism, c.DialTimeout = settings.Parallelism, settings.DialTimeout
	c.ResponseHeaderTimeout, c.StallTimeout = settings.ResponseHeaderTimeout, settings.StallTimeout
	if c.Endpoint == "" {
		c.Endpoint = "https://" + c.Account + ".blob.core.windows.net"
	}
	c.SAS = strings.TrimPrefix(c.SAS, "?")
	return c, nil
}

// settings are those of the requests.
func (c *Config) settings() httpstore.Settings {
	return httpstore.Settings{
		Parallelism: c.Parallelism, DialTimeout: c.DialTimeout,
		ResponseHeaderTimeout: c.ResponseHeaderTimeout, StallTimeout: c.StallTimeout,
	}
}

// checkClient checks the fields that a ready client leaves nothing to say to.
func (c *Config) checkClient() error {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"Account", c.Account != ""},
		{"Container", c.Container != ""},
		{"Endpoint", c.Endpoint != ""},
		{"AccountKey", c.AccountKey != ""},
		{"SAS", c.SAS != ""},
		{"Credential", c.Credential != nil},
		{"HTTPClient", c.HTTPClient != nil},
	} {
		if field.set {
			return invalid(field.name, "is set, and so is Client, which has its own")
		}
	}
	return nil
}

const lowerAndDigits = "abcdefghijklmnopqrstuvwxyz0123456789"

// checkPlace checks where the store is and who asks.
func (c *Config) checkPlace() error {
	switch {
	case c.Account == "" && c.Endpoint == "":
		return invalid("Account", "is empty, and so is Endpoint")
	case c.Account == "" && c.AccountKey != "":
		return invalid("Account", "is empty, and AccountKey, which signs its name, is not")
	case c.Account != "" && (len(c.Account) < 3 || len(c.Account) > 24 || !only(c.Account, lowerAndDigits)):
		return invalid("Account", "%q is not 3 to 24 lower case letters and digits", c.Account)
	}
	if problem := wrongContainer(c.Container); problem != "" {
		return invalid("Container", "%s", problem)
	}
	if c.Endpoint != "" {
		if problem := httpstore.WrongEndpoint(c.Endpoint); problem != "" {
			return invalid("Endpoint", "%s", problem)
		}
	}
	if c.AccountKey != "" {
		switch key, err := base64.StdEncoding.DecodeString(c.AccountKey); {
		case err != nil:
			return invalid("AccountKey", "is not base64")
		case len(key) == 0: // line breaks, which base64 may have anywhere
			return invalid("AccountKey", "is blank")
		}
	}
	if problem := wrongSAS(c.SAS); problem != "" {
		return invalid("SAS", "%s", problem)
	}
	switch {
	case c.AccountKey != "" && c.SAS != "":
		return invalid("SAS", "is set, and so is AccountKey")
	case c.AccountKey != "" && c.Credential != nil:
		return invalid("Credential", "is set, and so is AccountKey")
	case c.SAS != "" && c.Credential != nil:
		return invalid("Credential", "is set, and so is SAS")
	case c.AccountKey == "" && c.SAS == "" && strings.HasPrefix(strings.ToLower(c.Endpoint), "http:"):
		return invalid("Endpoint", "begins with http://, over which no token may go: it needs AccountKey or SAS")
	}
	return nil
}

// wrongContainer says what is wrong with a container's name, "" if nothing is.
func wrongContainer(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) < 3 || len(name) > 63:
		return fmt.Sprintf("has %d bytes, and 3 to 63 are allowed", len(name))
	case !only(name, lowerAndDigits+"-"):
		return fmt.Sprintf("%q has something else in it than lower case letters, digits and hyphens", name)
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") || strings.Contains(name, "--"):
		return fmt.Sprintf("%q has a hyphen at an end or beside another", name)
	}
	return ""
}

// wrongSAS says what is wrong with a signature, "" if nothing is, and repeats nothing of it.
func wrongSAS(sas string) string {
	if sas == "" {
		return ""
	}
	values, err := url.ParseQuery(strings.TrimPrefix(sas, "?"))
	switch {
	case err != nil || strings.ContainsFunc(sas, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }):
		return "is no query of a URL"
	case values.Get("sig") == "":
		return `has no "sig"`
	case values.Has("comp") || values.Has("restype") || values.Has("marker"):
		return "is the query of a request: a signature alone is wanted"
	}
	for name := range values {
		if name == "" || !only(name, "abcdefghijklmnopqrstuvwxyz-") { // of a whole URL, or of a connection string
			return "has something else in it than the parameters of a signature"
		}
	}
	return ""
}

func invalid(field, format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("azure.Config: "+field+": "+format, args...))
}

// only tells whether text has no other characters in it than those.
func only(text, those string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(those, r) })
}
