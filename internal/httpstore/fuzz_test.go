package httpstore_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
)

// rangeSeeds are values of Content-Range in an answer of 206 to a request for the bytes 100 to 199, and how each is
// judged.
var rangeSeeds = []struct {
	name, header string
	kind         error
}{
	{"exact", "bytes 100-199/300", nil},
	{"to-the-end", "bytes 100-199/200", nil},
	{"largest-total", "bytes 100-199/9223372036854775807", nil},
	{"leading-zeros", "bytes 0100-0199/0300", nil},
	{"object-ends", "bytes 100-149/150", walstorage.ErrInvalidRange},
	{"empty", "", walstorage.ErrUnavailable},
	{"unit-alone", "bytes", walstorage.ErrUnavailable},
	{"other-unit", "items 100-199/300", walstorage.ErrUnavailable},
	{"unsatisfied", "bytes */150", walstorage.ErrUnavailable},
	{"unknown-total", "bytes 100-199/*", walstorage.ErrUnavailable},
	{"no-total", "bytes 100-199", walstorage.ErrUnavailable},
	{"first-off-by-one", "bytes 101-199/300", walstorage.ErrUnavailable},
	{"last-off-by-one", "bytes 100-198/300", walstorage.ErrUnavailable},
	{"total-below-range", "bytes 100-199/150", walstorage.ErrUnavailable},
	{"total-beyond-64-bits", "bytes 100-199/9223372036854775808", walstorage.ErrUnavailable},
	{"empty-object", "bytes 0--1/0", walstorage.ErrUnavailable}, // the end of the object for offset 0 alone
	{"nothing-left", "bytes 100-99/100", walstorage.ErrInvalidRange},
	{"end-before-beginning", "bytes 100-99/300", walstorage.ErrUnavailable},
	{"total-negative", "bytes 100--2/-1", walstorage.ErrUnavailable},
	{"signs", "bytes +100-+199/+300", walstorage.ErrUnavailable},
	{"more-behind", "bytes 100-199/300, bytes 0-1/300", walstorage.ErrUnavailable},
	{"line-break", "bytes\n100-199/300", walstorage.ErrUnavailable},
	{"underscores", "bytes 1_00-1_99/3_00", walstorage.ErrUnavailable},
}

func TestCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range rangeSeeds {
		err := httpstore.CheckRange(206, seed.header, 100, 100, 199)
		if seed.kind == walstorage.ErrInvalidRange { // what is left of the object came
			err = httpstore.CheckRange(206, seed.header, 50, 100, 199)
		}
		assert.Equal(t, seed.kind == nil, err == nil, seed.name)
		assert.Equal(t, seed.kind, walstorage.KindOf(err), seed.name)
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.header, int64(100), int64(199)}})
	}
	corpus.Check(t, "FuzzCheckRange", files...)
}

// W6, S5: only the range that was asked for passes, in the one way in which it is written, and only an object that ends
// within it is the end of the object.
func FuzzCheckRange(f *testing.F) {
	f.Fuzz(func(t *testing.T, header string, offset, last int64) {
		if offset < 0 || last < offset || last == math.MaxInt64 {
			return // never asked for
		}
		err := httpstore.CheckRange(206, header, -1, offset, last)
		written := strings.ToLower(header)
		passes := strings.HasPrefix(written, fmt.Sprintf("bytes %d-%d/", offset, last))
		switch kind := walstorage.KindOf(err); {
		case err == nil:
			if !passes && !strings.Contains(written, "0") { // leading zeros are written in other ways
				t.Fatalf("%q passes for bytes %d to %d", header, offset, last)
			}
			if httpstore.CheckRange(200, header, -1, offset, last) == nil {
				t.Fatal("200 passes")
			}
			if httpstore.CheckRange(206, header, last-offset, offset, last) == nil {
				t.Fatal("a length that is one too small passes")
			}
		case kind == walstorage.ErrInvalidRange:
			if passes {
				t.Fatalf("%q is the end of an object: %v", header, err)
			}
		case kind != walstorage.ErrUnavailable:
			t.Fatalf("an error of kind %v: %v", kind, err)
		}
		// And what a good server writes passes, or is the end of the object.
		for _, total := range []int64{last + 1, math.MaxInt64} {
			if err := httpstore.CheckRange(206, fmt.Sprintf("bytes %d-%d/%d", offset, last, total), last-offset+1, offset, last); err != nil {
				t.Fatal(err)
			}
		}
		if last > offset {
			err := httpstore.CheckRange(206, fmt.Sprintf("bytes %d-%d/%d", offset, last-1, last), last-offset, offset, last)
			if walstorage.KindOf(err) != walstorage.ErrInvalidRange {
				t.Fatalf("an object that ends one byte early: %v", err)
			}
		}
	})
}
