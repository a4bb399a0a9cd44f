package walstorage_test

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

// A leader stores a segment under an id that tells its broker and its time, and a follower reads a part of it.
func Example() {
	// Any backend will do: local.New, or, for tests, this one.
	store, _, err := memory.NewManager(objectstore.Config{Cluster: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ctx := context.Background()

	created := time.Date(2026, 7, 4, 12, 30, 0, 0, time.UTC)
	random := strings.NewReader("not random") // crypto/rand.Reader outside of examples
	id, err := walstorage.NewSegmentID(1, 42, created, random)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := store.UploadSegment(ctx, id, []byte("combined slices")); err != nil {
		fmt.Println(err)
		return
	}
	part := make([]byte, 6)
	if err := store.FetchSegment(ctx, id, 9, part); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, created %s\n", part, id.Created().Format(time.TimeOnly))

	err = store.FetchSegment(ctx, id, 10, part)
	fmt.Println(errors.Is(err, walstorage.ErrInvalidRange))
	// Output:
	// slices, created 12:30:00
	// true
}

// The object key of a segment tells its hour and minute, so that old segments are found without listing the rest.
func ExampleKeys() {
	keys, err := walstorage.NewKeys("wal", "prod")
	if err != nil {
		fmt.Println(err)
		return
	}
	created := time.Date(2026, 7, 4, 12, 30, 0, 0, time.UTC)
	id, err := walstorage.NewSegmentID(1, 42, created, strings.NewReader("not random"))
	if err != nil {
		fmt.Println(err)
		return
	}
	key := keys.Key(id)
	fmt.Println(key)
	parsed, ok := keys.Parse(key)
	fmt.Println(parsed == id, ok)
	_, ok = keys.Parse("wal/prod/README.md")
	fmt.Println(ok)
	// Output:
	// wal/prod/1/2026070412/30/42-019f2d1b-6d40-7e6f-b420-72616e646f6d.wal
	// true true
	// false
}

// A store that is no object store implements the interface itself and gets its hooks from Observe.
func ExampleObserve() {
	hooks := walstorage.Hooks{
		OperationDone: func(_ context.Context, op walstorage.Operation, result walstorage.OperationResult) {
			fmt.Println(op.Op, op.Bytes, "bytes:", walstorage.KindOf(result.Err))
		},
	}
	full := &fake{run: func(context.Context) error { return walstorage.NewError(walstorage.ErrNoSpace, nil) }}
	store := walstorage.Observe(full, hooks)
	_ = store.UploadSegment(context.Background(), walstorage.SegmentID{}, make([]byte, 100))
	// Output: upload 100 bytes: no space left in the store
}
