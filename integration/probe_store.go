package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Asker sends the requests that every store has, to one bucket of one server. The answers are in the words of its
// protocol.
type Asker interface {
	// Create stores an object that is not there, Overwrite one whether it is there or not.
	Create(tb testing.TB, key, body string) string
	Overwrite(tb testing.TB, key, body string) string
	// Read gives the status and the bytes, and of a range, such as "bytes=2-5", which it is; of an error its status alone
	// or its code too. Without a range it reads the object.
	Read(tb testing.TB, key string, ranges ...string) string
	// Remove deletes objects, there or not.
	Remove(tb testing.TB, keys ...string) string
	// Page gives the status and the keys of one page of a list, and "more" if there is more, and what asks for that. A size
	// of 0 is the server's own.
	Page(tb testing.TB, prefix string, size int, token string) (page, next string)
}

// StoreProbes are the probes of what every store has that want has the answers of, by name.
func StoreProbes[C Asker](t *testing.T, want map[string][]string) []Probe[C] {
	t.Helper()
	var probes []Probe[C]
	for _, name := range slices.Sorted(maps.Keys(want)) {
		run, known := exchanges[name]
		if !known {
			t.Fatalf("there is no probe %s of every store", name)
		}
		probes = append(probes, Probe[C]{Name: name, Want: want[name], Run: func(tb testing.TB, c C) []string { return run(tb, c, name+"/") }})
	}
	return probes
}

// exchanges are the requests of each. They work on keys that begin with under, and leave none.
var exchanges = map[string]func(tb testing.TB, c Asker, under string) []string{
	"create-twice": func(tb testing.TB, c Asker, under string) []string { // the second is refused, whatever its bytes are, and the first stays
		key := under + "a"
		defer c.Remove(tb, key)
		return []string{c.Create(tb, key, "one"), c.Create(tb, key, "one"), c.Create(tb, key, "two"), c.Read(tb, key)}
	},
	"create-after-delete": func(tb testing.TB, c Asker, under string) []string {
		key := under + "a"
		defer c.Remove(tb, key)
		return []string{c.Create(tb, key, "one"), c.Remove(tb, key), c.Create(tb, key, "two"), c.Read(tb, key)}
	},
	"overwrite": func(tb testing.TB, c Asker, under string) []string {
		key := under + "a"
		defer c.Remove(tb, key)
		return []string{c.Overwrite(tb, key, "one"), c.Overwrite(tb, key, "two"), c.Read(tb, key)}
	},
	"range": func(tb testing.TB, c Asker, under string) []string {
		return ranges(tb, c, under, "0123456789", "0-0", "2-5", "9-9", "0-9", "8-100")
	},
	"range-at-end": func(tb testing.TB, c Asker, under string) []string {
		return ranges(tb, c, under, "0123456789", "10-10")
	},
	"range-beyond-end": func(tb testing.TB, c Asker, under string) []string {
		return ranges(tb, c, under, "0123456789", "100-200")
	},
	"range-of-nothing": func(tb testing.TB, c Asker, under string) []string {
		key := under + "whole"
		defer c.Remove(tb, key)
		c.Overwrite(tb, key, "")
		return append([]string{c.Read(tb, key)}, ranges(tb, c, under, "", "0-0")...)
	},
	"list-pages": func(tb testing.TB, c Asker, under string) (got []string) {
		beside := strings.TrimSuffix(under, "/") + "2/f"
		defer stored(tb, c, beside)()
		defer stored(tb, c, under+"e", under+"b", under+"a", under+"d", under+"c")()
		var page, token string
		for range 3 {
			page, token = c.Page(tb, under, 2, token)
			got = append(got, page)
		}
		return got
	},
	"list-exact-page": func(tb testing.TB, c Asker, under string) []string {
		defer stored(tb, c, under+"a", under+"b")()
		page, _ := c.Page(tb, under, 2, "")
		return []string{page}
	},
	"list-order": func(tb testing.TB, c Asker, under string) []string { // that of the bytes, in which "." and "-" come before "/"
		defer stored(tb, c, under+"b", under+"a0", under+"a/b", under+"a.b", under+"a-b")()
		page, _ := c.Page(tb, under, 0, "")
		return []string{page}
	},
	"list-nothing": func(tb testing.TB, c Asker, under string) []string {
		page, _ := c.Page(tb, under, 0, "")
		return []string{page}
	},
	"object-below-object": func(tb testing.TB, c Asker, under string) []string { // a key is no path
		above, below := under+"x", under+"x/y"
		defer c.Remove(tb, above, below)
		return []string{c.Create(tb, above, "one"), c.Create(tb, below, "two"), c.Read(tb, above), c.Read(tb, below)}
	},
}

// ranges reads ranges of an object.
func ranges(tb testing.TB, c Asker, under, body string, ranges ...string) (got []string) {
	key := under + "a"
	defer c.Remove(tb, key)
	c.Overwrite(tb, key, body)
	for _, value := range ranges {
		got = append(got, c.Read(tb, key, "bytes="+value))
	}
	return got
}

// stored stores objects, and returns what removes them.
func stored(tb testing.TB, c Asker, keys ...string) (remove func()) {
	for _, key := range keys {
		c.Overwrite(tb, key, key)
	}
	return func() { c.Remove(tb, keys...) }
}

// Numbered makes n keys under a name.
func Numbered(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s/%d", name, i)
	}
	return keys
}
