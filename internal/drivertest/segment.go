package drivertest

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Cluster is the cluster of the configurations.
const Cluster = "c"

// Checksum is the CRC-32C of the bytes.
func Checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// MD5 is the MD5 of the text, in base64 as it goes over the wire.
func MD5(text string) string {
	sum := md5.Sum([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Segment is a new segment's id.
func Segment(tb testing.TB) walstorage.SegmentID {
	id, err := walstorage.NewSegmentID(1, 0, time.Now(), rand.Reader)
	require.NoError(tb, err)
	return id
}

// Key is the segment's key in the store.
func Key(tb testing.TB, id walstorage.SegmentID) string {
	return KeyIn(tb, objectstore.Config{Cluster: Cluster}, id)
}

// KeyIn is the segment's key in a place of the store.
func KeyIn(tb testing.TB, place objectstore.Config, id walstorage.SegmentID) string {
	keys, err := walstorage.NewKeys(place.Prefix, place.Cluster)
	require.NoError(tb, err)
	return keys.Key(id)
}
