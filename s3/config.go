package s3

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Config says where the store is. Bucket and Store.Cluster are all that a broker in AWS sets. It is copied: changing it
// later has no effect.
type Config struct {
	// Bucket is the bucket's name, or the ARN of an access point. A name that ends in "--x-s3" is a directory bucket
	// (S3 Express One Zone). Required; the bucket has to exist.
	Bucket string

	// Provider names the store, for what it does otherwise than Amazon S3: "aws", "aws-express", "versitygw", "minio",
	// "seaweedfs", "ceph", "cloudflare-r2", "wasabi", or "compatible" for any other. The table in docs/backends.md tells
	// what each name sets, what is known of the store, and from where; a field that is set here stands. Stores of which
	// it is known that they have no atomic create, such as Backblaze B2, have names too, and are refused with an error
	// that says why (W2). Default: "aws-express" for a directory bucket, else what the host of the endpoint shows, else
	// "aws" without an endpoint and "compatible" with one.
	Provider string

	// Region is the bucket's region, such as "eu-central-1". Default: what the environment says (AWS_REGION, the shared
	// configuration), and "us-east-1" where Endpoint is set and the environment says nothing.
	Region string

	// Endpoint is the URL of a store that is not Amazon's, or of a private endpoint: http or https, a host, and nothing
	// that has to be kept secret. Default: what the environment says (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the shared
	// configuration), else Amazon's for the region.
	Endpoint string

	// PathStyle puts the bucket into the path of the URL and not into its host name. Most stores that are not Amazon's
	// need it. Default: what Provider sets, else off.
	PathStyle bool

	// Credentials give the keys. Default: AWS's chain. aws.AnonymousCredentials sends requests unsigned. One question may
	// take 30 s and ends with the driver, by its context; a panic is contained, and is the error of the call. Where this is
	// a ready aws.CredentialsCache, which asks by itself, and in AWS's chain, time-outs, panics, and questions that outlast
	// the driver are the affair of who made it.
	Credentials aws.CredentialsProvider

	// KMSKeyID is the id, ARN or alias of the KMS key that new objects are encrypted with (SSE-KMS); for a directory
	// bucket the id or ARN of the key that the bucket is set to, and no alias. Default: what the bucket is set to.
	// Readers then need kms:Decrypt, and writers kms:GenerateDataKey and, to compare what exists, kms:Decrypt.
	KMSKeyID string

	// NoChecksum is for old compatible stores that refuse the checksum headers of today: no request carries any. Uploads
	// are then protected by the SHA-256 that the signature covers, over https too, which costs a second pass over the
	// body; deletes carry a Content-MD5, as they did in former times; and an upload that meets an existing object reads
	// it to compare. Default: what Provider sets, else off.
	NoChecksum bool

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

	// HTTPClient sends the requests to the store in place of the package's own client; Parallelism, DialTimeout and
	// ResponseHeaderTimeout are then its own affair, and so is closing it. It should speak HTTP/1.1: over HTTP/2 all
	// requests share one connection and its loss. Redirects are not followed, whatever its CheckRedirect says. What the
	// credentials chain asks for goes through a client of the SDK.
	HTTPClient *http.Client

	// Client is a ready client of the SDK, whose endpoint, region, credentials, HTTP client and middleware are used; the
	// fields here that say the same must be empty. Its retries, its checksum modes and its sessions for S3 Express
	// are not used. A question to its credentials, where they come from an aws.CredentialsCache, is its owner's affair, as
	// with Credentials.
	Client *sdk.Client

	// Store configures the Manager above the driver: cluster, key prefix, retries, hooks, the logger. NewDriver looks at
	// the names of Prefix and Cluster alone: those are refused that Provider is known to name in no list (W10).
	Store objectstore.Config
}

// regionElsewhere is the region that stores other than Amazon's expect where nothing else was agreed.
const regionElsewhere = "us-east-1"

