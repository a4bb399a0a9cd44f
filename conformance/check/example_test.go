package check_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/walhop/walhop/conformance/check"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// Before a cluster is switched to a store, an operator checks it: two managers as two brokers would have them.
func Example() {
	bucket := memory.NewStore() // your bucket, container or directory
	var managers []walstorage.WalStorageManager
	for range 2 {
		manager, err := objectstore.New(memory.New(memory.Config{Store: bucket}), objectstore.Config{Cluster: "prod"})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer manager.Close()
		managers = append(managers, manager)
	}
	err := check.Check(context.Background(), managers[0], check.Options{Other: managers[1]})
	fmt.Println("violations:", err)
	fmt.Println("objects left:", len(bucket.Keys()))
	// Output:
	// violations: <nil>
	// objects left: 0
}

// overwriting is a store that replaces what is there: some servers ignore the condition of a create.
type overwriting struct{ walstorage.WalStorageManager }

func (o overwriting) UploadSegment(ctx context.Context, id walstorage.SegmentID, data []byte) error {
	if err := o.DeleteSegments(ctx, id); err != nil {
		return err
	}
	return o.WalStorageManager.UploadSegment(ctx, id, data)
}

// Each violation has the id of its case, the rule, and what it means.
func ExampleViolation() {
	manager, _, err := memory.NewManager(objectstore.Config{Cluster: "prod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	err = check.Check(context.Background(), overwriting{manager}, check.Options{})
	var first *check.Violation
	if errors.As(err, &first) {
		fmt.Printf("%s, rule %s: %s\n", first.Case, first.Rule, first.Title)
	}
	// Output:
	// B13, rule W2: the same upload again succeeds and changes nothing; other bytes of the same size are refused
}
