package s3

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/walhop/walhop/walstorage/objectstore"
)

// provider is one row of the table of stores: what one of them does otherwise than Amazon S3, and how that is known.
type provider struct {
	name  string // what Config.Provider says
	title string // what people call it
	// hosts are the hosts, or the domains, by which an endpoint shows that it is one of this store's.
	hosts []string
	// creates is what is known of creating an object only if there is none, on which W2 rests.
	creates creates
	// instead is what a user of a store with createsNone should do.
	instead string

	// pathStyle and noChecksum switch Config's fields of that name on. region takes the place of what the environment
	// says: it is the only one that the store knows.
	pathStyle  bool
	noChecksum bool
	region     string
	// hides are the folders, as patterns of path.Match, below which no list names anything, whatever is stored there.
	hides []string
	// codes are error codes that Amazon S3 does not have. Where Amazon's documentation does, they are in common.
	codes map[string]error

	facts []fact // the first of a store that is refused says why
}

// creates is what is known of If-None-Match: * of a store.
type creates int

const (
	createsUnknown    creates = iota // nobody has said or looked
	createsNone                      // refused or ignored: the store cannot be used
	createsDocumented                // the store's makers say that it is honoured
	createsMeasured                  // of 16 creates at once exactly one won, in each round
)

// fact is something that the settings of a row rest on, or that a user has to know.
type fact struct {
	says   string
	known  evidence
	source string // an address, a report (owner/name#number), or what was measured
}

// evidence is how a fact is known.
type evidence int

const (
	byMeasuring evidence = iota // by those who build walhop
	byDocuments                 // by the documentation or the source code of the store's makers
	byReport                    // by a public report of somebody else
)

// isDirectory tells whether the bucket, or the access point, is one of S3 Express One Zone.
func isDirectory(bucket string) bool {
	return strings.HasSuffix(bucket, "--x-s3") || strings.HasSuffix(bucket, "--xa-s3")
}

// The rows that no field has to name.
const (
	nameAmazon     = "aws"
	nameExpress    = "aws-express"
	nameCompatible = "compatible"
)

// providerNamed returns the row of a name.
func providerNamed(name string) (provider, bool) {
	for _, row := range providers() {
		if row.name == name {
			return row, true
		}
	}
	return provider{}, false
}

// providerNames lists the names for an error text.
func providerNames() string {
	var names []string
	for _, row := range providers() {
		names = append(names, row.name)
	}
	return strings.Join(names, ", ")
}

// providerOf chooses the row: the one that is named, that of a directory bucket, or the one that the endpoint shows. The
// endpoint may come from the environment. The error is of kind walstorage.ErrInvalidArgument.
func providerOf(config Config, endpoint string) (provider, error) {
	if name := config.Provider; name != "" && name != nameAmazon {
		row, _ := providerNamed(name) // withDefaults has looked
		switch {
		case name == nameExpress && !isDirectory(config.Bucket):
			return provider{}, invalid("Provider", "%q is for buckets whose names end in --x-s3, and %q does not", name, config.Bucket)
		case row.creates == createsNone:
			return provider{}, invalid("Provider", "%q: %s", name, row.refusal())
		case name != nameExpress && endpoint == "":
			return provider{}, invalid("Endpoint", "is empty, and %s has none that is known", row.title)
		}
		return row, nil
	}
	name := nameCompatible
	switch {
	case isDirectory(config.Bucket):
		name = nameExpress
	case endpoint == "" || config.Provider == nameAmazon:
		name = nameAmazon
	default:
		if row, shown := providerAt(endpoint); shown {
			if row.creates == createsNone {
				return provider{}, invalid("Endpoint", "is one of %s: %s; Provider %q overrides this", row.title, row.refusal(), nameCompatible)
			}
			return row, nil
		}
	}
	row, _ := providerNamed(name)
	return row, nil
}

// providerAt returns the row of the store that the endpoint is one of.
func providerAt(endpoint string) (provider, bool) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return provider{}, false
	}
	host := strings.ToLower(u.Hostname())
	for _, row := range providers() {
		for _, domain := range row.hosts {
			if host == domain || strings.HasSuffix(host, "."+domain) {
				return row, true
			}
		}
	}
	return provider{}, false
}

// lists looks whether lists will name what is stored in the place (W10). What no list names is read and announced like
// anything else, but never swept. The error is of kind walstorage.ErrInvalidArgument.
func (p provider) lists(place objectstore.Config) error {
	for _, field := range []struct{ name, folders string }{{"Store.Prefix", place.Prefix}, {"Store.Cluster", place.Cluster}} {
		for folder := range strings.SplitSeq(field.folders, "/") {
			for _, pattern := range p.hides {
				if hidden, _ := path.Match(pattern, folder); hidden {
					return invalid(field.name, "%q is a folder below which %s lists nothing", folder, p.title)
				}
			}
		}
	}
	return nil
}

// refusal says why a store without conditional creates is refused.
func (p provider) refusal() string {
	why := p.facts[0]
	return fmt.Sprintf("%s (%s), so it has no create that W2 could rest on: %s", why.says, why.source, p.instead)
}
