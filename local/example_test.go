//go:build unix

package local_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/walhop/walhop/local"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// A leader uploads a segment into the shared directory, a follower fetches a range of it.
func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "walhop") // in life: the directory that all brokers have mounted
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(root) }()

	store, err := local.New(ctx, local.Config{
		Root:  root,
		Store: objectstore.Config{Cluster: "example"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()

	id, err := walstorage.NewSegmentID(1, 0, time.Now(), rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := store.UploadSegment(ctx, id, []byte("whole record batches")); err != nil {
		fmt.Println(err)
		return
	}
	part := make([]byte, 14)
	if err := store.FetchSegment(ctx, id, 6, part); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", part)
	// Output: record batches
}
