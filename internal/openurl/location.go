package openurl

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/walhop/walhop/walstorage"
)

// Location is a store URL that was understood. Its zero value is no location: [Parse] makes one.
type Location struct {
	scheme     scheme
	what       string // kind of URL, for messages
	bucket     string // or the container, "" for files
	path       string // prefix in the bucket without slashes at its ends, or the absolute directory
	parameters map[string]string
}

// Parse takes a store URL apart and checks all that can be checked without the store. The error is of kind
// walstorage.ErrInvalidArgument, names the part or the parameter that is wrong, and repeats nothing of the URL but the
// scheme and the names of parameters: what stands in a wrong place may be secret (W11).
func Parse(text string) (Location, error) {
	l, u, err := begin("store URL", schemes(), text)
	if err != nil {
		return Location{}, err
	}
	if err := l.place(u); err != nil {
		return Location{}, err
	}
	if err := l.take(u.RawQuery); err != nil {
		return Location{}, err
	}
	return l, nil
}

// begin finds the scheme, and refuses what no scheme allows.
func begin(what string, known []scheme, text string) (Location, *url.URL, error) {
	before, rest, found := strings.Cut(text, "://")
	if !found {
		return Location{}, nil, invalid(what, "there is no scheme: want %s", forms(known))
	}
	index := slices.IndexFunc(known, func(s scheme) bool { return s.name == before })
	switch {
	case index < 0 && word(before):
		return Location{}, nil, invalid(what, "scheme %s is unknown: want %s", before, forms(known))
	case index < 0:
		return Location{}, nil, invalid(what, "the scheme is unknown: want %s", forms(known))
	}
	l := Location{scheme: known[index], what: what}
	authority, _, _ := strings.Cut(rest, "/")
	if l.scheme.name != "file" {
		authority = rest // no part of the URL has an @ in it; a password with a slash reaches past the authority
	}
	if strings.Contains(authority, "@") {
		return Location{}, nil, l.invalid("there is an @, so a user or a password: %s", l.scheme.credentials)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text repeats the URL
		return Location{}, nil, l.invalid("this is no URL: a bad port or %% escape, or a character that has to be escaped")
	case strings.Contains(rest, "#"):
		return Location{}, nil, l.invalid("there is a fragment (#)")
	}
	return l, u, nil
}

// place takes the bucket and the path.
func (l *Location) place(u *url.URL) error {
	if l.scheme.name == "file" {
		switch {
		case u.Host != "":
			return l.invalid("there is a host: a directory is written with three slashes, file:///dir")
		case strings.Trim(u.Path, "/") == "":
			return l.invalid("the directory is missing")
		case strings.ContainsRune(u.Path, 0):
			return l.invalid("the directory has a zero byte in it")
		}
		l.path = path.Clean(u.Path)
		return nil
	}
	switch {
	case u.Host == "":
		return l.invalid("the %s is missing", l.scheme.bucket)
	case strings.Contains(u.Host, ":"):
		return l.invalid("there is a port: the server of a store is given by the parameter endpoint")
	case name(strings.ReplaceAll(u.Host, ".", "")) != "":
		return l.invalid("the %s has something else in its name than letters, digits, dots, - and _", l.scheme.bucket)
	}
	l.bucket = u.Host
	l.path = strings.TrimSuffix(strings.TrimPrefix(u.Path, "/"), "/")
	// The one place that knows what a key may hold. Its text repeats the prefix.
	if _, err := walstorage.NewKeys(l.path, "c"); err != nil {
		return l.invalid("the path is no prefix: it has to be made of letters, digits, . _ - and single slashes, at most 512 bytes, no part ending in a dot")
	}
	return nil
}

// take takes the parameters.
func (l *Location) take(query string) error {
	l.parameters = map[string]string{}
	if query == "" {
		return nil
	}
	for i, pair := range strings.Split(query, "&") {
		raw, value, found := strings.Cut(pair, "=")
		called := fmt.Sprintf("number %d", i+1)
		if found && word(raw) {
			called = raw
		}
		check, known := l.scheme.parameters[raw]
		switch {
		case !known && secretive(raw):
			return l.invalid("parameter %s: %s", called, l.scheme.credentials)
		case !known:
			return l.invalid("parameter %s is unknown: %s", called, l.scheme.known())
		case value == "":
			return l.invalid("parameter %s has no value", raw)
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			return l.invalid("parameter %s has a bad %% escape in it", raw)
		}
		if _, twice := l.parameters[raw]; twice {
			return l.invalid("parameter %s is there twice", raw)
		}
		if problem := check(value); problem != "" {
			return l.invalid("parameter %s %s", raw, problem)
		}
		l.parameters[raw] = value
	}
	return nil
}

// String returns the URL without its parameters, for messages.
func (l Location) String() string { return l.scheme.name + "://" + path.Join(l.bucket, l.path) }

// flag returns the value of a parameter that is true or false.
func (l Location) flag(name string) bool { return l.parameters[name] == "true" }

func (l Location) invalid(format string, args ...any) error {
	return invalid(l.what, l.scheme.name+": "+format, args...)
}

func invalid(what, format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrInvalidArgument, fmt.Errorf(what+": "+format, args...))
}

// word tells whether a text can be repeated: it is short and made of letters and - and _ alone, which a key is not.
func word(text string) bool {
	return text != "" && len(text) <= 24 && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '-' || r == '_')
	})
}

// secretive tells whether a parameter of that name would be a credential.
func secretive(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"key", "secret", "token", "password", "passwd", "credential", "sig", "sas", "user"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
