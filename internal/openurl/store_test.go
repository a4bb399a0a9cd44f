package openurl_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fakeazure "github.com/walhop/walhop/internal/fakes/azure"
	fakegcs "github.com/walhop/walhop/internal/fakes/gcs"
	fakes3 "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/internal/openurl"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// config is what a program hands over beside the URL.
func config() objectstore.Config {
	return objectstore.Config{Cluster: "c", AttemptTimeout: 10 * time.Second}
}

// roundTrip stores, reads, lists and deletes a segment, and returns its key below prefix and while it was stored what
// stored tells.
func roundTrip[T any](t *testing.T, url, prefix string, stored func() T) (key string, seen T) {
	ctx := context.Background()
	store, err := openurl.Store(ctx, url, config())
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	id, err := walstorage.NewSegmentID(1, 0, time.Now(), rand.Reader)
	require.NoError(t, err)
	require.NoError(t, store.UploadSegment(ctx, id, []byte("whole record batches")))
	part := make([]byte, 6)
	require.NoError(t, store.FetchSegment(ctx, id, 6, part))
	require.Equal(t, "record", string(part))
	for info, err := range store.ListSegments(ctx, walstorage.ListOptions{}) {
		require.NoError(t, err)
		require.Equal(t, id, info.ID)
	}
	seen = stored()
	require.NoError(t, store.DeleteSegments(ctx, id))
	_, err = store.StatSegment(ctx, id)
	require.ErrorIs(t, err, walstorage.ErrSegmentNotFound)
	keys, err := walstorage.NewKeys(prefix, "c")
	require.NoError(t, err)
	return keys.Key(id), seen
}

func TestFile(t *testing.T) {
	root := t.TempDir()
	key, found := roundTrip(t, "file://"+root, "", func() (names []string) {
		require.NoError(t, filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
			if strings.HasSuffix(name, ".wal") {
				names = append(names, name)
			}
			return err
		}))
		return names
	})
	require.Equal(t, []string{filepath.Join(root, key)}, found)

	_, err := openurl.Store(t.Context(), "file://"+root+"/missing", config())
	require.ErrorIs(t, err, walstorage.ErrBucketNotFound, "a file system that is not mounted is not filled up")
}

// The bucket, the prefix and the parameters reach the store, and the credentials of the environment.
func TestS3(t *testing.T) {
	isolateAWS(t)
	fake := fakes3.New(fakes3.Config{Buckets: []string{"segments"}, AccessKeys: []string{"from-the-environment"}})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	t.Cleanup(fake.Close)

	url := "s3://segments/a/b?endpoint=" + server.URL + "&region=eu-west-7&path_style=true&kms_key_id=alias/k"
	key, keys := roundTrip(t, url, "a/b", func() []string { return fake.Keys("segments") })
	require.Equal(t, []string{key}, keys)
	put := fake.Requests()[0]
	require.Equal(t, "PutObject", put.Op)
	require.Contains(t, put.Header.Get("Authorization"), "/eu-west-7/s3/")
	require.Equal(t, strings.TrimPrefix(server.URL, "http://"), put.Header.Get("Host"), "path style")
	require.Equal(t, "alias/k", put.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
	require.NotEmpty(t, put.Header.Get("X-Amz-Checksum-Crc32c"))

	before := len(fake.Requests())
	roundTrip(t, "s3://segments?no_checksum=true&path_style=true&endpoint="+server.URL, "", func() int { return 0 })
	require.Empty(t, fake.Requests()[before].Header.Get("X-Amz-Checksum-Crc32c"))
}

// A missing region is told before any request.
func TestS3WithoutRegion(t *testing.T) {
	isolateAWS(t)
	_, err := openurl.Store(t.Context(), "s3://segments", config())
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	require.ErrorContains(t, err, "Region")
}

func isolateAWS(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Setenv(name, "")
	}
}

// The same for Google's: over http there are no credentials; over https those of the environment are looked for, unless
// the URL says that there are none.
func TestGCS(t *testing.T) {
	fake := fakegcs.New(fakegcs.Config{Buckets: []string{"segments"}})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	t.Cleanup(fake.Close)
	key, keys := roundTrip(t, "gs://segments/a/b?endpoint="+server.URL, "a/b", func() []string { return fake.Keys("segments") })
	require.Equal(t, []string{key}, keys)
	put := fake.Requests()[0]
	require.Equal(t, fakegcs.Insert, put.Op)
	require.Empty(t, put.Header.Get("Authorization"))

	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none"))
	_, err := openurl.Store(t.Context(), "gs://segments?endpoint=https://127.0.0.1:1", config())
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	require.ErrorContains(t, err, "Credentials")
	store, err := openurl.Store(t.Context(), "gs://segments?anonymous=true", config())
	require.NoError(t, err)
	require.NoError(t, store.Close())
}

