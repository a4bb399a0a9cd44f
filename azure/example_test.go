package azure_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/walhop/walhop/azure"
	fake "github.com/walhop/walhop/internal/fakes/azure"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// A leader uploads a segment, a follower fetches a range of it.
func Example() {
	ctx := context.Background()
	server := httptest.NewServer(fake.New(fake.Config{Containers: []string{"segments"}})) // in life: Azure
	defer server.Close()

	store, err := azure.New(ctx, azure.Config{
		Account:   "account",
		Container: "segments",
		// In Azure these two are left out: the environment tells credentials.
		Endpoint:   server.URL,
		AccountKey: "c2VjcmV0",
		Store:      objectstore.Config{Cluster: "example", AttemptTimeout: 10 * time.Second},
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
