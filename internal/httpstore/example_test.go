package httpstore_test

import (
	"fmt"

	"github.com/walhop/walhop/internal/httpstore"
)

// The head of an answer to a request for the bytes 100 to 199.
func ExampleCheckRange() {
	fmt.Println(httpstore.CheckRange(206, "bytes 100-199/300", 100, 100, 199))
	fmt.Println(httpstore.CheckRange(206, "bytes 100-149/150", 50, 100, 199))
	// Output:
	// <nil>
	// range is beyond the end of the segment: bytes 100 to 199 of an object of 150
}
