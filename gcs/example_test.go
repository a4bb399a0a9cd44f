package gcs_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/walhop/walhop/gcs"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// A leader uploads a segment, a follower fetches a range of it.
func Example() {
	ctx := context.Background()
	server := httptest.NewServer(fake.New(fake.Config{Buckets: []string{"segments"}})) // in life: the service
	defer server.Close()

	store, err := gcs.New(ctx, gcs.Config{
		Bucket:   "segments",
		Endpoint: server.URL, // left out in Google's cloud; over plain http no credentials are needed
		Store:    objectstore.Config{Cluster: "example", AttemptTimeout: 10 * time.Second},
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
