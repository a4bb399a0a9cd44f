package azure

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Credential is what the request was authorised with: the signature of a SAS, a bearer token, or the account's name for
// a shared key. It is "" for none.
func (r Request) Credential() string { return credential(r.Header, r.Query) }

func credential(header http.Header, query string) string {
	kind, value, _ := strings.Cut(header.Get("Authorization"), " ")
	switch kind {
	case "SharedKey":
		account, _, _ := strings.Cut(value, ":")
		return account
	case "Bearer":
		return value
	}
	values, _ := url.ParseQuery(query)
	return values.Get("sig")
}

// maxSkew is how far the time of a request may be off.
const maxSkew = 15 * time.Minute

var unauthenticated = &problem{
	status: 403, code: "AuthenticationFailed",
	message: "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
}

// authorise checks who asks. A SAS or a token is looked up; of a shared key the signature is computed again.
func (s *Server) authorise(r *http.Request) *problem {
	kind, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case kind == "SharedKey":
		account, signature, _ := strings.Cut(value, ":")
		if account != s.cfg.Account {
			return unauthenticated
		}
		told, err := time.Parse(http.TimeFormat, r.Header.Get("x-ms-date"))
		if err != nil || time.Until(told.Add(-s.cfg.Skew)).Abs() > maxSkew {
			refused := *unauthenticated
			refused.detail = "Request date header too old: '" + r.Header.Get("x-ms-date") + "'"
			return &refused
		}
		toSign := s.stringToSign(r)
		for _, key := range s.cfg.Keys {
			if signature == sign(key, toSign) {
				return nil
			}
		}
		if len(s.cfg.Keys) > 0 {
			refused := *unauthenticated
			refused.detail = "The MAC signature found in the HTTP request '" + signature + "' is not the same as any computed signature. Server used following string to sign: '" + toSign + "'."
			return &refused
		}
	case kind == "Bearer":
		if len(s.cfg.Tokens) > 0 && !slices.Contains(s.cfg.Tokens, value) {
			return &problem{status: 401, code: "InvalidAuthenticationInfo", message: "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."}
		}
	case r.URL.Query().Has("sig"):
		if len(s.cfg.Signatures) > 0 && !slices.Contains(s.cfg.Signatures, r.URL.Query().Get("sig")) {
			refused := *unauthenticated
			refused.detail = "Signature did not match. String to sign used was " + r.URL.RawQuery
			return &refused
		}
	default:
		return &problem{status: 401, code: "NoAuthenticationInformation", message: "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."}
	}
	return nil
}

func sign(key, toSign string) string {
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return ""
	}
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(toSign))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// stringToSign is what a shared key signs: the method, some headers by position, all x-ms- headers in the order of their
// names, and the path and query.
func (s *Server) stringToSign(r *http.Request) string {
	var text strings.Builder
	text.WriteString(r.Method + "\n")
	for _, name := range []string{
		"Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date",
		"If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range",
	} {
		value := r.Header.Get(name)
		if name == "Content-Length" && value == "0" || name == "Date" && r.Header.Get("x-ms-date") != "" {
			value = ""
		}
		text.WriteString(value + "\n")
	}
	var names []string
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		text.WriteString(name + ":" + r.Header.Get(name) + "\n")
	}
	text.WriteString("/" + s.cfg.Account + r.URL.EscapedPath())
	query := r.URL.Query()
	parameters := make([]string, 0, len(query))
	for name := range query {
		parameters = append(parameters, name)
	}
	slices.Sort(parameters)
	for _, name := range parameters {
		text.WriteString("\n" + strings.ToLower(name) + ":" + strings.Join(query[name], ","))
	}
	return text.String()
}
