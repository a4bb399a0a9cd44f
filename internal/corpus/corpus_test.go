package corpus

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The files are what the seeds say, once they have been written; what the go command has found is left alone.
func TestSettle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "FuzzX")
	seeds := []Seed{{"plain", []any{[]byte{0, 'a', 0xff}, "b\n", int32(-5)}}, {"no-args", nil}}

	// Given nothing, a seed is missed.
	require.ErrorContains(t, settle(dir, seeds, false), "plain")

	// When they are written, they compare, and a second time too.
	require.NoError(t, settle(dir, seeds, true))
	require.NoError(t, settle(dir, seeds, false))
	b, err := os.ReadFile(filepath.Join(dir, "plain"))
	require.NoError(t, err)
	assert.Equal(t, "go test fuzz v1\n[]byte(\"\\x00a\\xff\")\nstring(\"b\\n\")\nint32(-5)\n", string(b))

	// A regression stays, whatever the seeds.
	regression := filepath.Join(dir, "0123456789abcdef")
	require.NoError(t, os.WriteFile(regression, b, 0o644))
	require.NoError(t, settle(dir, seeds, false))
	require.NoError(t, settle(dir, seeds, true))
	assert.FileExists(t, regression)

	// Another content, and a file that no seed says anything about, are noticed, and mended.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("go test fuzz v1\n"), 0o644))
	require.ErrorContains(t, settle(dir, seeds, false), "plain is not what its seed says")
	require.NoError(t, settle(dir, seeds[1:], true))
	assert.NoFileExists(t, filepath.Join(dir, "plain"))
	require.ErrorContains(t, settle(dir, nil, false), "no-args")
}

func TestSettleRefusesBadSeeds(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "Big", "a b", "../up", "0123456789abcdef", "twice"} {
		assert.Error(t, settle(dir, []Seed{{"twice", nil}, {name, nil}}, true), name)
	}
	assert.ErrorContains(t, settle(dir, []Seed{{"a", []any{3}}}, true), "int")
}

func TestCheckNamesTheVariable(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(Variable, "1")
	Check(t, "FuzzX", Seed{"a", []any{true}})
	t.Setenv(Variable, "")
	Check(t, "FuzzX", Seed{"a", []any{true}})
	failed := &recorder{TB: t}
	Check(failed, "FuzzX")
	assert.Contains(t, failed.said, Variable)
}

type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(_ string, args ...any) {
	r.said += args[0].(error).Error() + args[1].(string)
}

// Damage is repeatable, never touches what it is given, and each kind of it happens.
func TestDamage(t *testing.T) {
	given := []byte("the bytes that are damaged")
	longer, shorter, same := 0, 0, 0
	for seed := range uint64(500) {
		once := Damage(rand.New(rand.NewPCG(seed, 1)), given)
		require.Equal(t, once, Damage(rand.New(rand.NewPCG(seed, 1)), given))
		require.Equal(t, "the bytes that are damaged", string(given))
		switch {
		case len(once) > len(given):
			longer++
		case len(once) < len(given):
			shorter++
		default:
			same++
		}
	}
	assert.Positive(t, longer)
	assert.Positive(t, shorter)
	assert.Positive(t, same)
	assert.Len(t, Damage(rand.New(rand.NewPCG(1, 1)), nil), 1)
}

var sink []byte

func TestAllocated(t *testing.T) {
	assert.Zero(t, Allocated(func() {}))
	assert.GreaterOrEqual(t, Allocated(func() { sink = make([]byte, 1<<20) }), uint64(1<<20))
}
