package httpstore

import (
	"net/url"
	"strconv"
)

// WrongEndpoint says what is wrong with the URL of a store, "" if nothing is: http or https, a host, and nothing that has
// to be kept secret. It repeats nothing of the URL, since a password or a signature in it is one of the things that are
// wrong (W11). An empty endpoint is no URL.
func WrongEndpoint(endpoint string) string {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return "is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "does not begin with http:// or https://"
	case u.Hostname() == "":
		return "has no host"
	case !isPort(u.Port()):
		return "has a port that is not between 1 and 65535"
	case u.User != nil:
		return "has a user or a password in it"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "has a query or a fragment"
	}
	return ""
}

// isPort tells whether a connection can be opened to a port, or to that of the scheme, which is "".
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}
