package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/s3"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// ways are the clients through which requests can go, to the store at that URL.
func ways(url string) map[string]s3.Config {
	ready := func(client sdk.HTTPClient) s3.Config {
		return s3.Config{Bucket: bucket, Client: sdk.New(sdk.Options{
			Region: "eu-central-1", BaseEndpoint: &url, UsePathStyle: true, Credentials: keys(), HTTPClient: client,
		})}
	}
	given := config(url)
	given.HTTPClient = &http.Client{}
	return map[string]s3.Config{
		"own client":                          config(url),
		"HTTPClient":                          given,
		"Client":                              ready(nil),
		"Client with one of net/http":         ready(&http.Client{}),
		"Client with one of the SDK":          ready(awshttp.NewBuildableClient()),
		"Client with one that nobody knows":   ready(follower{}),
		"Client with a transport of net/http": ready(&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}),
		"Client of net/http that follows all": ready(&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}),
	}
}

// follower is an HTTP client that follows what it can.
type follower struct{}

func (follower) Do(r *http.Request) (*http.Response, error) { return http.DefaultClient.Do(r) }

// J17 (W1, W2, W6): no redirect is followed, whatever client the requests go through, or what came of it is not believed.
// net/http makes a GET without a body of a PUT that is redirected with 301, 302 or 303: the answer to that is none to an
// upload. Every operation fails with an error that names the redirect, which is not tried again.
func TestRedirect(t *testing.T) {
	var followed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed.Add(1)
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		switch {
		case r.Header.Get("Range") != "":
			w.Header().Set("Content-Range", "bytes 0-3/4")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "evil")
		case r.Method == http.MethodHead:
			w.Header().Set("Content-Length", "4")
		default:
			_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		}
	}))
	defer elsewhere.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for _, status := range []int{301, 302, 303, 307, 308} {
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Location", elsewhere.URL+r.URL.RequestURI())
			w.WriteHeader(status)
		}))
		for name, c := range ways(store.URL) {
			driver := open(t, c)
			for op, call := range operations {
				err := call(t.Context(), driver)
				require.Error(t, err, "%s %d %s", name, status, op)
				assert.NoError(t, walstorage.KindOf(err), "%s %d %s", name, status, op)
				assert.ErrorContains(t, err, fmt.Sprintf("StatusCode: %d", status), "%s %s", name, op)
				var api smithy.APIError
				assert.ErrorAs(t, err, &api)
			}
			if c.HTTPClient != nil || strings.Contains(name, "net/http") || name == "own client" {
				assert.Zero(t, followed.Load(), "%s %d: keys were sent to somebody else (W11)", name, status)
			}
			followed.Store(0)
		}
		store.Close()
	}
}

// W1: an answer that says "created", with all that the store says of an object, before the body was sent is no success: what
// was to be stored is not known to who gave it.
func TestCreatedBeforeTheBodyWasSent(t *testing.T) {
	for name, noChecksum := range map[string]bool{"plain": false, "the body is read twice": true} {
		t.Run(name, func(t *testing.T) {
			c := config("")
			c.NoChecksum = noChecksum
			drivertest.CreatedEarly(t, ours, c, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("ETag", `"x"`)
				w.WriteHeader(http.StatusOK)
			})
		})
	}
}

// An answer without end ends the attempt when it has more than any that is right, and is not read into memory: an error is
// judged by its status then, and a document under 200 is unavailable.
func TestAnswerWithoutEnd(t *testing.T) {
	tests := map[string]struct {
		status int
		kind   error
	}{
		"200": {200, walstorage.ErrUnavailable},
		"503": {503, walstorage.ErrUnavailable},
		"403": {403, walstorage.ErrAccessDenied},
		"400": {400, walstorage.ErrUnavailable}, // the code, which would say more, is in what was not read
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if drivertest.Race && test.status == 200 {
				t.Skip("megabytes of XML, and nothing that is shared: without -race this runs")
			}
			for op, call := range operations {
				if op == "HeadObject" || test.status == 200 && (op == "GetObject" || op == "PutObject") {
					continue // those have no body, or none that is read into memory
				}
				var sent int64
				c := config("http://fake.invalid")
				c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
					endless := drivertest.Endless("<ListBucketResult>", "<Prefix>"+strings.Repeat("a", 64<<10)+"</Prefix>", &sent)
					return &http.Response{StatusCode: test.status, Header: http.Header{}, Body: endless, ContentLength: -1, Request: r}, nil
				})}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // in place of the attempt's deadline
				err := call(ctx, open(t, c))
				cancel()
				require.Error(t, err, op)
				assert.Equal(t, test.kind, walstorage.KindOf(err), "%s: %v", op, err)
				assert.Less(t, len(err.Error()), 1000, op)
				assert.LessOrEqual(t, sent, int64(9<<20), "%s: %d bytes were read", op, sent)
			}
		})
	}
}

