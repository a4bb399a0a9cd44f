package configtest_test

import (
	"errors"
	"testing"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/walstorage"
)

type boxConfig struct {
	Size int
	Seed uint64
}

func newBox(c boxConfig) error {
	if c.Size < 0 {
		return walstorage.NewError(walstorage.ErrInvalidArgument, errors.New("box: Size is negative"))
	}
	return nil
}

// The test of a configuration is its table.
func TestConfig(t *testing.T) {
	configtest.Run(t, configtest.Table[boxConfig]{
		Open:  func(_ testing.TB, c boxConfig) error { return newBox(c) },
		Wrong: map[string][]func(*boxConfig){"Size": {func(c *boxConfig) { c.Size = -1 }}},
		Any:   map[string]string{"Seed": "every number is a seed"},
	})
}
