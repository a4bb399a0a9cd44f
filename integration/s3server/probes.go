package s3server

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/s3"
)

// Probes sends requests as no driver of ours sends them: our fake and a real server answer alike, as Amazon S3 does.
func (s Server) Probes(t *testing.T) {
	address := s.Address(t)
	store := drivertest.Serve(t, fake.New(fake.Config{Buckets: []string{drivertest.Bucket}, AccessKeys: []string{accessKey}}))
	client := integration.Client(t)
	integration.RunProbes(t, s.Server, append(integration.StoreProbes[prober](t, ofEveryStore), probes...),
		prober{store, drivertest.Bucket, client},
		prober{address, newBucket(t, address), client})
}

// prober sends signed requests about one bucket.
type prober struct {
	url, bucket string
	client      *http.Client
}

// header is short for the headers of a request.
type header map[string]string

// request is one request. The zero value of what is not named does no harm.
type request struct {
	method string
	bucket string // the prober's if empty
	key    string
	query  url.Values
	header header
	body   []byte
	// sha256 is what is told in place of the body's own digest.
	sha256 string
	// accessKey is who signs.
	accessKey string
	// skew is how wrong the clock of the sender is.
	skew time.Duration
}

// answer is what came back.
type answer struct{ integration.Answer }

// String is the status and the code of an error.
func (a answer) String() string {
	var problem struct {
		XMLName xml.Name
		Code    string
	}
	if xml.Unmarshal(a.Body, &problem) == nil && problem.XMLName.Local == "Error" {
		return fmt.Sprint(a.Status, " ", problem.Code)
	}
	return fmt.Sprint(a.Status)
}

// send sends the request.
func (p prober) send(tb testing.TB, r request) answer {
	if r.bucket == "" {
		r.bucket = p.bucket
	}
	path := "/" + r.bucket
	if r.key != "" {
		path += "/" + r.key
	}
	u, err := url.Parse(p.url)
	require.NoError(tb, err)
	u.Path, u.RawQuery = path, strings.ReplaceAll(r.query.Encode(), "+", "%20")
	out, err := http.NewRequestWithContext(tb.Context(), r.method, u.String(), bytes.NewReader(r.body))
	require.NoError(tb, err)
	for name, value := range r.header {
		out.Header.Set(name, value)
	}
	digest := r.sha256
	if digest == "" {
		sum := sha256.Sum256(r.body)
		digest = hex.EncodeToString(sum[:])
	}
	out.Header.Set("X-Amz-Content-Sha256", digest)
	signedBy := aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}
	if r.accessKey != "" {
		signedBy.AccessKeyID = r.accessKey
	}
	sign := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	require.NoError(tb, sign.SignHTTP(tb.Context(), signedBy, out, digest, "s3", region, time.Now().Add(r.skew)))
	return answer{integration.Send(tb, p.client, out)}
}

// told is send for who wants to know the status and the code.
func (p prober) told(tb testing.TB, r request) string { return p.send(tb, r).String() }

func (p prober) put(tb testing.TB, key, body string, headers ...header) string {
	r := request{method: http.MethodPut, key: key, body: []byte(body), header: header{}}
	for _, h := range headers {
		maps.Copy(r.header, h)
	}
	return p.told(tb, r)
}

// Read gives the status, and the bytes or the code.
func (p prober) Read(tb testing.TB, key string, ranges ...string) string {
	r := request{method: http.MethodGet, key: key, header: header{}}
	for _, value := range ranges {
		r.header["Range"] = value
	}
	a := p.send(tb, r)
	if a.Status >= 300 {
		return a.String()
	}
	return a.Object()
}

func (p prober) Remove(tb testing.TB, keys ...string) string {
	return p.deleteQuietly(tb, false, keys...)
}

// deleteQuietly sends a DeleteObjects and gives the status and how many keys it calls deleted, and how many not.
func (p prober) deleteQuietly(tb testing.TB, quiet bool, keys ...string) string {
	var body strings.Builder
	body.WriteString("<Delete>")
	for _, key := range keys {
		body.WriteString("<Object><Key>")
		require.NoError(tb, xml.EscapeText(&body, []byte(key)))
		body.WriteString("</Key></Object>")
	}
	if quiet {
		body.WriteString("<Quiet>true</Quiet>")
	}
	body.WriteString("</Delete>")
	sum := md5.Sum([]byte(body.String()))
	return outcomeOfDelete(p.send(tb, request{
		method: http.MethodPost, query: url.Values{"delete": {""}}, body: []byte(body.String()),
		header: header{"Content-Md5": base64.StdEncoding.EncodeToString(sum[:])},
	}))
}