// The same for Azure, with a shared key and with a SAS; the account comes from the URL or from the environment.
func TestAzure(t *testing.T) {
	isolateAzure(t)
	key := base64.StdEncoding.EncodeToString([]byte("planted key"))
	fake := fakeazure.New(fakeazure.Config{Containers: []string{"segments"}, Keys: []string{key}, Signatures: []string{"planted-sig"}})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	t.Cleanup(fake.Close)
	url := "azblob://segments/a/b?account=account&endpoint=" + server.URL + "/account"
	without := strings.Replace(url, "account=account&", "", 1)

	t.Run("key", func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_KEY", key)
		segment, keys := roundTrip(t, url, "a/b", func() []string { return fake.Keys("segments") })
		require.Equal(t, []string{segment}, keys)
		put := fake.Requests()[0]
		require.Equal(t, "PutBlob", put.Op)
		require.True(t, strings.HasPrefix(put.Header.Get("Authorization"), "SharedKey account:"))
		require.NotEmpty(t, put.Header.Get("X-Ms-Content-Crc64"))
	})
	t.Run("SAS, account of the environment, MD5", func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2024-11-04&sig=planted-sig")
		t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
		before := len(fake.Requests())
		roundTrip(t, without+"&md5=true", "a/b", func() int { return 0 })
		require.NotEmpty(t, fake.Requests()[before].Header.Get("Content-Md5"))
	})
	for name, wrong := range map[string]struct {
		env  map[string]string
		url  string
		says string
	}{
		"no account":   {map[string]string{"AZURE_STORAGE_KEY": key}, without, "azblob: parameter account is missing, and AZURE_STORAGE_ACCOUNT is not set"},
		"key and SAS":  {map[string]string{"AZURE_STORAGE_KEY": key, "AZURE_STORAGE_SAS_TOKEN": "sig=planted-sig"}, url, "AZURE_STORAGE_KEY and AZURE_STORAGE_SAS_TOKEN are both set"},
		"no key":       {map[string]string{"AZURE_STORAGE_KEY": "planted, no base64"}, url, "AccountKey: is not base64"},
		"no SAS":       {map[string]string{"AZURE_STORAGE_SAS_TOKEN": "planted"}, url, "SAS: "},
		"http, tokens": {nil, url, "begins with http://"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range wrong.env {
				t.Setenv(name, value)
			}
			_, err := openurl.Store(t.Context(), wrong.url, config())
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			require.ErrorContains(t, err, wrong.says)
			require.NotContains(t, err.Error(), "planted")
			require.NotContains(t, err.Error(), key)
		})
	}
}

func isolateAzure(t *testing.T) {
	for _, name := range []string{"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"} {
		t.Setenv(name, "")
	}
}

// The URL's path stands before the prefix of the configuration, and the rest of it is the program's.
func TestPrefixes(t *testing.T) {
	isolateAWS(t)
	fake := fakes3.New(fakes3.Config{Buckets: []string{"segments"}})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	t.Cleanup(fake.Close)
	for path, prefix := range map[string]string{"": "own/", "/": "own/", "/shared": "shared/own/", "/shared/": "shared/own/"} {
		location, err := openurl.Parse("s3://segments" + path + "?path_style=true&endpoint=" + server.URL)
		require.NoError(t, err)
		cfg := config()
		cfg.Prefix = "own"
		store, err := location.Open(t.Context(), cfg)
		require.NoError(t, err)
		id, err := walstorage.NewSegmentID(1, 0, time.Now(), rand.Reader)
		require.NoError(t, err)
		require.NoError(t, store.UploadSegment(t.Context(), id, nil))
		require.True(t, strings.HasPrefix(fake.Keys("segments")[0], prefix+"c/1/"), fake.Keys("segments"))
		require.NoError(t, store.DeleteSegments(t.Context(), id))
		require.NoError(t, store.Close())
	}
	_, err := openurl.Store(t.Context(), "s3://segments?region=eu-west-7", objectstore.Config{})
	require.ErrorContains(t, err, "Cluster")
	_, err = openurl.Location{}.Open(t.Context(), config())
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
}
