package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// The store keeps the segment and loses the answer. The manager repeats the create, is told that the segment exists,
// and finds its own bytes there.
func Example() {
	manager, driver, err := memory.NewManager(objectstore.Config{Cluster: "test"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	lost := walstorage.NewError(walstorage.ErrUnavailable, errors.New("connection reset"))
	driver.Fault(memory.Sequence("Put", memory.Fault{ErrAfter: lost}))

	id, err := walstorage.NewSegmentID(1, 1, time.UnixMilli(1_700_000_000_000), strings.NewReader("not random"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(manager.UploadSegment(context.Background(), id, []byte("slices")))
	fmt.Println(driver.Calls("Put"), "creates,", driver.Calls("Stat"), "stat")
	// Output:
	// <nil>
	// 2 creates, 1 stat
}
