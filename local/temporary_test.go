//go:build unix

package local

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/corpus"
)

// N7: what is taken for a temporary, and so removed once it is old, is written exactly as a temporary is, whatever else lies
// in the directory. A sign before the process id, or upper case, once passed.
func TestOnlyTemporariesLookLikeTemporaries(t *testing.T) {
	form := regexp.MustCompile(`^\.put~[^~]+~[1-9][0-9]*~[0-9a-f]{24}$`)
	names := newTemporaryNames()
	seeds := []string{".put~host~4711~0123456789abcdef01234567", path.Base(names.hold("."))}
	for _, seed := range seeds {
		require.True(t, isTemporary(seed), seed)
		require.Regexp(t, form, seed)
	}
	for _, foreign := range []string{
		"", ".put~", ".put~~4711~0123456789abcdef01234567", ".put~host~+4711~0123456789abcdef01234567",
		".put~host~04711~0123456789abcdef01234567", ".put~host~0~0123456789abcdef01234567",
		".put~host~4711~0123456789ABCDEF01234567", ".put~host~4711~0123456789abcdef0123456",
		".put~host~4711~0123456789abcdef0123456789", ".put~host~4711~0123456789abcdef01234567~x",
		".put~host~99999999999999999999~0123456789abcdef01234567",
	} {
		assert.False(t, isTemporary(foreign), foreign)
	}
	random := rand.New(rand.NewPCG(5, 6))
	taken := 0
	for range 20_000 {
		name := string(corpus.Damage(random, []byte(seeds[random.IntN(len(seeds))])))
		if isTemporary(name) {
			taken++
			require.Regexp(t, form, name, fmt.Sprintf("%q", name))
		}
	}
	require.Positive(t, taken)
}