// A page of a thousand keys as long as keys may be, all of whose characters are escaped, is no answer without end.
func TestLargestPage(t *testing.T) {
	if drivertest.Race {
		t.Skip("megabytes of XML, and nothing that is shared: without -race this runs")
	}
	key := strings.Repeat("ä", 512)
	var page bytes.Buffer
	page.WriteString("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>")
	for i := range 1000 {
		fmt.Fprintf(&page, "<Contents><Key>%s%04d</Key><LastModified>2026-11-29T00:00:00.000Z</LastModified><ETag>&quot;%032d&quot;</ETag>"+
			"<ChecksumAlgorithm>CRC32C</ChecksumAlgorithm><Size>300000</Size><StorageClass>STANDARD</StorageClass></Contents>",
			strings.Repeat("%C3%A4", 512), i, i)
	}
	page.WriteString("</ListBucketResult>")
	c := config("http://fake.invalid")
	c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(&page), ContentLength: -1, Request: r}, nil
	})}
	found, next, err := open(t, c).List(t.Context(), "", "")
	require.NoError(t, err)
	assert.Empty(t, next)
	require.Len(t, found, 1000)
	assert.Equal(t, key+"0999", found[999].Key)
}

// J15 (W8): StallTimeout is for an answer in which nothing moves. A list that comes slowly is waited for, one that stops is
// not.
func TestSlowList(t *testing.T) {
	drivertest.SlowList(t, ours, config(""), [5]string{"<ListBucket", "Result><IsTrun", "cated>false</IsTr", "uncated></ListBu", "cketResult>"})
}

// J17: a bucket that is in another region than requests are for is called so, with both, by whatever answer the store gives,
// and once: nothing is tried again, and no credentials are given up.
func TestWrongRegion(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		code   string
	}{
		"an older region":            {301, "PermanentRedirect"},
		"a bucket made today":        {307, "TemporaryRedirect"},
		"a newer region":             {400, "AuthorizationHeaderMalformed"},
		"... that tells it bluntly ": {400, "IllegalLocationConstraintException"},
	} {
		t.Run(name, func(t *testing.T) {
			asked, sent := &provider{}, 0
			c := config("https://fake.invalid")
			c.Region, c.Credentials = "us-east-1", asked
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				sent++
				text := "<Error><Code>" + test.code + "</Code></Error>"
				if r.Method == http.MethodHead {
					text = ""
				}
				return &http.Response{
					StatusCode: test.status, Header: http.Header{"X-Amz-Bucket-Region": {"af-south-1"}},
					Body: io.NopCloser(strings.NewReader(text)), ContentLength: -1, Request: r,
				}, nil
			})}
			driver := open(t, c)
			for op, call := range map[string]drivertest.Operation{
				"PutObject": operations["PutObject"], "GetObject": operations["GetObject"], "HeadObject": operations["HeadObject"],
				"ListObjectsV2": operations["ListObjectsV2"], "DeleteObjects": operations["DeleteObjects"],
				"Warm": func(ctx context.Context, d objectstore.Driver) error { return d.(objectstore.Warmer).Warm(ctx) },
			} {
				sent = 0
				err := call(t.Context(), driver)
				require.Error(t, err, op)
				assert.NoError(t, walstorage.KindOf(err), op)
				assert.ErrorContains(t, err, `the bucket is in the region "af-south-1", and requests are for "us-east-1"`, op)
				assert.Equal(t, 1, sent, op)
			}
			assert.Equal(t, int64(1), asked.asked.Load())
		})
	}
}
