package fakegcs

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/integration"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/gcs"
)

// Requests as no driver of ours sends them are answered alike by our fake and by a real server: as Google Cloud Storage
// does.
func TestProbes(t *testing.T) {
	address := integration.FakeGCS.Address(t)
	store := drivertest.Serve(t, fake.New(fake.Config{Buckets: []string{drivertest.Bucket}}))
	client := integration.Client(t)
	integration.RunProbes(t, integration.FakeGCS, append(integration.StoreProbes[prober](t, ofEveryStore), probes...),
		prober{store, drivertest.Bucket, client},
		prober{address, newBucket(t, address), client})
}

// prober sends requests about one bucket.
type prober struct {
	url, bucket string
	client      *http.Client
}

// answer is what came back.
type answer struct{ integration.Answer }

// String is the status and the reason of an error, where it has one.
func (a answer) String() string {
	var described struct {
		Error struct{ Errors []struct{ Reason string } }
	}
	if json.Unmarshal(a.Body, &described) == nil && len(described.Error.Errors) > 0 {
		return fmt.Sprint(a.Status, " ", described.Error.Errors[0].Reason)
	}
	var problem struct {
		XMLName xml.Name
		Code    string
	}
	if xml.Unmarshal(a.Body, &problem) == nil && problem.XMLName.Local == "Error" {
		return fmt.Sprint(a.Status, " ", problem.Code)
	}
	return fmt.Sprint(a.Status)
}

func (p prober) send(tb testing.TB, method, path string, header http.Header, body []byte) answer {
	out, err := http.NewRequestWithContext(tb.Context(), method, p.url+path, bytes.NewReader(body))
	require.NoError(tb, err)
	for name, values := range header {
		out.Header[name] = values
	}
	return answer{integration.Send(tb, p.client, out)}
}

// insert is an upload in one multipart request. described is added to the metadata, query to the URL.
func (p prober) insert(tb testing.TB, bucket, key, body string, described map[string]string, query url.Values) answer {
	var out bytes.Buffer
	parts := multipart.NewWriter(&out)
	metadata := map[string]string{"name": key}
	for name, value := range described {
		metadata[name] = value
	}
	text, err := json.Marshal(metadata)
	require.NoError(tb, err)
	for _, part := range []struct{ kind, body string }{{"application/json", string(text)}, {"application/octet-stream", body}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {part.kind}})
		require.NoError(tb, err)
		_, err = io.WriteString(w, part.body)
		require.NoError(tb, err)
	}
	require.NoError(tb, parts.Close())
	all := url.Values{"uploadType": {"multipart"}, "alt": {"json"}}
	for name, values := range query {
		all[name] = values
	}
	return p.send(tb, http.MethodPost, "/upload/storage/v1/b/"+bucket+"/o?"+all.Encode(),
		http.Header{"Content-Type": {"multipart/related; boundary=" + parts.Boundary()}}, out.Bytes())
}

func (p prober) put(tb testing.TB, key, body string, described map[string]string) string {
	return p.insert(tb, p.bucket, key, body, described, nil).String()
}

var createOnly = url.Values{"ifGenerationMatch": {"0"}}

// object is the path of an object in the JSON API.
func (p prober) object(key string) string {
	return "/storage/v1/b/" + p.bucket + "/o/" + url.PathEscape(key)
}

// byXML reads by the XML API, which is the default of the SDK, and byJSON by the JSON API, which is that of our driver.
func (p prober) byXML(tb testing.TB, key string, ranges ...string) answer {
	return p.send(tb, http.MethodGet, "/"+p.bucket+"/"+key, rangeOf(ranges), nil)
}

func (p prober) byJSON(tb testing.TB, key string, ranges ...string) answer {
	return p.send(tb, http.MethodGet, p.object(key)+"?alt=media", rangeOf(ranges), nil)
}

// Read gives the status and the bytes, by either API.
func (p prober) Read(tb testing.TB, key string, ranges ...string) string {
	byXML, byJSON := read(p.byXML(tb, key, ranges...)), read(p.byJSON(tb, key, ranges...))
	if byXML != byJSON {
		return byXML + " but by JSON " + byJSON
	}
	return byXML
}

func rangeOf(ranges []string) http.Header {
	header := http.Header{}
	for _, value := range ranges {
		header.Set("Range", value)
	}
	return header
}

func read(a answer) string {
	if a.Status >= 300 {
		return fmt.Sprint(a.Status)
	}
	return a.Object()
}

func (p prober) Remove(tb testing.TB, keys ...string) string {
	var last string
	for _, key := range keys {
		last = p.send(tb, http.MethodDelete, p.object(key), nil, nil).String()
	}
	return last
}

