package s3

import (
	"io"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/internal/stall"
)

// sender stands between the SDK and the HTTP client, whoever made that, and keeps what no HTTP client may do otherwise: it
// has bodies read, follows no redirect and takes no answer without end.
type sender struct{ client sdk.HTTPClient }

func newSender(client sdk.HTTPClient) sender {
	if given, ok := client.(*http.Client); ok {
		own := *given // with the same transport
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		client = &own
	}
	return sender{client}
}

// Do implements sdk.HTTPClient.
func (s sender) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		// net/http is to read the body, and not have it write itself. The SDK closes a body as soon as the answer begins; one
		// that is asked to write itself after that, though it is all sent, answers with an error, and for that net/http closes
		// the connection while the answer is being read. Of DeleteObjects over a fast network that happened to three in a
		// hundred.
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	answer = notFollowed(answer)
	if err := httpstore.RefuseUpgrade(answer); err != nil {
		return nil, err
	}
	good := answer.StatusCode >= 200 && answer.StatusCode <= 299
	if good && r.Header.Get("Range") != "" {
		return answer, nil // Get reads no more than it wants
	}
	limit := int64(errorBytes)
	if good {
		limit = documentBytes
	}
	var watch *stall.Watch
	if a := attemptOf(r.Context()); a != nil {
		watch = a.watch
	}
	httpstore.Bound(answer, limit, watch)
	return answer, nil
}

// notFollowed returns the redirect that the answer comes of, if any (J17): a signature is good for one host, an upload is
// one request, and net/http makes a GET without a body of a PUT that is redirected with 301, whose answer would pass for
// that of the upload. An *http.Client was told to follow none; the SDK's own follows some, and what others do is not known.
func notFollowed(answer *http.Response) *http.Response {
	for answer.Request != nil && answer.Request.Response != nil {
		_ = answer.Body.Close()
		answer = answer.Request.Response
		answer.Body = http.NoBody // it was closed when it was followed
	}
	return answer
}

// What an answer may have of bytes, since the SDK reads it into memory. A list of a thousand keys of a thousand bytes, all
// of which have to be escaped, has some 4 MB, and an error of Amazon S3 a few KB.
const (
	documentBytes = 8 << 20
	errorBytes    = 64 << 10
)