func outcomeOfDelete(a answer) string {
	var result struct {
		XMLName xml.Name
		Deleted []struct{ Key string }
		Error   []struct{ Key, Code string }
	}
	if xml.Unmarshal(a.Body, &result) != nil || result.XMLName.Local != "DeleteResult" {
		return a.String()
	}
	return fmt.Sprintf("%d deleted %d not %d", a.Status, len(result.Deleted), len(result.Error))
}

// list gives the status and keys of one page, "more" if there is more, and the token.
func (p prober) list(tb testing.TB, query url.Values) (page, token string) {
	query.Set("list-type", "2")
	a := p.send(tb, request{method: http.MethodGet, query: query})
	var result struct {
		XMLName               xml.Name
		Contents              []struct{ Key string }
		KeyCount              int
		IsTruncated           bool
		NextContinuationToken string
	}
	if xml.Unmarshal(a.Body, &result) != nil || result.XMLName.Local != "ListBucketResult" {
		return a.String(), ""
	}
	words := []string{fmt.Sprint(a.Status), fmt.Sprint(result.KeyCount)}
	for _, object := range result.Contents {
		words = append(words, object.Key)
	}
	if result.IsTruncated {
		words = append(words, "more")
	}
	if (result.NextContinuationToken != "") != result.IsTruncated {
		words = append(words, "and a wrong token")
	}
	return strings.Join(words, " "), result.NextContinuationToken
}

func crc32Of(table *crc32.Table, body string) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum([]byte(body), table)))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var createOnly = header{"If-None-Match": "*"}

// The other requests of integration.Asker.

func (p prober) Create(tb testing.TB, key, body string) string {
	return p.put(tb, key, body, createOnly)
}

func (p prober) Overwrite(tb testing.TB, key, body string) string { return p.put(tb, key, body) }

func (p prober) Page(tb testing.TB, prefix string, size int, token string) (page, next string) {
	return p.list(tb, integration.PageOf(prefix, "max-keys", size, "continuation-token", token))
}

// ofEveryStore are the answers to the probes of what every store has.
var ofEveryStore = map[string][]string{
	"create-twice":        {"200", "412 PreconditionFailed", "412 PreconditionFailed", "200 one"},
	"create-after-delete": {"200", "200 deleted 1 not 0", "200", "200 two"},
	"overwrite":           {"200", "200", "200 two"},
	"range":               {"206 0 bytes 0-0/10", "206 2345 bytes 2-5/10", "206 9 bytes 9-9/10", "206 0123456789 bytes 0-9/10", "206 89 bytes 8-9/10"},
	"range-at-end":        {"416 InvalidRange"},
	"range-beyond-end":    {"416 InvalidRange"},
	"range-of-nothing":    {"200", "416 InvalidRange"},
	"list-pages":          {"200 2 list-pages/a list-pages/b more", "200 2 list-pages/c list-pages/d more", "200 1 list-pages/e"},
	"list-exact-page":     {"200 2 list-exact-page/a list-exact-page/b"},
	"list-order":          {"200 5 list-order/a-b list-order/a.b list-order/a/b list-order/a0 list-order/b"},
	"list-nothing":        {"200 0"},
	"object-below-object": {"200", "200", "200 one", "200 two"},
}

