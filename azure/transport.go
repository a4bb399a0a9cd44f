package azure

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/internal/stall"
)

// transport is what the SDK sends its requests through.
type transport struct {
	client *http.Client
	driver *Driver
}

// transport makes it: with the client that was handed in, or one of our own.
func (d *Driver) transport(config Config) *transport {
	through := &http.Client{
		// A signature is good for one place, and an upload is one request (J17). A client that follows tells the whole URL
		// to the next host as Referer, and takes the success of whoever answers there for the store's.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if given := config.HTTPClient; given != nil { // J27
		through.Transport, through.Jar, through.Timeout = given.Transport, given.Jar, given.Timeout
	} else {
		d.own = &http.Transport{Proxy: http.ProxyFromEnvironment}
		httpstore.Configure(d.own, config.settings())
		through.Transport = d.own
	}
	return &transport{client: through, driver: d}
}

// Do implements policy.Transporter. The errors of net/http lose their secrets here and not only on their way out, since
// the SDK writes them into its log, which a program may listen to (W11).
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	answer, err := t.client.Do(r)
	var failed *url.Error
	switch {
	case errors.As(err, &failed):
		return nil, t.driver.bareRequest(failed)
	case err != nil:
		return nil, err
	case answer.StatusCode == http.StatusUnauthorized:
		setAside(answer.Header)
	}
	if err := httpstore.RefuseUpgrade(answer); err != nil {
		return nil, err
	}
	limit := int64(errorBytes)
	if answer.StatusCode >= 200 && answer.StatusCode <= 299 {
		switch {
		case r.URL.Query().Has("comp"): // a list, or the answer to a batch
			limit = documentBytes
		case r.Method == http.MethodGet:
			return answer, nil // Get reads no more than it wants
		}
	}
	watch, _ := r.Context().Value(watchKey{}).(*stall.Watch)
	httpstore.Bound(answer, limit, watch)
	return answer, nil
}

// What an answer may have of bytes, since the SDK reads it into memory. A list of 5,000 blobs whose names have 900 bytes has
// some 10 MB, of names that are not ours up to 34 MB, and an error has a few KB.
const (
	documentBytes = 40 << 20
	errorBytes    = 64 << 10
)

// asideHeader is where a challenge is put aside.
const asideHeader = "X-Walhop-Www-Authenticate"

// setAside hides the challenge of an answer from the SDK, and leaves it to tokens. The SDK would send the request again
// within the same attempt (J20), while net/http may still read the body of the first (W5); it asks for a token for whatever
// resource the answer names; it writes down what it has read without a lock; and it panics where the address of the
// authority has no path.
func setAside(header http.Header) {
	if challenges := header.Values("WWW-Authenticate"); challenges != nil {
		header[asideHeader] = challenges
		header.Del("WWW-Authenticate")
	}
}

var claims = regexp.MustCompile(`(?i)\bclaims="([^"]+)"`)

// claimsOf are the claims that a store wants to see in the next token: it has revoked the last before its time ("continuous
// access evaluation"), and without them the credential would give the same again. "" if there are none.
func claimsOf(answer *http.Response) string {
	if answer == nil {
		return ""
	}
	for _, challenge := range slices.Concat(answer.Header.Values("WWW-Authenticate"), answer.Header.Values(asideHeader)) {
		found := claims.FindStringSubmatch(challenge)
		if found == nil || !strings.Contains(challenge, `error="insufficient_claims"`) {
			continue
		}
		if plain, err := base64.StdEncoding.DecodeString(found[1]); err == nil {
			return string(plain)
		}
	}
	return ""
}
