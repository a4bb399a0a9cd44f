package openurl_test

import (
	"context"
	"fmt"
	"os"

	"github.com/walhop/walhop/internal/openurl"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// A program takes the URL from its command line.
func Example() {
	dir, err := os.MkdirTemp("", "walhop-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	store, err := openurl.Store(context.Background(), "file://"+dir, objectstore.Config{Cluster: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Close())

	_, err = openurl.Store(context.Background(), "s3://key:secret@bucket/prefix", objectstore.Config{Cluster: "example"})
	fmt.Println(err)
	// Output:
	// <nil>
	// invalid argument: store URL: s3: there is an @, so a user or a password: credentials are no part of a URL, they come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or the rest of AWS's chain
}
