package s3_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// A leader uploads a segment, a follower fetches a range of it.
func Example() {
	ctx := context.Background()
	server := httptest.NewServer(fake.New(fake.Config{Buckets: []string{"segments"}})) // in life: Amazon S3
	defer server.Close()

	store, err := s3.New(ctx, s3.Config{
		Bucket: "segments",
		// In AWS these four are left out: the environment tells region and credentials.
		Region:      "eu-central-1",
		Endpoint:    server.URL,
		PathStyle:   true,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
		Store:       objectstore.Config{Cluster: "example", AttemptTimeout: 10 * time.Second},
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
