package openurl

import (
	"context"
	"os"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// The variables of the environment that Azure's command line and other tools read.
const (
	azureAccount = "AZURE_STORAGE_ACCOUNT"
	azureKey     = "AZURE_STORAGE_KEY"
	azureSAS     = "AZURE_STORAGE_SAS_TOKEN"
)

func openAzure(ctx context.Context, l Location, config objectstore.Config) (*objectstore.Manager, error) {
	account, key, sas := l.parameters["account"], os.Getenv(azureKey), os.Getenv(azureSAS)
	if account == "" {
		account = os.Getenv(azureAccount)
	}
	switch {
	case account == "" && (key != "" || l.parameters["endpoint"] == ""): // the endpoint names it too, but no key signs that
		return nil, l.invalid("parameter account is missing, and %s is not set", azureAccount)
	case key != "" && sas != "":
		return nil, l.invalid("%s and %s are both set", azureKey, azureSAS)
	}
	return azure.New(ctx, azure.Config{
		Account: account, Container: l.bucket, Endpoint: l.parameters["endpoint"], AccountKey: key, SAS: sas, MD5: l.flag("md5"), Store: config,
	})
}
