package openurl

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/walhop/walhop/gcs"
	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Store opens the store at a URL. The URL's path stands before config.Prefix, for files as the directory. The error is
// that of [Parse], or that of the backend's New.
func Store(ctx context.Context, url string, config objectstore.Config) (*objectstore.Manager, error) {
	l, err := Parse(url)
	if err != nil {
		return nil, err
	}
	return l.Open(ctx, config)
}

// Open opens the store. It may be called more than once: each manager is a handle of its own.
func (l Location) Open(ctx context.Context, config objectstore.Config) (*objectstore.Manager, error) {
	if l.scheme.open == nil {
		return nil, invalid("store URL", "it is empty")
	}
	if l.scheme.bucket != "" {
		config.Prefix = strings.TrimPrefix(l.path+"/"+config.Prefix, "/")
	}
	return l.scheme.open(ctx, l, config)
}

// scheme is a kind of store, or of metadata log.
type scheme struct {
	name   string
	bucket string // what the store calls a bucket, "" where the path alone is the place
	form   string
	// credentials says where they come from.
	credentials string
	// parameters says of each what is wrong with a value.
	parameters map[string]func(value string) (problem string)
	open       func(context.Context, Location, objectstore.Config) (*objectstore.Manager, error) // of a store
}

// schemes returns every kind of store. A new one is a new entry.
func schemes() []scheme {
	return []scheme{
		{
			name: "file", form: "file:///dir",
			credentials: "a directory has none",
			open: func(ctx context.Context, l Location, config objectstore.Config) (*objectstore.Manager, error) {
				return local.New(ctx, local.Config{Root: l.path, Store: config})
			},
		},
		{
			name: "s3", bucket: "bucket", form: "s3://bucket/prefix",
			credentials: "credentials are no part of a URL, they come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or the rest of AWS's chain",
			parameters: map[string]func(string) string{
				"endpoint": endpoint, "region": name, "path_style": boolean, "provider": name, "kms_key_id": printable, "no_checksum": boolean,
			},
			open: func(ctx context.Context, l Location, config objectstore.Config) (*objectstore.Manager, error) {
				return s3.New(ctx, s3.Config{
					Bucket: l.bucket, Endpoint: l.parameters["endpoint"], Region: l.parameters["region"], PathStyle: l.flag("path_style"),
					Provider: l.parameters["provider"], KMSKeyID: l.parameters["kms_key_id"], NoChecksum: l.flag("no_checksum"), Store: config,
				})
			},
		},
		{
			name: "gs", bucket: "bucket", form: "gs://bucket/prefix",
			credentials: "credentials are no part of a URL, they come from GOOGLE_APPLICATION_CREDENTIALS or the rest of the application default credentials",
			parameters:  map[string]func(string) string{"endpoint": endpoint, "anonymous": boolean},
			open: func(ctx context.Context, l Location, config objectstore.Config) (*objectstore.Manager, error) {
				return gcs.New(ctx, gcs.Config{
					Bucket: l.bucket, Endpoint: l.parameters["endpoint"], Anonymous: l.flag("anonymous"), Store: config,
				})
			},
		},
		{
			name: "azblob", bucket: "container", form: "azblob://container/prefix?account=name",
			credentials: "credentials are no part of a URL, they come from " + azureKey + ", " + azureSAS + " or azidentity's chain",
			parameters:  map[string]func(string) string{"account": name, "endpoint": endpoint, "md5": boolean},
			open:        openAzure,
		},
	}
}

// forms lists how URLs look.
func forms(known []scheme) string {
	var list []string
	for _, s := range known {
		list = append(list, s.form)
	}
	return strings.Join(list, ", ")
}

// known lists the parameters of a scheme.
func (s scheme) known() string {
	if len(s.parameters) == 0 {
		return s.name + " has none"
	}
	return s.name + " has " + strings.Join(slices.Sorted(maps.Keys(s.parameters)), ", ")
}
