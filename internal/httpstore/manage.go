package httpstore

import "github.com/walhop/walhop/walstorage/objectstore"

// Manage puts an objectstore.Manager on a driver. Where the configuration of that is wrong, the driver is closed again.
func Manage(driver objectstore.Driver, config objectstore.Config) (*objectstore.Manager, error) {
	manager, err := objectstore.New(driver, config)
	if err != nil {
		_ = driver.Close()
		return nil, err
	}
	return manager, nil
}
