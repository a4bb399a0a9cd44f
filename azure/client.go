package azure

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

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
		options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: once}}
		if config.HTTPClient != nil {
			options.Transport = config.HTTPClient
		} else {
			d.own = transport(config)
			options.Transport = &http.Client{
				Transport: d.own,
				// A signature is good for one place, and an upload is one request.
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
		}
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

// transport is shaped for many small requests at once: HTTP/1.1, so that the loss of one connection is the loss of one
// request, and so many idle connections that a burst finds them open (the SDK by itself keeps ten).
func transport(config Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: config.DialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		TLSHandshakeTimeout:   config.DialTimeout,
		ResponseHeaderTimeout: config.ResponseHeaderTimeout,
		MaxIdleConnsPerHost:   2 * config.Parallelism,
		IdleConnTimeout:       90 * time.Second,
		Protocols:             protocols,
		DisableCompression:    true, // bytes come back as they were put
	}
}
