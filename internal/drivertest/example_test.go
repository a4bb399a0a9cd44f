package drivertest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// The calls that every driver has, by what a store calls their requests, here for one in memory.
func ExampleOperations() {
	ctx := context.Background()
	driver := memory.New(memory.Config{})
	_ = driver.Put(ctx, "there", objectstore.NewBody([]byte("data")), drivertest.Checksum([]byte("data")))
	operations := drivertest.Operations("put", "get", "stat", "list", "delete")
	for _, op := range slices.Sorted(maps.Keys(operations)) {
		fmt.Println(op, operations[op](ctx, driver))
	}
	// Output:
	// delete <nil>
	// get <nil>
	// list <nil>
	// put <nil>
	// stat <nil>
}
