package azurite

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"hash/crc64"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
)

// Requests as no driver of ours sends them are answered alike by our fake and by a real server: as Azure does.
func TestProbes(t *testing.T) {
	address := integration.Azurite.Address(t)
	store := drivertest.Serve(t, fake.New(fake.Config{Account: account, Keys: []string{accountKey}, Containers: []string{drivertest.Bucket}}))
	client := integration.Client(t)
	integration.RunProbes(t, integration.Azurite, append(integration.StoreProbes[prober](t, ofEveryStore), probes...),
		prober{url: store, container: drivertest.Bucket, key: accountKey, client: client},
		prober{url: address, container: newContainer(t, address), key: accountKey, client: client})
}

// prober sends requests about one container.
type prober struct {
	url, container string
	// key is what signs.
	key    string
	client *http.Client
	// skew is how wrong the clock of the sender is.
	skew time.Duration
}

// header is short for the headers of a request.
type header map[string]string

// answer is what came back.
type answer struct{ integration.Answer }

// String is the status, and the code where there is one. It stands in a header and in the document.
func (a answer) String() string {
	code := a.Header.Get("x-ms-error-code")
	var problem struct {
		XMLName xml.Name
		Code    string
	}
	if xml.Unmarshal(a.Body, &problem) == nil && problem.XMLName.Local == "Error" && problem.Code != code {
		code += " but in the document " + problem.Code
	}
	return strings.TrimSpace(fmt.Sprint(a.Status, " ", code))
}

// send sends a request about a blob, or about the container if there is no key.
func (p prober) send(tb testing.TB, method, key string, query url.Values, headers header, body []byte) answer {
	path := "/" + account + "/" + p.container
	if key != "" {
		path += "/" + key
	}
	out, err := http.NewRequestWithContext(tb.Context(), method, p.url+path+"?"+query.Encode(), bytes.NewReader(body))
	require.NoError(tb, err)
	out.Header.Set("x-ms-version", "2024-11-04")
	for name, value := range headers {
		out.Header.Set(name, value)
	}
	p.sign(tb, out)
	return answer{integration.Send(tb, p.client, out)}
}

// sign makes the header Authorization of a shared key: a signature over the method, some headers by their place, all that
// begin with x-ms-, the path and the query.
func (p prober) sign(tb testing.TB, r *http.Request) {
	r.Header.Set("x-ms-date", time.Now().UTC().Add(p.skew).Format(http.TimeFormat))
	length := ""
	if r.ContentLength > 0 {
		length = fmt.Sprint(r.ContentLength)
	}
	h := r.Header.Get
	lines := []string{
		r.Method, h("Content-Encoding"), h("Content-Language"), length, h("Content-MD5"), h("Content-Type"), "",
		h("If-Modified-Since"), h("If-Match"), h("If-None-Match"), h("If-Unmodified-Since"), h("Range"),
	}
	var own []string
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			own = append(own, name+":"+h(name))
		}
	}
	slices.Sort(own)
	lines = append(append(lines, own...), "/"+account+r.URL.EscapedPath())
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		lines = append(lines, name+":"+strings.Join(query[name], ","))
	}
	secret, err := base64.StdEncoding.DecodeString(p.key)
	require.NoError(tb, err)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(strings.Join(lines, "\n")))
	r.Header.Set("Authorization", "SharedKey "+account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func (p prober) put(tb testing.TB, key, body string, headers ...header) string {
	all := header{"x-ms-blob-type": "BlockBlob"}
	for _, h := range headers {
		maps.Copy(all, h)
	}
	return p.send(tb, http.MethodPut, key, nil, all, []byte(body)).String()
}

// Read gives the status, and the bytes or the code.
func (p prober) Read(tb testing.TB, key string, ranges ...string) string {
	headers := header{}
	for _, value := range ranges {
		headers["x-ms-range"] = value
	}
	a := p.send(tb, http.MethodGet, key, nil, headers, nil)
	if a.Status >= 300 {
		return a.String()
	}
	return a.Object()
}

func (p prober) Remove(tb testing.TB, keys ...string) string {
	var last string
	for _, key := range keys {
		last = p.send(tb, http.MethodDelete, key, nil, nil, nil).String()
	}
	return last
}

// batch sends a Blob Batch of deletes and gives the status, and how many of the parts have which.
func (p prober) batch(tb testing.TB, keys ...string) []string {
	const boundary = "batch_probe"
	var body strings.Builder
	for i, key := range keys {
		fmt.Fprintf(&body, "--%s\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: %d\r\n\r\n", boundary, i)
		part, err := http.NewRequestWithContext(tb.Context(), http.MethodDelete, fmt.Sprintf("%s/%s/%s/%s", p.url, account, p.container, key), nil)
		require.NoError(tb, err)
		p.sign(tb, part)
		fmt.Fprintf(&body, "DELETE %s HTTP/1.1\r\n", part.URL.EscapedPath())
		require.NoError(tb, part.Header.Write(&body))
		body.WriteString("Content-Length: 0\r\n\r\n\r\n")
	}
	body.WriteString("--" + boundary + "--\r\n")
	a := p.send(tb, http.MethodPost, "", url.Values{"restype": {"container"}, "comp": {"batch"}},
		header{"Content-Type": "multipart/mixed; boundary=" + boundary}, []byte(body.String()))
	if a.Status >= 300 {
		return []string{a.String()}
	}
	got := []string{fmt.Sprint(a.Status)}
	code := regexp.MustCompile(`(?i)x-ms-error-code: *(\S+)`)
	counts := map[string]int{}
	for _, part := range strings.Split(string(a.Body), "HTTP/1.1 ")[1:] {
		outcome, _, _ := strings.Cut(part, " ")
		if found := code.FindStringSubmatch(part); found != nil {
			outcome += " " + found[1]
		}
		if counts[outcome]++; counts[outcome] == 1 {
			got = append(got, outcome)
		}
	}
	for i, outcome := range got[1:] {
		got[i+1] = fmt.Sprintf("%d times %s", counts[outcome], outcome)
	}
	return got
}

// list gives the status and names of one page, "more" if there is more, and the marker.
func (p prober) list(tb testing.TB, query url.Values) (page, marker string) {
	all := url.Values{"restype": {"container"}, "comp": {"list"}}
	maps.Copy(all, query)
	a := p.send(tb, http.MethodGet, "", all, nil, nil)
	if a.Status >= 300 {
		return a.String(), ""
	}
	var result struct {
		Names      []string `xml:"Blobs>Blob>Name"`
		NextMarker string
	}
	require.NoError(tb, xml.Unmarshal(a.Body, &result))
	words := append([]string{fmt.Sprint(a.Status)}, result.Names...)
	if result.NextMarker != "" {
		words = append(words, "more")
	}
	return strings.Join(words, " "), result.NextMarker
}

// crc64Of is a CRC-64/NVME, as the service wants it.
func crc64Of(body string) string {
	sum := crc64.Checksum([]byte(body), crc64.MakeTable(0x9A6C9329AC4BC9B5))
	return base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, sum))
}

