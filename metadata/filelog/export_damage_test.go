package filelog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// SpoilNewest makes the newest event of a broker unreadable on disk: by a flipped byte, or, if future is set, whole but
// of a version that nobody knows.
func SpoilNewest(t testing.TB, dir string, broker int32, future bool) {
	names, err := filepath.Glob(filepath.Join(dir, brokerDir(broker), "*"+suffix))
	require.NoError(t, err)
	require.NotEmpty(t, names, "files of broker %d", broker)
	path := names[len(names)-1]
	name, ok := parseFileName(broker, filepath.Base(path))
	require.True(t, ok)
	data, err := os.ReadFile(path)
	require.NoError(t, err)

	offset, last := int64(headerLength), frame{}
	for begin := offset; begin < int64(len(data)); begin += last.size() {
		last, ok = name.parseFrame(data[begin:], begin)
		require.True(t, ok, "frame at %d", begin)
		offset = begin
	}
	whole := data[offset : offset+last.size()]
	if future {
		whole[frameHeaderLength+1] = 0x7f // the version, see event.proto
		name.putFrame(whole, offset, last.stamp)
	} else {
		whole[len(whole)-3] ^= 0x10
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt(whole, offset)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}
