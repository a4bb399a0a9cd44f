//go:build unix

package local

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// List implements objectstore.Driver (W10). It yields the regular files below the directory prefix, those of others
// included (Manager tells them by their names), but no temporaries, directories, links or special files. The token is
// the last key of the page before, so a list holds nothing open between pages, goes on after its token has been
// deleted, and sees each object that is there all the time exactly once.
//
// The tree is walked in the order of names, directory by directory. Memory is bounded by the page: a directory of any
// size is read as often as the names that fit a page go into it.
func (d *Driver) List(ctx context.Context, prefix, token string) (page []objectstore.Object, next string, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	defer d.leave()
	dir := "."
	if prefix != "" {
		dir = strings.TrimSuffix(prefix, "/")
		if dir == prefix || checkKey(dir) != nil {
			return nil, "", walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("local: prefix %q names no directory below the root", prefix))
		}
	}
	after, found := strings.CutPrefix(token, prefix)
	if !found && token != "" {
		return nil, "", walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf("local: token %q is not of a list of prefix %q", token, prefix))
	}
	l := listing{driver: d, ctx: ctx}
	full, err := l.walk(dir, after)
	if absent(err) {
		if d.rootMissing() {
			return nil, "", d.failureOf(walstorage.ErrBucketNotFound, err)
		}
		err = nil
	}
	if err != nil {
		return nil, "", d.failure(err)
	}
	if full {
		next = l.page[len(l.page)-1].Key
	}
	return l.page, next, nil
}

// listing is one page in the making.
type listing struct {
	driver *Driver
	ctx    context.Context
	page   []objectstore.Object
}

// walk appends the objects below dir that follow the path after, which is relative to dir and empty for all of them. It
// returns true as soon as the page is full.
func (l *listing) walk(dir, after string) (full bool, err error) {
	d := l.driver
	edge, below, within := strings.Cut(after, "/") // within: the token lies in a directory of this one
	from := edge
	for first := true; ; first = false {
		names, more, err := l.names(dir, from, first && within)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			from = name.name
			path := join(dir, name.name)
			if name.dir {
				start := ""
				if within && name.name == edge {
					start = below
				}
				// A directory may be gone since its name was read.
				if full, err := l.walk(path, start); full || err != nil && !absent(err) {
					return full, err
				}
				continue
			}
			if within && name.name == edge {
				continue // a file where the token had a directory: its name was passed before the token
			}
			if err := l.ctx.Err(); err != nil {
				return false, err
			}
			info, err := d.fs.Lstat(path)
			if absent(err) {
				continue
			}
			if err != nil {
				return false, err
			}
			if !info.Mode().IsRegular() {
				continue
			}
			l.page = append(l.page, objectstore.Object{Key: path, Size: info.Size(), Stored: info.ModTime()})
			if len(l.page) == d.listPage {
				return true, nil
			}
		}
		if !more {
			return false, nil
		}
	}
}

type listName struct {
	name string
	dir  bool
}

// names returns the first names of a directory that follow from, or from itself too if it is to be included, in order,
// and whether there are more: as many as a page holds, found in one pass over a buffer of twice as many.
func (l *listing) names(dir, from string, including bool) (names []listName, more bool, err error) {
	limit := l.driver.listPage
	order := func() {
		slices.SortFunc(names, func(a, b listName) int { return strings.Compare(a.name, b.name) })
		if len(names) > limit {
			names, more = names[:limit], true
		}
	}
	err = l.driver.fs.ReadDir(dir, func(entry fs.DirEntry) error {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		name := entry.Name()
		if name < from || name == from && !including || isTemporary(name) {
			return nil
		}
		if !entry.IsDir() && !entry.Type().IsRegular() {
			return nil
		}
		names = append(names, listName{name: name, dir: entry.IsDir()})
		if len(names) == 2*limit {
			order()
		}
		return nil
	})
	order()
	return names, more, err
}