var createOnly = header{"If-None-Match": "*"}

// The other requests of integration.Asker.

func (p prober) Create(tb testing.TB, key, body string) string {
	return p.put(tb, key, body, createOnly)
}

func (p prober) Overwrite(tb testing.TB, key, body string) string { return p.put(tb, key, body) }

func (p prober) Page(tb testing.TB, prefix string, size int, token string) (page, next string) {
	return p.list(tb, integration.PageOf(prefix, "maxresults", size, "marker", token))
}

// ofEveryStore are the answers to the probes of what every store has.
var ofEveryStore = map[string][]string{
	"create-twice":        {"201", "409 BlobAlreadyExists", "409 BlobAlreadyExists", "200 one"},
	"create-after-delete": {"201", "202", "201", "200 two"},
	"overwrite":           {"201", "201", "200 two"},
	"range":               {"206 0 bytes 0-0/10", "206 2345 bytes 2-5/10", "206 9 bytes 9-9/10", "206 0123456789 bytes 0-9/10", "206 89 bytes 8-9/10"},
	"range-at-end":        {"416 InvalidRange"},
	"range-beyond-end":    {"416 InvalidRange"},
	"range-of-nothing":    {"200", "416 InvalidRange"},
	"list-pages":          {"200 list-pages/a list-pages/b more", "200 list-pages/c list-pages/d more", "200 list-pages/e"},
	"list-exact-page":     {"200 list-exact-page/a list-exact-page/b"},
	"list-order":          {"200 list-order/a-b list-order/a.b list-order/a/b list-order/a0 list-order/b"},
	"list-nothing":        {"200"},
	"object-below-object": {"201", "201", "200 one", "200 two"},
}

