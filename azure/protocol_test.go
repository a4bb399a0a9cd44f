package azure_test

import (
	"testing"

	"github.com/walhop/walhop/internal/drivertest"
)

// W8, J11: what no server of HTTP should send is an error, and ends the operation, whichever it is.
func TestAnswersThatAreHardlyHTTP(t *testing.T) {
	drivertest.HardlyHTTP(t, ours, config, operations, nil)
}
