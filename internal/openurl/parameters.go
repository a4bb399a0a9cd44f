package openurl

import (
	"net/url"
	"strings"
)

// The checks of parameters return what is wrong, to be read after the parameter's name, or "". They repeat no value.

func boolean(value string) string {
	if value != "true" && value != "false" {
		return "is neither true nor false"
	}
	return ""
}

// name is letters, digits, - and _.
func name(value string) string {
	for _, c := range value {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return "has something else in it than letters, digits, - and _"
		}
	}
	return ""
}

func printable(value string) string {
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "has something else in it than printable ASCII"
	}
	return ""
}

func endpoint(value string) string {
	u, err := url.Parse(value)
	switch {
	case !strings.HasPrefix(value, "http://") && !strings.HasPrefix(value, "https://"):
		return "does not begin with http:// or https://"
	case err != nil:
		return "is no URL"
	case u.User != nil:
		return "has a user or a password in it"
	case u.Hostname() == "":
		return "has no host"
	case strings.ContainsAny(value, "?#"):
		return "has a query or a fragment"
	}
	return ""
}