// Each probe works on names that begin with its own, and leaves none.
var probes = []integration.Probe[prober]{
	{
		Name: "no-container",
		Want: []string{
			"404 ContainerNotFound", "404 ContainerNotFound", "404 ContainerNotFound", "404 ContainerNotFound", "404 ContainerNotFound",
		},
		Run: func(tb testing.TB, p prober) []string {
			p.container = "walhop-none"
			page, _ := p.list(tb, nil)
			return []string{
				p.put(tb, "a", "one", createOnly), p.Read(tb, "a"), p.send(tb, http.MethodHead, "a", nil, nil, nil).String(),
				p.Remove(tb, "a"), page,
			}
		},
	},
	{
		Name: "wrong-crc64",
		Want: []string{"400 Crc64Mismatch", "404 BlobNotFound"},
		Run: func(tb testing.TB, p prober) []string {
			key := "wrong-crc64/a"
			defer p.Remove(tb, key)
			return []string{p.put(tb, key, "one", header{"x-ms-content-crc64": crc64Of("two")}), p.Read(tb, key)}
		},
	},
	{
		Name: "right-crc64", // is told back
		Want: []string{"201 true", "200 one"},
		Run: func(tb testing.TB, p prober) []string {
			key := "right-crc64/a"
			defer p.Remove(tb, key)
			a := p.send(tb, http.MethodPut, key, nil, header{"x-ms-blob-type": "BlockBlob", "x-ms-content-crc64": crc64Of("one")}, []byte("one"))
			return []string{fmt.Sprint(a, " ", a.Header.Get("x-ms-content-crc64") == crc64Of("one")), p.Read(tb, key)}
		},
	},
	{
		Name: "wrong-md5",
		Want: []string{"400 Md5Mismatch", "404 BlobNotFound"},
		Run: func(tb testing.TB, p prober) []string {
			key := "wrong-md5/a"
			defer p.Remove(tb, key)
			return []string{p.put(tb, key, "one", header{"Content-MD5": drivertest.MD5("two")}), p.Read(tb, key)}
		},
	},
	{
		Name: "malformed-md5",
		Want: []string{"400 InvalidMd5", "404 BlobNotFound"},
		Run: func(tb testing.TB, p prober) []string {
			key := "malformed-md5/a"
			defer p.Remove(tb, key)
			return []string{p.put(tb, key, "one", header{"Content-MD5": "no digest"}), p.Read(tb, key)}
		},
	},
	{
		Name: "metadata",
		Want: []string{"201", "200 3 12345678"},
		Run: func(tb testing.TB, p prober) []string {
			key := "metadata/a"
			defer p.Remove(tb, key)
			put := p.put(tb, key, "one", header{"x-ms-meta-crc32c": "12345678"})
			a := p.send(tb, http.MethodHead, key, nil, nil, nil)
			return []string{put, fmt.Sprint(a, " ", a.Header.Get("Content-Length"), " ", a.Header.Get("x-ms-meta-crc32c"))}
		},
	},
	{
		Name: "missing",
		Want: []string{"404 BlobNotFound", "404 BlobNotFound", "404 BlobNotFound", "404 BlobNotFound"},
		Run: func(tb testing.TB, p prober) []string {
			key := "missing/a"
			return []string{p.Read(tb, key), p.Read(tb, key, "bytes=0-0"), p.send(tb, http.MethodHead, key, nil, nil, nil).String(), p.Remove(tb, key)}
		},
	},
	{
		Name: "batch",
		Want: []string{"202", "2 times 202", "1 times 404 BlobNotFound", "404 BlobNotFound", "404 BlobNotFound"},
		Run: func(tb testing.TB, p prober) []string {
			p.put(tb, "batch/a", "one")
			p.put(tb, "batch/b", "two")
			got := p.batch(tb, "batch/a", "batch/b", "batch/c")
			return append(got, p.Read(tb, "batch/a"), p.Read(tb, "batch/b"))
		},
	},
	{
		Name: "batch-256",
		Want: []string{"202", "256 times 404 BlobNotFound"},
		Run:  func(tb testing.TB, p prober) []string { return p.batch(tb, integration.Numbered("batch-256", 256)...) },
	},
	{
		Name: "batch-257", // one part for all, without a number
		Want: []string{"202", "1 times 400 ExceedsMaxBatchRequestCount"},
		Run:  func(tb testing.TB, p prober) []string { return p.batch(tb, integration.Numbered("batch-257", 257)...) },
	},
	{
		Name: "batch-in-no-container",
		Want: []string{"202", "1 times 404 ContainerNotFound"},
		Run: func(tb testing.TB, p prober) []string {
			p.container = "walhop-none"
			return p.batch(tb, "a")
		},
	},
	{
		Name: "wrong-key",
		Want: []string{"403 AuthenticationFailed", "403 AuthenticationFailed"},
		Run: func(tb testing.TB, p prober) []string {
			p.key = base64.StdEncoding.EncodeToString([]byte("another key"))
			return []string{p.Read(tb, "wrong-key/a"), p.send(tb, http.MethodHead, "wrong-key/a", nil, nil, nil).String()}
		},
	},
	{
		Name: "wrong-clock",
		Want: []string{"403 AuthenticationFailed", "404 BlobNotFound"},
		Run: func(tb testing.TB, p prober) []string {
			late, right := p, p
			late.skew, right.skew = -20*time.Minute, -10*time.Minute
			return []string{late.Read(tb, "wrong-clock/a"), right.Read(tb, "wrong-clock/a")}
		},
	},
}
