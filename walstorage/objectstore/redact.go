package objectstore

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// redacted is an error of a driver's library whose text has lost its secrets (W11): the query and the user of every
// URL, signatures, keys and tokens. errors.As reaches the library's own error behind it. There is no Unwrap, so that
// errors.Is does not take the deadline of an attempt in there for the caller's (W7).
type redacted struct{ err error }

func redact(err error) error {
	if err == nil {
		return nil
	}
	return &redacted{err: err}
}

// Error is computed when it is asked for: most errors are retried and never read.
func (r *redacted) Error() string { return redactText(r.err.Error()) }

// As finds the library's error. A *url.Error, whose URL is where the secrets are, comes as a copy without them.
func (r *redacted) As(target any) bool {
	if !errors.As(r.err, target) {
		return false
	}
	if found, ok := target.(**url.Error); ok && *found != nil {
		inner := (*found).Err
		if inner != nil && redactText(inner.Error()) != inner.Error() {
			inner = redact(inner)
		}
		*found = &url.Error{Op: (*found).Op, URL: redactText((*found).URL), Err: inner}
	}
	return true
}

const removed = "REDACTED"

const (
	valueNames  = `sig|signature|credential|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|awsaccesskeyid|aws_access_key_id|aws_secret_access_key|aws_session_token|accesskeyid|googleaccessid|secretaccesskey|sessiontoken|accountkey|sharedaccesskey|sharedaccesssignature|access_token|refresh_token|id_token|client_secret|password|passwd|secret|api_key|apikey`
	headerNames = `access_token|refresh_token|id_token|x-amz-security-token|x-amz-signature|x-amz-credential|x-goog-signature|x-goog-credential|x-ms-copy-source-authorization|secretaccesskey|sessiontoken|aws_secret_access_key|aws_session_token|client_secret|password`
	// secretName is a name where a value is due: that of the name before is empty, and what follows is this one's.
	secretName = `(?:(?:` + valueNames + `|` + headerNames + `)["']?\s*[=:]\s*["']?)`
)

var (
	// Absolute URLs; what is left is scheme, host and path.
	absoluteURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)
	// Queries of relative URLs, as in "GET /bucket/key?X-Amz-Signature=...".
	relativeQuery = regexp.MustCompile(`\?[^\s"'<>?]*=[^\s"'<>]*`)
	// The rest of the line after an Authorization header.
	authorization = regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*)[^\r\n]+`)
	// Authentication schemes with what follows them.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic|sharedkey|sharedkeylite|aws4-hmac-sha256|goog4-rsa-sha256)\s+[A-Za-z0-9._~+/=:,-]{8,}`)
	// Names whose value is secret wherever they stand: in a query, a header, a connection string, a form.
	secretValue  = regexp.MustCompile(`(?i)\b(` + valueNames + `)(["']?\s*[=]\s*["']?)` + secretName + `*[^\s&"',;<>]+`)
	secretHeader = regexp.MustCompile(`(?i)\b(` + headerNames + `)(["']?\s*:\s*["']?)` + secretName + `*[^\s&"',;<>]+`)
	// Key ids of AWS, tokens of Google, JSON web tokens and private keys, recognisable by themselves.
	keyID = regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bya29\.[A-Za-z0-9._-]+`)
	pem   = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	jwt   = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)
)

// redactText removes what may be a secret from a text. It rather removes too much than too little.
func redactText(text string) string {
	text = absoluteURL.ReplaceAllStringFunc(text, bareURL)
	text = relativeQuery.ReplaceAllString(text, "")
	text = authorization.ReplaceAllString(text, "${1}"+removed)
	text = scheme.ReplaceAllString(text, "${1} "+removed)
	text = secretValue.ReplaceAllString(text, "${1}${2}"+removed)
	text = secretHeader.ReplaceAllString(text, "${1}${2}"+removed)
	text = pem.ReplaceAllString(text, removed)
	text = keyID.ReplaceAllString(text, removed)
	return jwt.ReplaceAllString(text, removed)
}

// bareURL removes the user and the query of a URL. It cannot trust that the text is a URL that a parser would take: a
// password may have a slash or a question mark in it, and a query an "@".
func bareURL(text string) string {
	scheme, rest, _ := strings.Cut(text, "://")
	end := ""
	if strings.HasSuffix(rest, ":") { // the sentence goes on
		rest, end = rest[:len(rest)-1], ":"
	}
	query := strings.IndexAny(rest, "?#")
	at := strings.LastIndexByte(rest, '@')
	if query >= 0 && (at < query || strings.ContainsAny(rest[query:at], "=&")) {
		rest = rest[:query]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:] // no key has an "@" in it
	if query = strings.IndexAny(rest, "?#"); query >= 0 {
		rest = rest[:query]
	}
	host, path, _ := strings.Cut(rest, "/")
	if name, port, found := strings.Cut(host, ":"); found && strings.Trim(port, "0123456789") != "" && !strings.HasPrefix(name, "[") {
		return scheme + "://" + removed + end // "user:password", cut short by a question mark
	}
	if path != "" {
		host += "/" + path
	}
	return scheme + "://" + host + end
}
