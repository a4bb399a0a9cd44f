package conformance

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// nameMutants are wrong in what they make of the names of places.
var nameMutants = []mutant{
	modelMutant("a slash at the end of a prefix counts", "A6", "", flaws{slashCounts: true}),
	namesMutant("names are cleaned as paths are", "G4", "", func(name string) string { return strings.Trim(path.Clean("/"+name), "/") }),
	namesMutant("what is not allowed in a name becomes an underscore", "G2", "G5", func(name string) string {
		return strings.Map(func(r rune) rune {
			if r < 0x20 || r > 0x7e || strings.ContainsRune("+%?#&=;:*~!$@,'\"<>|^`{}\\ ", r) {
				return '_'
			}
			return r
		}, name)
	}),
	namesMutant("a name is cut at a question mark", "G2", "", func(name string) string {
		name, _, _ = strings.Cut(name, "?")
		return name
	}),
	namesMutant("control characters are dropped from names", "G5", "", func(name string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, name)
	}),
	namesMutant("names are folded to lower case", "G6", "G2 G5", strings.ToLower),
	namesMutant("long names are cut", "G3", "", func(name string) string { return name[:min(len(name), 512)] }),
	memoryMutant("long keys are refused", "G3", "", memory.Config{}, func(d objectstore.Driver) objectstore.Driver { return shortKeys{d} }, nil),
	memoryMutant("names that begin with a dot are not listed", "G1", "G9", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return unlisted{d, func(key string) bool { return strings.Contains(key, "/.") }}
	}, nil),
	memoryMutant("names like those of temporaries are not listed", "G9", "", memory.Config{}, func(d objectstore.Driver) objectstore.Driver {
		return unlisted{d, func(key string) bool { return strings.Contains(key, ".tmp/") || strings.Contains(key, ".part/") }}
	}, nil),
	memoryMutant("a folder replaces the segment in its way", "G7", "", memory.Config{}, func(d objectstore.Driver) objectstore.Driver { return foldersFirst{d} }, nil),
}

// namesMutant is a mutant that changes the names of its place instead of refusing them.
func namesMutant(name, caught, also string, change func(name string) string) mutant {
	return mutant{name: name, caught: caught, also: also, make: func(*testing.T) (Config, func()) {
		store := newModelStore()
		cfg := store.config(flaws{})
		cfg.Open = func(_ testing.TB, at objectstore.Config) walstorage.WalStorageManager {
			return store.open(place{change(strings.TrimSuffix(at.Prefix, "/")), change(at.Cluster)}, flaws{})
		}
		return cfg, store.release
	}}
}

// shortKeys is a driver that takes keys of 255 bytes, as a file system takes names.
type shortKeys struct{ objectstore.Driver }

func (d shortKeys) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	if len(key) > 255 {
		return walstorage.NewError(walstorage.ErrInvalidArgument, errors.New("the name is too long"))
	}
	return d.Driver.Put(ctx, key, body, crc32c)
}

// unlisted is a driver whose lists pass over some keys.
type unlisted struct {
	objectstore.Driver
	hides func(key string) bool
}

func (d unlisted) List(ctx context.Context, prefix, token string) ([]objectstore.Object, string, error) {
	page, next, err := d.Driver.List(ctx, prefix, token)
	return slices.DeleteFunc(page, func(object objectstore.Object) bool { return d.hides(object.Key) }), next, err
}

// foldersFirst is a driver over folders, which makes room for one by removing the object of its name.
type foldersFirst struct{ objectstore.Driver }

func (d foldersFirst) Put(ctx context.Context, key string, body *objectstore.Body, crc32c uint32) error {
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if !strings.HasSuffix(dir, ".wal") {
			continue
		}
		if err := d.Delete(ctx, []string{dir}); err != nil {
			return err
		}
	}
	return d.Driver.Put(ctx, key, body, crc32c)
}
