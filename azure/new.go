package azure

import (
	"context"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// New opens the store. It is [NewDriver] under an objectstore.Manager, whose Close closes both. The errors are those of
// NewDriver, and walstorage.ErrInvalidArgument for a field of config.Store.
func New(ctx context.Context, config Config) (*objectstore.Manager, error) {
	driver, err := NewDriver(ctx, config)
	if err != nil {
		return nil, err
	}
	return httpstore.Manage(driver, config.Store)
}
