package configtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

type example struct {
	Name, Color string
	Size        int
	hidden      int
}

// A table that has forgotten a field, or has one too many, is told.
func TestIncomplete(t *testing.T) {
	change := []func(*example){func(c *example) { c.hidden++ }}
	table := Table[example]{
		Wrong: map[string][]func(*example){"Name": change, "Size": {}, "Shape.Corners": change},
		Any:   map[string]string{"Name": "it is a name", "Color": "", "Taste": "there is no arguing about it"},
	}
	assert.ElementsMatch(t, []string{
		"Name has wrong values, and is said to have none",
		"Color is said to have no wrong value, without a reason",
		"Size is not in the table",
		"Shape is in the table, and no field",
		"Taste is in the table, and no field",
	}, table.incomplete())

	table.Wrong = map[string][]func(*example){"Name": change, "Size": change}
	table.Any = map[string]string{"Color": "every color is fine"}
	assert.Empty(t, table.incomplete())
}
