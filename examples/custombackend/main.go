package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "custombackend:", err)
		os.Exit(1)
	}
}

// run makes a store in a temporary file and does with it what walhop does: store, list, fetch, delete.
func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "custombackend-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	driver, err := Open(filepath.Join(dir, "segments.db"), "segments")
	if err != nil {
		return err
	}
	// The manager is what leader.Config.Storage, follower.Config.Storage and retention.Config.Storage take.
	storage, err := objectstore.New(driver, objectstore.Config{Cluster: "example"})
	if err != nil {
		return errors.Join(err, driver.Close())
	}
	defer func() { err = errors.Join(err, storage.Close()) }() // closes the driver too

	id, err := walstorage.NewSegmentID(1, 1, time.Now(), rand.Reader)
	if err != nil {
		return err
	}
	data := []byte("the slices of many partitions")
	if err := storage.UploadSegment(ctx, id, data); err != nil {
		return err
	}
	fmt.Fprintf(out, "stored %d bytes\n", len(data))
	if err := storage.UploadSegment(ctx, id, []byte("other bytes")); !errors.Is(err, walstorage.ErrSegmentExists) {
		return fmt.Errorf("a second create with other bytes gave %w, want %w", err, walstorage.ErrSegmentExists)
	}
	fmt.Fprintln(out, "other bytes under the same id: refused")

	for info, err := range storage.ListSegments(ctx, walstorage.ListOptions{}) {
		if err != nil {
			return err
		}
		part := make([]byte, 10)
		if err := storage.FetchSegment(ctx, info.ID, 4, part); err != nil {
			return err
		}
		fmt.Fprintf(out, "listed a segment of %d bytes, fetched %q\n", info.Size, part)
	}
	if err := storage.DeleteSegments(ctx, id); err != nil {
		return err
	}
	_, err = storage.StatSegment(ctx, id)
	if !errors.Is(err, walstorage.ErrSegmentNotFound) {
		return fmt.Errorf("a deleted segment gave %w, want %w", err, walstorage.ErrSegmentNotFound)
	}
	fmt.Fprintln(out, "deleted")
	return nil
}
