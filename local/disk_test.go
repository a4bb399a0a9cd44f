//go:build unix

package local

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage/objectstore"
)

// put stores text as the key.
func put(ctx context.Context, d *Driver, key, text string) error {
	body := objectstore.NewBody([]byte(text))
	defer body.Revoke()
	return d.Put(ctx, key, body, 0)
}

// get returns what is stored as the key, size bytes of it.
func get(ctx context.Context, d *Driver, key string, size int) (string, error) {
	dst := make([]byte, size)
	if err := d.Get(ctx, key, 0, dst); err != nil {
		return "", err
	}
	return string(dst), nil
}

// requireStored checks that the key holds text, the whole of it and no more.
func requireStored(t *testing.T, d *Driver, key, text string) {
	t.Helper()
	object, err := d.Stat(t.Context(), key)
	require.NoError(t, err)
	require.EqualValues(t, len(text), object.Size)
	if text == "" {
		return
	}
	got, err := get(t.Context(), d, key, len(text))
	require.NoError(t, err)
	require.Equal(t, text, got)
}

// listed returns the keys of all pages, in their order.
func listed(t *testing.T, d *Driver, prefix string) []string {
	t.Helper()
	keys := []string{}
	for token := ""; ; {
		page, next, err := d.List(t.Context(), prefix, token)
		require.NoError(t, err)
		for _, object := range page {
			keys = append(keys, object.Key)
		}
		if next == "" {
			return keys
		}
		require.NotEqual(t, token, next)
		token = next
	}
}

// files returns the paths of all files below root, with the system's own eyes, temporaries included.
func files(t *testing.T, root string) []string {
	t.Helper()
	found := []string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		found = append(found, name)
		return err
	}))
	return found
}

// temporaries returns those of files that are of uploads.
func temporaries(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	for _, name := range files(t, root) {
		if isTemporary(filepath.Base(name)) {
			found = append(found, name)
		}
	}
	return found
}

// makeOld sets the times of a path back, as if it had not been touched for so long.
func makeOld(t *testing.T, path string, age time.Duration) {
	t.Helper()
	then := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(path, then, then))
}

// content returns bytes that tell any cut or mix-up: each block of eight holds the writer and the place.
func content(writer byte, size int) string {
	var b bytes.Buffer
	for place := 0; b.Len() < size; place++ {
		b.Write([]byte{writer, byte(place >> 16), byte(place >> 8), byte(place), writer, ^writer, 0, '\n'})
	}
	return b.String()[:size]
}

// wholeContent tells whether text is content(writer, size) for any writer.
func wholeContent(text string, size int) bool {
	return len(text) == size && (size == 0 || strings.Compare(text, content(text[0], size)) == 0)
}
