package stall_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/walhop/walhop/internal/stall"
)

// A driver reads an answer under the watch.
func Example() {
	ctx, watch := stall.Start(context.Background(), 10*time.Second)
	defer watch.End()
	answer := strings.NewReader("record batches") // the body of an answer to a request with ctx

	part := make([]byte, 14)
	err := watch.ReadFull(answer, part)
	fmt.Println(string(part), err, ctx.Err())
	// Output: record batches <nil> <nil>
}