// withDefaults returns the configuration with its zero values filled in, or an error of kind
// walstorage.ErrInvalidArgument that names the wrong field. It never repeats a value that may be secret.
func (c Config) withDefaults() (Config, error) {
	if problem := wrongBucket(c.Bucket); problem != "" {
		return Config{}, invalid("Bucket", "%s", problem)
	}
	if c.Provider != "" {
		if _, known := providerNamed(c.Provider); !known {
			return Config{}, invalid("Provider", "%q is none of %s", c.Provider, providerNames())
		}
	}
	if c.Region != "" {
		if problem := wrongRegion(c.Region); problem != "" {
			return Config{}, invalid("Region", "%s", problem)
		}
	}
	if cache, ready := c.Credentials.(*aws.CredentialsCache); ready && cache == nil {
		return Config{}, invalid("Credentials", "is an aws.CredentialsCache that is nil")
	}
	if c.Endpoint != "" {
		if problem := httpstore.WrongEndpoint(c.Endpoint); problem != "" {
			return Config{}, invalid("Endpoint", "%s", problem)
		}
	}
	if strings.ContainsFunc(c.KMSKeyID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Config{}, invalid("KMSKeyID", "%q has something else in it than printable ASCII", c.KMSKeyID)
	}
	if isDirectory(c.Bucket) && (strings.HasPrefix(c.KMSKeyID, "alias/") || strings.Contains(c.KMSKeyID, ":alias/")) {
		return Config{}, invalid("KMSKeyID", "%q is an alias, and a directory bucket takes none", c.KMSKeyID)
	}
	if c.PathStyle && isARN(c.Bucket) {
		return Config{}, invalid("PathStyle", "is set for an access point, which is in the host name")
	}
	if isDirectory(c.Bucket) && c.NoChecksum {
		return Config{}, invalid("NoChecksum", "is set for a directory bucket, which knows no MD5")
	}
	if c.Client != nil {
		for _, field := range []struct {
			name string
			set  bool
		}{
			{"Region", c.Region != ""},
			{"Endpoint", c.Endpoint != ""},
			{"PathStyle", c.PathStyle},
			{"Credentials", c.Credentials != nil},
			{"HTTPClient", c.HTTPClient != nil},
		} {
			if field.set {
				return Config{}, invalid(field.name, "is set, and so is Client, which has its own")
			}
		}
	}
	settings, field, problem := c.settings().WithDefaults()
	if problem != "" {
		return Config{}, invalid(field, "%s", problem)
	}
	c.Parallelism, c.DialTimeout = settings.Parallelism, settings.DialTimeout
	c.ResponseHeaderTimeout, c.StallTimeout = settings.ResponseHeaderTimeout, settings.StallTimeout
	return c, nil
}

// settings are those of the requests.
func (c *Config) settings() httpstore.Settings {
	return httpstore.Settings{
		Parallelism: c.Parallelism, DialTimeout: c.DialTimeout,
		ResponseHeaderTimeout: c.ResponseHeaderTimeout, StallTimeout: c.StallTimeout,
	}
}

// wrongBucket says what is wrong with a bucket's name, "" if nothing is. Names are not checked by the rules for new
// buckets: old ones, and those of other stores, have capitals and underscores.
func wrongBucket(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	switch {
	case name == "":
		return "is empty"
	case len(name) > 255:
		return fmt.Sprintf("has %d bytes, and 255 are the most", len(name))
	case isARN(name):
		if !only(name, letters+":/") || !arn.IsARN(name) {
			return fmt.Sprintf("%q is no ARN", name)
		}
	case !only(name, letters):
		return fmt.Sprintf("%q has something else in it than letters, digits, dots, - and _", name)
	case strings.Trim(name, ".") == "":
		return fmt.Sprintf("%q is no name", name)
	}
	return ""
}

// isARN tells whether a bucket's name is, or wants to be, the ARN of an access point. No bucket's name has a colon.
func isARN(bucket string) bool { return strings.HasPrefix(bucket, "arn:") }

// wrongRegion says what is wrong with a region, "" if nothing is. The SDK takes what can be a part of a host's name, also
// where the region is in none.
func wrongRegion(region string) string {
	switch {
	case !only(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"):
		return fmt.Sprintf("%q has something else in it than letters, digits and -", region)
	case strings.HasPrefix(region, "-") || strings.HasSuffix(region, "-"):
		return fmt.Sprintf("%q begins or ends with -", region)
	case len(region) > 63:
		return fmt.Sprintf("has %d bytes, and 63 are the most", len(region))
	}
	return ""
}

func invalid(field, format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("s3.Config: "+field+": "+format, args...))
}

// only tells whether text has no other characters in it than those.
func only(text, those string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(those, r) })
}
