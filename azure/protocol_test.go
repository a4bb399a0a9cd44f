package azure_test

import (
	"testing"
	"time"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// W8, J11: what no server of HTTP should send is an error, and ends the operation, whichever it is.
func TestAnswersThatAreHardlyHTTP(t *testing.T) {
	drivertest.HardlyHTTP(t, operations, nil, func(tb testing.TB, url string, stall time.Duration) objectstore.Driver {
		c := config(url)
		c.StallTimeout = stall
		return open(tb, c)
	})
}
