package azure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// bared is an error of the SDK without what must not be read (W11): a SAS is in the query of every URL, and the service
// repeats signatures in its answers. The SDK's types are reached by errors.As, as copies that have lost the same. There is
// no Unwrap, so that errors.Is does not take the deadline of an attempt in there for the caller's (W7).
type bared struct {
	text string
	err  error
}

func (b *bared) Error() string      { return "azure: " + b.text }
func (b *bared) As(target any) bool { return errors.As(b.err, target) }

// bare takes the secrets out of an error.
func (d *Driver) bare(err error) error {
	var answer *azcore.ResponseError
	var request *url.Error
	switch {
	case errors.As(err, &answer):
		copied, text := d.bareAnswer(answer)
		return &bared{text: text, err: copied}
	case errors.As(err, &request):
		copied := d.bareRequest(request)
		return &bared{text: d.scrub(copied.Error()), err: copied}
	}
	return &bared{text: d.scrub(err.Error()), err: err}
}

// bareRequest copies an error of net/http without the query of its URL.
func (d *Driver) bareRequest(request *url.Error) *url.Error {
	copied := &url.Error{Op: request.Op, URL: bareURL(request.URL), Err: request.Err}
	if text := d.scrub(request.Err.Error()); text != request.Err.Error() {
		copied.Err = errors.New(text)
	}
	return copied
}

// bareURL is scheme, host and path of a URL.
func bareURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the store"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// refusal is an error document.
type refusal struct {
	Message string
	Detail  string `xml:"AuthenticationErrorDetail"`
}

// tellable are the beginnings of those details that say what is wrong, and repeat no signature.
var tellable = []string{"Request date header too old", "Signature not valid in the specified time frame"}

// bareAnswer copies what the store has answered, and says it in one line, where the SDK takes many.
func (d *Driver) bareAnswer(answer *azcore.ResponseError) (*azcore.ResponseError, string) {
	copied := &azcore.ResponseError{ErrorCode: answer.ErrorCode, StatusCode: answer.StatusCode}
	var text strings.Builder
	raw := answer.RawResponse
	if raw != nil && raw.Request != nil && raw.Request.URL != nil {
		fmt.Fprintf(&text, "%s %s: ", raw.Request.Method, raw.Request.URL.Path)
	}
	fmt.Fprintf(&text, "%d", answer.StatusCode)
	if name := answer.ErrorCode; name != "" {
		text.WriteString(" " + name)
	} else if name := http.StatusText(answer.StatusCode); name != "" {
		text.WriteString(" " + name)
	}
	if raw == nil {
		return copied, d.scrub(text.String())
	}
	sent := authorityOf(raw.Request)
	message := ""
	if raw.StatusCode >= 400 && raw.Body != nil { // the SDK has read it
		if body, err := runtime.Payload(raw); err == nil {
			message = d.scrub(messageOf(body), sent...)
		}
	}
	if message != "" {
		text.WriteString(": " + message)
	}
	if id := raw.Header.Get("x-ms-request-id"); id != "" {
		text.WriteString(" (request " + id + ")")
	}
	copied.RawResponse = &http.Response{
		Status: raw.Status, StatusCode: raw.StatusCode, Proto: raw.Proto, ProtoMajor: raw.ProtoMajor, ProtoMinor: raw.ProtoMinor,
		Header: raw.Header.Clone(), ContentLength: int64(len(message)), Body: io.NopCloser(strings.NewReader(message)),
	}
	copied.RawResponse.Header.Del("Location")
	for _, values := range copied.RawResponse.Header {
		for i, value := range values {
			values[i] = d.scrub(value, sent...)
		}
	}
	if request := raw.Request; request != nil && request.URL != nil {
		copied.RawResponse.Request = &http.Request{
			Method: request.Method, Host: request.Host,
			URL: &url.URL{Scheme: request.URL.Scheme, Host: request.URL.Host, Path: request.URL.Path},
		}
	}
	return copied, d.scrub(text.String(), sent...)
}

// messageOf is the first line of the message of an error document, with the detail if that may be told.
func messageOf(body []byte) string {
	var document refusal
	if err := xml.Unmarshal(body, &document); err != nil {
		return ""
	}
	message, _, _ := strings.Cut(strings.TrimSpace(document.Message), "\n")
	for _, beginning := range tellable {
		if strings.HasPrefix(document.Detail, beginning) {
			detail, _, _ := strings.Cut(document.Detail, "\n")
			message += " " + detail
		}
	}
	return message
}

// query is one of a relative or absolute URL within a text.
var query = regexp.MustCompile(`\?[^\s"'<>?]*=[^\s"'<>]*`)

// scrub takes queries and secrets out of a text.
func (d *Driver) scrub(text string, more ...string) string {
	text = query.ReplaceAllString(text, "")
	for _, secret := range slices.Concat(more, d.secrets) {
		text = strings.ReplaceAll(text, secret, "REDACTED")
	}
	if d.tokens != nil {
		if token := d.tokens.current(); token != "" {
			text = strings.ReplaceAll(text, token, "REDACTED")
		}
	}
	return text
}

// authorityOf is what a request was authorised with: its query, as the SDK has sorted it, and what its header has.
func authorityOf(request *http.Request) []string {
	if request == nil {
		return nil
	}
	var authority []string
	if request.URL != nil && request.URL.RawQuery != "" {
		authority = append(authority, request.URL.RawQuery)
	}
	_, signature, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if _, mac, found := strings.Cut(signature, ":"); found && mac != "" { // of a shared key; before it is the account
		signature = mac
	}
	if signature != "" {
		authority = append(authority, signature)
	}
	return authority
}

// secretsOf lists the forms in which the signature of a SAS may stand in a text.
func secretsOf(rawQuery string) []string {
	if rawQuery == "" {
		return nil
	}
	secrets := []string{rawQuery}
	for part := range strings.SplitSeq(rawQuery, "&") {
		name, sig, _ := strings.Cut(part, "=")
		if name, err := url.QueryUnescape(name); err != nil || name != "sig" || sig == "" {
			continue
		}
		secrets = append(secrets, sig)
		if plain, err := url.QueryUnescape(sig); err == nil {
			secrets = append(secrets, plain, url.QueryEscape(plain), url.PathEscape(plain))
		}
	}
	return secrets
}