// stat gives the status, the size and the checksum.
func (p prober) stat(tb testing.TB, key string) string {
	a := p.send(tb, http.MethodGet, p.object(key), nil, nil)
	if a.Status >= 300 {
		return a.String()
	}
	var described struct{ Name, Size, Crc32c, Generation string }
	require.NoError(tb, json.Unmarshal(a.Body, &described))
	return fmt.Sprint(a.Status, " ", described.Name, " ", described.Size, " ", described.Crc32c, " ", described.Generation != "")
}

// list gives the status and keys of one page, "more" if there is more, and the token.
func (p prober) list(tb testing.TB, query url.Values) (page, token string) {
	a := p.send(tb, http.MethodGet, "/storage/v1/b/"+p.bucket+"/o?"+query.Encode(), nil, nil)
	if a.Status >= 300 {
		return a.String(), ""
	}
	var result struct {
		Items         []struct{ Name string }
		NextPageToken string
	}
	require.NoError(tb, json.Unmarshal(a.Body, &result))
	words := []string{fmt.Sprint(a.Status)}
	for _, item := range result.Items {
		words = append(words, item.Name)
	}
	if result.NextPageToken != "" {
		words = append(words, "more")
	}
	return strings.Join(words, " "), result.NextPageToken
}

func crc32cOf(body string) string {
	sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// The other requests of integration.Asker.

func (p prober) Create(tb testing.TB, key, body string) string {
	return p.insert(tb, p.bucket, key, body, nil, createOnly).String()
}

func (p prober) Overwrite(tb testing.TB, key, body string) string { return p.put(tb, key, body, nil) }

func (p prober) Page(tb testing.TB, prefix string, size int, token string) (page, next string) {
	return p.list(tb, integration.PageOf(prefix, "maxResults", size, "pageToken", token))
}

// ofEveryStore are the answers to the probes of what every store has.
var ofEveryStore = map[string][]string{
	"create-twice":        {"200", "412 conditionNotMet", "412 conditionNotMet", "200 one"},
	"create-after-delete": {"200", "204", "200", "200 two"},
	"overwrite":           {"200", "200", "200 two"},
	"range":               {"206 0 bytes 0-0/10", "206 2345 bytes 2-5/10", "206 9 bytes 9-9/10", "206 0123456789 bytes 0-9/10", "206 89 bytes 8-9/10"},
	"range-of-nothing":    {"200", "416"},
	"list-pages":          {"200 list-pages/a list-pages/b more", "200 list-pages/c list-pages/d more", "200 list-pages/e"},
	"list-exact-page":     {"200 list-exact-page/a list-exact-page/b"},
	"list-order":          {"200 list-order/a-b list-order/a.b list-order/a/b list-order/a0 list-order/b"},
	"list-nothing":        {"200"},
	"object-below-object": {"200", "200", "200 one", "200 two"},
}

// Each probe works on keys that begin with its name, and leaves none.
var probes = []integration.Probe[prober]{
	{
		Name: "generation-match", // an overwrite of what was read
		Want: []string{"412 conditionNotMet", "200", "200 two"},
		Run: func(tb testing.TB, p prober) []string {
			key := "generation-match/a"
			defer p.Remove(tb, key)
			var described struct{ Generation string }
			require.NoError(tb, json.Unmarshal(p.insert(tb, p.bucket, key, "one", nil, nil).Body, &described))
			return []string{
				p.insert(tb, p.bucket, key, "two", nil, url.Values{"ifGenerationMatch": {"1" + described.Generation}}).String(),
				p.insert(tb, p.bucket, key, "two", nil, url.Values{"ifGenerationMatch": {described.Generation}}).String(),
				p.Read(tb, key),
			}
		},
	},
	{
		Name: "create-in-no-bucket",
		Want: []string{"404 notFound"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{p.insert(tb, "walhop-none", "a", "one", nil, createOnly).String()}
		},
	},
	{
		Name: "stat-in-no-bucket",
		Want: []string{"404 notFound"},
		Run: func(tb testing.TB, p prober) []string {
			p.bucket = "walhop-none"
			return []string{p.stat(tb, "a")}
		},
	},
	{
		Name: "read-in-no-bucket",
		Want: []string{"404 NoSuchBucket", "404"},
		Run: func(tb testing.TB, p prober) []string {
			p.bucket = "walhop-none"
			return []string{p.byXML(tb, "a").String(), fmt.Sprint(p.byJSON(tb, "a").Status)}
		},
	},
	{
		Name: "list-in-no-bucket",
		Want: []string{"404 notFound"},
		Run: func(tb testing.TB, p prober) []string {
			p.bucket = "walhop-none"
			page, _ := p.list(tb, nil)
			return []string{page}
		},
	},
	{
		Name: "wrong-crc32c",
		Want: []string{"400 invalid", "404"},
		Run: func(tb testing.TB, p prober) []string {
			key := "wrong-crc32c/a"
			return []string{p.put(tb, key, "one", map[string]string{"crc32c": crc32cOf("two")}), p.Read(tb, key)}
		},
	},
	{
		Name: "wrong-md5",
		Want: []string{"400 invalid", "404"},
		Run: func(tb testing.TB, p prober) []string {
			key := "wrong-md5/a"
			return []string{p.put(tb, key, "one", map[string]string{"md5Hash": drivertest.MD5("two")}), p.Read(tb, key)}
		},
	},
	{
		Name: "stat",
		Want: []string{"200", "200 stat/a 3 " + crc32cOf("one") + " true"},
		Run: func(tb testing.TB, p prober) []string {
			key := "stat/a"
			defer p.Remove(tb, key)
			return []string{p.put(tb, key, "one", map[string]string{"crc32c": crc32cOf("one"), "md5Hash": drivertest.MD5("one")}), p.stat(tb, key)}
		},
	},
	{
		Name: "read-missing",
		Want: []string{"404 NoSuchKey", "404"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{p.byXML(tb, "read-missing/a").String(), fmt.Sprint(p.byJSON(tb, "read-missing/a").Status)}
		},
	},
	{
		Name: "missing",
		Want: []string{"404 notFound", "404 notFound"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{p.stat(tb, "missing/a"), p.Remove(tb, "missing/a")}
		},
	},
	{
		Name: "range-beyond-end",
		Want: []string{"416 InvalidRange", "416", "416 InvalidRange", "416"},
		Run: func(tb testing.TB, p prober) (got []string) {
			key := "range-beyond-end/a"
			defer p.Remove(tb, key)
			p.put(tb, key, "0123456789", nil)
			for _, value := range []string{"bytes=10-10", "bytes=100-200"} {
				got = append(got, p.byXML(tb, key, value).String(), fmt.Sprint(p.byJSON(tb, key, value).Status))
			}
			return got
		},
	},
	{
		Name: "range-told", // what the object is, beside the bytes
		Want: []string{"206 crc32c=" + crc32cOf("0123456789") + " 10 true"},
		Run: func(tb testing.TB, p prober) []string {
			key := "range-told/a"
			defer p.Remove(tb, key)
			p.put(tb, key, "0123456789", nil)
			a := p.byXML(tb, key, "bytes=2-5")
			hash, _, _ := strings.Cut(strings.Join(a.Header.Values("X-Goog-Hash"), ","), ",")
			return []string{fmt.Sprint(a.Status, " ", hash, " ", a.Header.Get("X-Goog-Stored-Content-Length"), " ", a.Header.Get("X-Goog-Generation") != "")}
		},
	},
	{
		Name: "list-wrong-token",
		Want: []string{"400 invalid"},
		Run: func(tb testing.TB, p prober) []string {
			page, _ := p.list(tb, url.Values{"pageToken": {"no token"}})
			return []string{page}
		},
	},
	{
		Name: "list-page-size", // 1,000, whatever is asked for
		Want: []string{"1000 of 1001, more"},
		Run: func(tb testing.TB, p prober) []string {
			keys := make([]string, 1001)
			for i := range keys {
				keys[i] = fmt.Sprintf("list-page-size/%d", i)
				require.Equal(tb, "200", p.put(tb, keys[i], "x", nil))
			}
			defer p.Remove(tb, keys...)
			page, token := p.list(tb, url.Values{"prefix": {"list-page-size/"}, "maxResults": {"5000"}})
			more := "no more"
			if token != "" {
				more = "more"
			}
			return []string{fmt.Sprintf("%d of 1001, %s", strings.Count(page, "list-page-size/"), more)}
		},
	},
	{
		Name: "gzip-stays-gzip", // an object whose encoding is not told is handed out as it is
		Want: []string{"200 \x1f\x8b\x08"},
		Run: func(tb testing.TB, p prober) []string {
			key := "gzip-stays-gzip/a"
			defer p.Remove(tb, key)
			p.put(tb, key, "\x1f\x8b\x08", nil)
			return []string{p.Read(tb, key)}
		},
	},
	{
		Name: "bucket-there",
		Want: []string{"200", "404 notFound"},
		Run: func(tb testing.TB, p prober) []string {
			return []string{
				p.send(tb, http.MethodGet, "/storage/v1/b/"+p.bucket, nil, nil).String(),
				p.send(tb, http.MethodGet, "/storage/v1/b/walhop-none", nil, nil).String(),
			}
		},
	},
}
