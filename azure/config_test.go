package azure_test

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// wrong are the changes to a configuration that are refused, by the field that has to be named: those of every driver, and
// ours.
func wrong() map[string][]func(*azure.Config) {
	type config = azure.Config
	ready, _ := container.NewClientWithNoCredential("https://account.blob.core.windows.net/segments?sig="+configtest.Secret, nil)
	// besides makes a change to a configuration that has a ready client.
	besides := func(change func(*config)) func(*config) {
		return func(c *config) {
			*c = config{Client: ready, Store: c.Store}
			change(c)
		}
	}
	return ours.Wrong(besides, map[string][]func(*config){
		"Account": {
			func(c *config) { c.Account = "" },
			func(c *config) { c.Account, c.Endpoint, c.AccountKey = "", "http://localhost:1", accountKey },
			func(c *config) { c.Account = "ab" },
			func(c *config) { c.Account = "Account" },
			func(c *config) { c.Account = "evil.example/" },
			func(c *config) { c.Account = strings.Repeat("a", 25) },
			besides(func(c *config) { c.Account = account }),
		},
		"Container": {
			func(c *config) { c.Container = "" },
			func(c *config) { c.Container = "ab" },
			func(c *config) { c.Container = "a/b" },
			func(c *config) { c.Container = "Segments" },
			func(c *config) { c.Container = "-segments" },
			func(c *config) { c.Container = "segments-" },
			func(c *config) { c.Container = "seg--ments" },
			func(c *config) { c.Container = "$root" },
			func(c *config) { c.Container = "seg?sig=x" },
			func(c *config) { c.Container = strings.Repeat("a", 64) },
			besides(func(c *config) { c.Container = bucket }),
		},
		"Endpoint": {
			func(c *config) { c.Endpoint = "http://localhost" }, // no token goes there
			func(c *config) { c.Endpoint = "HTTP://localhost" },
			func(c *config) { c.Endpoint, c.Credential = "http://localhost", &credential{} },
		},
		"AccountKey": {
			func(c *config) { c.AccountKey = configtest.Secret }, // no base64, for its hyphens
			func(c *config) { c.AccountKey = accountKey[1:] },
			besides(func(c *config) { c.AccountKey = accountKey }),
		},
		"SAS": {
			func(c *config) { c.SAS = configtest.Secret },
			func(c *config) { c.SAS = "?" },
			func(c *config) { c.SAS = "sig=%zz" + configtest.Secret },
			func(c *config) { c.SAS = "sv=2025&sig=" },
			func(c *config) { c.SAS = sas + "\n" },
			func(c *config) { c.SAS = sas + "#" + configtest.Secret },
			func(c *config) { c.SAS = sas + "&comp=list" },
			func(c *config) { c.SAS, c.AccountKey = "sig="+configtest.Secret, accountKey },
			besides(func(c *config) { c.SAS = sas }),
		},
		"Credential": {
			func(c *config) { c.AccountKey, c.Credential = accountKey, &credential{} },
			func(c *config) { c.SAS, c.Credential = sas, &credential{} },
			besides(func(c *config) { c.Credential = &credential{} }),
		},
	})
}

// A2: each wrong value of each field is refused with the name of the field and without what may be secret (W11), and no
// field is forgotten.
func TestConfig(t *testing.T) {
	configtest.Run(t, configtest.Table[azure.Config]{
		Valid: azure.Config{Account: account, Container: bucket, Store: objectstore.Config{Cluster: "c"}},
		Open:  ours.Try,
		Wrong: wrong(),
		Any: map[string]string{
			"MD5":    "either checksum will do",
			"Client": "a ready client makes other fields wrong",
		},
	})
}

// invalid are the wrong values for the suite.
func invalid(t *testing.T) map[string]func() error {
	return configtest.First(azure.Config{Account: account, Container: bucket, Store: objectstore.Config{Cluster: "c"}}, wrong(), func(c azure.Config) error { return ours.Try(t, c) })
}
