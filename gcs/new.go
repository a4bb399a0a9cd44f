package gcs

import (
	"context"

	"github.com/walhop/walhop/walstorage/objectstore"
)

// New opens the store. It is [NewDriver] under an objectstore.Manager, whose Close closes both. The errors are those of
// NewDriver, and walstorage.ErrInvalidArgument for a field of config.Store.
func New(ctx context.Context, config Config) (*objectstore.Manager, error) {
	driver, err := NewDriver(ctx, config)
	if err != nil {
		return nil, err
	}
	manager, err := objectstore.New(driver, config.Store)
	if err != nil {
		_ = driver.Close()
		return nil, err
	}
	return manager, nil
}