// Each probe works on keys that begin with its name, and leaves none.
var probes = []integration.Probe[prober]{
	{
		Name: "create-in-no-bucket",
		Want: []string{"404 NoSuchBucket", "404 NoSuchBucket", "404 NoSuchBucket", "404"},
		Run: func(tb testing.TB, p prober) []string {
			at := func(method string, query url.Values) string {
				r := request{method: method, bucket: "walhop-none", query: query}
				if query == nil {
					r.key = "a"
				}
				return p.told(tb, r)
			}
			return []string{at("PUT", nil), at("GET", nil), at("GET", url.Values{"list-type": {"2"}}), at("HEAD", nil)}
		},
	},
	{
		Name: "wrong-crc32c",
		Want: []string{"400 BadDigest", "404 NoSuchKey"},
		Run: func(tb testing.TB, p prober) []string {
			key := "wrong-crc32c/a"
			return []string{p.put(tb, key, "one", header{"X-Amz-Checksum-Crc32c": crc32Of(castagnoli, "two")}), p.Read(tb, key)}
		},
	},
	{
		Name: "wrong-crc32",
		Want: []string{"400 BadDigest", "404 NoSuchKey"},
		Run: func(tb testing.TB, p prober) []string {
			key := "wrong-crc32/a"
			return []string{p.put(tb, key, "one", header{"X-Amz-Checksum-Crc32": crc32Of(crc32.IEEETable, "two")}), p.Read(tb, key)}
		},
	},
	{
		Name: "wrong-md5",
		Want: []string{"400 BadDigest", "404 NoSuchKey"},
		Run: func(tb testing.TB, p prober) []string {
			key := "wrong-md5/a"
			return []string{p.put(tb, key, "one", header{"Content-Md5": drivertest.MD5("two")}), p.Read(tb, key)}
		},
	},
	{
		Name: "malformed-md5",
		Want: []string{"400 InvalidDigest", "404 NoSuchKey"},
		Run: func(tb testing.TB, p prober) []string {
			key := "malformed-md5/a"
			return []string{p.put(tb, key, "one", header{"Content-Md5": "no digest"}), p.Read(tb, key)}
		},
	},
	{
		Name: "wrong-sha256",
		Want: []string{"400 XAmzContentSHA256Mismatch", "404 NoSuchKey"},
		Run: func(tb testing.TB, p prober) []string {
			sum := sha256.Sum256([]byte("two"))
			wrong := request{method: "PUT", key: "wrong-sha256/a", body: []byte("one"), sha256: hex.EncodeToString(sum[:])}
			return []string{p.told(tb, wrong), p.Read(tb, wrong.key)}
		},
	},
	{
		Name: "checksum-told", // on the upload always, on a HEAD if it is asked for
		Want: []string{"200 true", "200 true FULL_OBJECT", "200 false "},
		Run: func(tb testing.TB, p prober) []string {
			key, sum := "checksum-told/a", crc32Of(castagnoli, "one")
			defer p.Remove(tb, key)
			const name = "X-Amz-Checksum-Crc32c"
			put := p.send(tb, request{method: "PUT", key: key, body: []byte("one"), header: header{name: sum}})
			asked := p.send(tb, request{method: "HEAD", key: key, header: header{"X-Amz-Checksum-Mode": "ENABLED"}})
			plain := p.send(tb, request{method: "HEAD", key: key})
			return []string{
				fmt.Sprint(put.Status, put.Header.Get(name) == sum),
				fmt.Sprint(asked.Status, asked.Header.Get(name) == sum, " ", asked.Header.Get("X-Amz-Checksum-Type")),
				fmt.Sprint(plain.Status, plain.Header.Get(name) == sum, " ", plain.Header.Get("X-Amz-Checksum-Type")),
			}
		},
	},
	{
		Name: "etag-is-md5",
		Want: []string{"200 true"},
		Run: func(tb testing.TB, p prober) []string {
			key := "etag-is-md5/a"
			defer p.Remove(tb, key)
			a := p.send(tb, request{method: "PUT", key: key, body: []byte("one")})
			sum := md5.Sum([]byte("one"))
			return []string{fmt.Sprint(a.Status, a.Header.Get("ETag") == `"`+hex.EncodeToString(sum[:])+`"`)}
		},
	},
	{
		Name: "missing",
		Want: []string{"404 NoSuchKey", "404", "404 NoSuchKey"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{p.Read(tb, "missing/a"), p.told(tb, request{method: "HEAD", key: "missing/a"}), p.Read(tb, "missing/a", "bytes=5-2")}
		},
	},
	{
		Name: "list-wrong-token",
		Want: []string{"400 InvalidArgument"},
		Run: func(tb testing.TB, p prober) []string {
			page, _ := p.list(tb, url.Values{"continuation-token": {"no token"}})
			return []string{page}
		},
	},
	{
		Name: "delete-missing",
		Want: []string{"200 deleted 2 not 0"},
		Run: func(tb testing.TB, p prober) []string {
			p.put(tb, "delete-missing/a", "one")
			return []string{p.deleteQuietly(tb, false, "delete-missing/a", "delete-missing/b")}
		},
	},
	{
		Name: "delete-quiet", // names only what could not be deleted
		Want: []string{"200 deleted 0 not 0", "404 NoSuchKey"},
		Run: func(tb testing.TB, p prober) []string {
			p.put(tb, "delete-quiet/a", "one")
			return []string{p.deleteQuietly(tb, true, "delete-quiet/a"), p.Read(tb, "delete-quiet/a")}
		},
	},
	{
		Name: "delete-1000",
		Want: []string{"200 deleted 1000 not 0"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{p.deleteQuietly(tb, false, integration.Numbered("delete-1000", 1000)...)}
		},
	},
	{
		Name: "delete-1001",
		Want: []string{"400 MalformedXML"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{p.deleteQuietly(tb, false, integration.Numbered("delete-1001", 1001)...)}
		},
	},
	{
		Name: "delete-none",
		Want: []string{"400 MalformedXML"},
		Run:  func(tb testing.TB, p prober) []string { return []string{p.deleteQuietly(tb, false)} },
	},
	{
		Name: "delete-without-checksum",
		Want: []string{"400 InvalidRequest"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{outcomeOfDelete(p.send(tb, request{
				method: http.MethodPost, query: url.Values{"delete": {""}}, body: []byte("<Delete><Object><Key>a</Key></Object></Delete>"),
			}))}
		},
	},
	{
		Name: "delete-wrong-crc32c",
		Want: []string{"400 BadDigest", "200 one"},
		Run: func(tb testing.TB, p prober) []string {
			key := "delete-wrong-crc32c/a"
			defer p.Remove(tb, key)
			p.put(tb, key, "one")
			return []string{outcomeOfDelete(p.send(tb, request{
				method: http.MethodPost, query: url.Values{"delete": {""}}, body: []byte("<Delete><Object><Key>" + key + "</Key></Object></Delete>"),
				header: header{"X-Amz-Checksum-Crc32c": crc32Of(castagnoli, "two")},
			})), p.Read(tb, key)}
		},
	},
	{
		Name: "delete-wrong-sha256",
		Want: []string{"400 XAmzContentSHA256Mismatch", "200 one"},
		Run: func(tb testing.TB, p prober) []string {
			key := "delete-wrong-sha256/a"
			defer p.Remove(tb, key)
			p.put(tb, key, "one")
			body := "<Delete><Object><Key>" + key + "</Key></Object></Delete>"
			sum := sha256.Sum256([]byte(body + " "))
			return []string{outcomeOfDelete(p.send(tb, request{
				method: http.MethodPost, query: url.Values{"delete": {""}}, body: []byte(body), sha256: hex.EncodeToString(sum[:]),
				header: header{"Content-Md5": drivertest.MD5(body)},
			})), p.Read(tb, key)}
		},
	},
	{
		Name: "long-key",
		Want: []string{"200", "200 one"},
		Run: func(tb testing.TB, p prober) []string {
			key := "long-key" + strings.Repeat("k", 300)
			defer p.Remove(tb, key)
			return []string{p.put(tb, key, "one"), p.Read(tb, key)}
		},
	},
	{
		Name: "object-above-object", // object-below-object the other way round, and again: a key that others go on is free once it is deleted
		Want: []string{"200", "200", "200 deleted 1 not 0", "404 NoSuchKey", "200", "200 three", "200 one"},
		Run: func(tb testing.TB, p prober) []string {
			above, below := "object-above-object/x", "object-above-object/x/y"
			defer p.Remove(tb, above, below)
			return []string{
				p.Create(tb, below, "one"), p.Create(tb, above, "two"), p.Remove(tb, above), p.Read(tb, above),
				p.Create(tb, above, "three"), p.Read(tb, above), p.Read(tb, below),
			}
		},
	},
	{
		Name: "unknown-access-key",
		Want: []string{"403 InvalidAccessKeyId", "403"},
		Run: func(tb testing.TB, p prober) []string {
			key := "unknown-access-key/a"
			return []string{
				p.told(tb, request{method: "GET", key: key, accessKey: "STRANGER"}),
				p.told(tb, request{method: "HEAD", key: key, accessKey: "STRANGER"}),
			}
		},
	},
	{
		Name: "wrong-clock",
		Want: []string{"403 RequestTimeTooSkewed", "404 NoSuchKey"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{
				p.told(tb, request{method: "GET", key: "wrong-clock/a", skew: -20 * time.Minute}),
				p.told(tb, request{method: "GET", key: "wrong-clock/a", skew: -10 * time.Minute}),
			}
		},
	},
	{
		Name: "bucket-there",
		Want: []string{"200", "404"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{p.told(tb, request{method: "HEAD"}), p.told(tb, request{method: "HEAD", bucket: "walhop-none"})}
		},
	},
}
