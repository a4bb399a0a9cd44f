package objectstore_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// listing is a scripted list: the pages that a store sends, one for each request. As text it is a key a line, and a line
// ">token" at the end of each page but the last.
type listing struct {
	pages  [][]objectstore.Object
	tokens []string // of the page after; the last is ""
}

func parseListing(text string) (l listing) {
	var page []objectstore.Object
	for line := range strings.SplitSeq(text, "\n") {
		if token, isToken := strings.CutPrefix(line, ">"); isToken {
			l.pages, l.tokens = append(l.pages, page), append(l.tokens, token)
			page = nil
			continue
		}
		page = append(page, objectstore.Object{Key: line, Size: int64(len(line))})
	}
	l.pages, l.tokens = append(l.pages, page), append(l.tokens, "")
	return l
}

// list runs ListSegments over it and returns what came, what should have, and how many pages were asked for.
func (l listing) list(t testing.TB) (got, want []walstorage.SegmentID, asked int, err error) {
	driver := &stub{list: func(_ context.Context, _, token string) ([]objectstore.Object, string, error) {
		if asked > 0 && token != l.tokens[asked-1] {
			t.Fatalf("request %d has the token %q, the page before gave %q", asked, token, l.tokens[asked-1])
		}
		asked++
		return l.pages[asked-1], l.tokens[asked-1], nil
	}}
	m, err := objectstore.New(driver, objectstore.Config{Cluster: "test", Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	keys, err := walstorage.NewKeys("", "test")
	require.NoError(t, err)

	var end error
	for info, err := range m.ListSegments(t.Context(), walstorage.ListOptions{}) {
		if end != nil {
			t.Fatal("the list goes on behind an error")
		}
		if end = err; err != nil {
			continue
		}
		if keyOf(info.ID) == "" || info.Size != int64(len(keyOf(info.ID))) {
			t.Fatalf("%v has the size of another object", info)
		}
		got = append(got, info.ID)
	}
	for _, page := range l.pages[:asked] {
		for _, object := range page {
			if id, ours := keys.Parse(object.Key); ours {
				want = append(want, id)
			}
		}
	}
	return got, want, asked, end
}

// listSeeds are lists, with how many segments and pages they have and whether they end in an error.
func listSeeds() []struct {
	name, text      string
	segments, pages int
	says            string
} {
	a, b := keyOf(segment(1)), keyOf(segment(2))
	lines := func(all ...string) string { return strings.Join(all, "\n") }
	return []struct {
		name, text      string
		segments, pages int
		says            string
	}{
		{"empty", "", 0, 1, ""},
		{"one-page", lines(a, b), 2, 1, ""},
		{"two-pages", lines(a, ">next", b), 2, 2, ""},
		{"empty-page-between", lines(a, ">1", ">2", b), 2, 3, ""},
		{"repeated-segment", lines(a, ">1", a), 2, 2, ""}, // at least once (W10)
		{"token-repeated", lines(a, ">1", b, ">1", b), 2, 2, "repeated a continuation token"},
		{"token-in-a-circle", lines(">1", ">2", ">1", a), 0, 3, "repeated a continuation token"},
		{"token-empty", lines(a, ">", b), 1, 1, ""},
		{"foreign-objects", lines("README", "test/", "other/"+a, a+".tmp", a), 1, 1, ""},
		{"key-of-another-hour", strings.Replace(a, "/2026070412/", "/2026070413/", 1), 0, 1, ""},
		{"key-of-another-cluster", strings.Replace(a, "test/", "tost/", 1), 0, 1, ""},
		{"key-with-zeros", strings.Replace(a, "/1/", "/01/", 1), 0, 1, ""},
		{"key-in-upper-case", strings.ToUpper(a), 0, 1, ""},
		{"key-of-version-4", strings.Replace(a, "-7", "-4", 1), 0, 1, ""},
		{"key-cut-off", a[:len(a)-1], 0, 1, ""},
		{"key-no-utf8", a + "\xff", 0, 1, ""},
	}
}

func TestListCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range listSeeds() {
		got, want, asked, err := parseListing(seed.text).list(t)
		assert.Equal(t, want, got, seed.name)
		assert.Len(t, got, seed.segments, seed.name)
		assert.Equal(t, seed.pages, asked, seed.name)
		if seed.says == "" {
			assert.NoError(t, err, seed.name)
		} else {
			assert.ErrorContains(t, err, seed.says, seed.name)
		}
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.text}})
	}
	corpus.Check(t, "FuzzList", files...)
}

// W10: whatever keys and continuation tokens a store sends, exactly the segments of this cluster come, in the order of
// the pages, and the list ends: with the store's own end, or with an error where it goes in a circle.
func FuzzList(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		l := parseListing(text)
		got, want, asked, err := l.list(t)
		if len(got) != len(want) {
			t.Fatalf("%d segments of %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("segment %d is %v and should be %v", i, got[i], want[i])
			}
		}
		seen := map[string]bool{"": true}
		for i, token := range l.tokens[:asked] {
			last := i == asked-1
			circle := token != "" && seen[token]
			switch {
			case last && circle != (err != nil):
				t.Fatalf("the tokens %q end with %v", l.tokens[:asked], err)
			case last && !circle && token != "":
				t.Fatalf("it ended though there is more: %q", l.tokens[:asked])
			case !last && (circle || token == ""):
				t.Fatalf("it went on after %q", l.tokens[:i+1])
			}
			seen[token] = true
		}
		if err != nil && walstorage.KindOf(err) != nil {
			t.Fatalf("an error of kind %v, which is retried or believed: %v", walstorage.KindOf(err), err)
		}
	})
}
