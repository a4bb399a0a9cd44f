package walstorage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/corpus"
)

// keySeeds are object keys in the place of the cluster "prod" under "wal", and whether each names a segment of it. Each
// of the others has one thing wrong.
func keySeeds() []struct {
	name, key string
	ours      bool
} {
	const own = "wal/prod/12/2023111422/13/345-018bcfe5-6800-7a5a-9a5a-5a5a5a5a5a5a.wal"
	with := func(old, new string) string { return strings.Replace(own, old, new, 1) }
	return []struct {
		name, key string
		ours      bool
	}{
		{"own", own, true},
		{"own-of-1970", "wal/prod/1/1970010100/00/0-00000000-0000-7000-8000-000000000000.wal", true},
		{"own-largest", "wal/prod/2147483647/10889080205/31/9223372036854775807-ffffffff-ffff-7fff-bfff-ffffffffffff.wal", true},
		{"empty", "", false},
		{"prefix-alone", "wal/prod/", false},
		{"foreign", "wal/prod/README", false},
		{"other-cluster", with("prod", "prod2"), false},
		{"other-prefix", with("wal/", "wal2/"), false},
		{"broker-negative", with("/12/", "/-12/"), false},
		{"broker-zero-in-front", with("/12/", "/012/"), false},
		{"broker-beyond-32-bits", with("/12/", "/2147483648/"), false},
		{"broker-no-number", with("/12/", "/x/"), false},
		{"hour-other", with("2023111422", "2023111423"), false},
		{"minute-other", with("/13/", "/14/"), false},
		{"minute-short", with("/13/", "/1/"), false},
		{"epoch-negative", with("345-", "-345-"), false},
		{"epoch-plus", with("345-", "+345-"), false},
		{"epoch-beyond-64-bits", with("345-", "9223372036854775808-"), false},
		{"uuid-upper-case", with("5a5a5a5a5a5a", "5A5a5a5a5a5a"), false},
		{"uuid-version-4", with("-7a5a-", "-4a5a-"), false},
		{"uuid-variant", with("-9a5a-", "-1a5a-"), false},
		{"uuid-braces", with("018bcfe5-6800-7a5a-9a5a-5a5a5a5a5a5a", "{018bcfe5-6800-7a5a-9a5a-5a5a5a5a5a5a}"), false},
		{"suffix-other", with(".wal", ".tmp"), false},
		{"suffix-twice", own + ".wal", false},
		{"slash-twice", with("/13/", "//13/"), false},
		{"slash-in-front", "/" + own, false},
		{"folder-more", with("/13/", "/13/13/"), false},
		{"no-utf8", own[:20] + "\xff" + own[20:], false},
	}
}

// W10: what is no segment's key is passed over. The seeds of FuzzKeysParse, each with its verdict, and what judging
// them allocates (S5).
func TestKeysCorpus(t *testing.T) {
	keys := newKeys(t, "wal", "prod")
	var files []corpus.Seed
	for _, seed := range keySeeds() {
		_, ours := keys.Parse(seed.key)
		assert.Equal(t, seed.ours, ours, seed.name)
		long := seed.key + strings.Repeat("/x-", 1<<16)
		assert.LessOrEqual(t, corpus.Allocated(func() { keys.Parse(long) }), uint64(4096), "%s: more than a few copies of a key", seed.name)
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.key, int32(12), int64(345), uint64(1), uint64(2)}})
	}
	corpus.Check(t, "FuzzKeysParse", files...)
}
