package s3

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/corpus"
)

// W2, S5: any text as the checksum that a store gives. Only four bytes in base64 are one; what is told of a multipart upload,
// or of another algorithm, is none and is compared with nothing.
func TestAnyTextAsAChecksum(t *testing.T) {
	for _, none := range []string{"", "AAAAAA==-2", "AAAA", "AAAAAAA=", "AAAAAAAAAAA=", "AAAAA", "not base64!", "\xff"} {
		_, ok := decodeCRC32C(none)
		assert.False(t, ok, none)
	}
	random := rand.New(rand.NewPCG(5, 7))
	for range 10_000 {
		want := random.Uint32()
		text := encodeCRC32C(want)
		got, ok := decodeCRC32C(text)
		require.True(t, ok)
		require.Equal(t, want, got)
		if other, ok := decodeCRC32C(string(corpus.Damage(random, []byte(text)))); ok {
			require.Len(t, encodeCRC32C(other), len(text))
		}
	}
}
