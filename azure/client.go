package azure

import (
	"context"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/walhop/walhop/walstorage"
)

// once are the retries of every request, whatever the client that sends it was made with: none, for one layer retries,
// and it is not the SDK (J20). They go with the context of each call, since a ready client's cannot be changed.
var once = policy.RetryOptions{MaxRetries: -1}

// connect makes the SDK's client.
func (d *Driver) connect(ctx context.Context, config Config) error {
	if config.Client != nil {
		d.client = config.Client
	} else {
		options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: once, Transport: d.transport(config)}}
		place := strings.TrimRight(config.Endpoint, "/") + "/" + config.Container
		var err error
		switch {
		case config.AccountKey != "":
			var key *container.SharedKeyCredential
			if key, err = container.NewSharedKeyCredential(config.Account, config.AccountKey); err != nil {
				return invalid("AccountKey", "is not base64")
			}
			d.client, err = container.NewClientWithSharedKeyCredential(place, key, options)
		case config.SAS != "":
			d.client, err = container.NewClientWithNoCredential(place+"?"+config.SAS, options)
		default:
			source := config.Credential
			if source == nil {
				if source, err = azidentity.NewDefaultAzureCredential(nil); err != nil {
					return walstorage.NewError(walstorage.ErrInvalidArgument, d.bare(err))
				}
			}
			d.tokens = newTokens(ctx, source)
			d.client, err = container.NewClient(place, d.tokens, options)
		}
		if err != nil {
			return walstorage.NewError(walstorage.ErrInvalidArgument, d.bare(err))
		}
	}
	if u, err := url.Parse(d.client.URL()); err == nil {
		d.secrets = secretsOf(u.RawQuery)
	}
	return nil
}
