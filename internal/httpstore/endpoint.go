package httpstore

import "net/url"

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
	case u.User != nil:
		return "has a user or a password in it"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "has a query or a fragment"
	}
	return ""
}
