package openurl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/walstorage"
)

// What may appear in no text (W11).
const planted = "plantedHidden+Word/0123456789=="

// A URL that is wrong gives an error of its kind that says what is wrong and where, and repeats no value.
func TestBadURLs(t *testing.T) {
	for url, says := range map[string]string{
		"":                      "there is no scheme: want file:///dir, s3://bucket/prefix",
		"/mnt/shared":           "there is no scheme",
		"s3:bucket":             "there is no scheme",
		"ftp://bucket/prefix":   "scheme ftp is unknown: want file:///dir",
		planted + "://bucket/x": "the scheme is unknown",

		"file://":             "file: the directory is missing",
		"file:///":            "file: the directory is missing",
		"file://dir/sub":      "file: there is a host: a directory is written with three slashes",
		"file:///dir?mode=1":  "file: parameter mode is unknown: file has none",
		"file:///dir%00":      "file: the directory has a zero byte in it",
		"file:///dir%zz":      "file: this is no URL",
		"file://u:p@host/dir": "file: there is an @",

		"s3://":                         "s3: the bucket is missing",
		"s3:///prefix":                  "s3: the bucket is missing",
		"s3://bucket:9000/prefix":       "s3: there is a port: the server of a store is given by the parameter endpoint",
		"s3://bucket:/prefix":           "s3: there is a port",
		"s3://buc,ket/prefix":           "s3: the bucket has something else in its name",
		"s3://buc ket/prefix":           "s3: this is no URL",
		"s3://bucket//prefix":           "s3: the path is no prefix",
		"s3://bucket/a//b":              "s3: the path is no prefix",
		"s3://bucket/a/../b":            "s3: the path is no prefix",
		"s3://bucket/a%2C":              "s3: the path is no prefix",
		"s3://bucket/" + long:           "s3: the path is no prefix",
		"s3://bucket/prefix#part":       "s3: there is a fragment",
		"s3://bucket/prefix#":           "s3: there is a fragment",
		"s3://bucket?pathstyle=true":    "s3: parameter pathstyle is unknown: s3 has endpoint, kms_key_id, no_checksum, path_style, provider, region",
		"s3://bucket?region=x&1=y":      "s3: parameter number 2 is unknown",
		"s3://bucket?region=x&":         "s3: parameter number 2 is unknown",
		"s3://bucket?region":            "s3: parameter region has no value",
		"s3://bucket?region=":           "s3: parameter region has no value",
		"s3://bucket?region=a&region=b": "s3: parameter region is there twice",
		"s3://bucket?region=a/b":        "s3: parameter region has something else in it",
		"s3://bucket?region=%zz":        "s3: parameter region has a bad % escape in it",
		"s3://bucket?path_style=yes":    "s3: parameter path_style is neither true nor false",
		"s3://bucket?path_style=TRUE":   "s3: parameter path_style is neither true nor false",
		"s3://bucket?kms_key_id=%00":    "s3: parameter kms_key_id has something else in it than printable ASCII",

		"s3://bucket?endpoint=127.0.0.1:9000":         "s3: parameter endpoint does not begin with http:// or https://",
		"s3://bucket?endpoint=http://":                "s3: parameter endpoint has no host",
		"s3://bucket?endpoint=http://:9000":           "s3: parameter endpoint has no host",
		"s3://bucket?endpoint=http://host:port":       "s3: parameter endpoint is no URL",
		"s3://bucket?endpoint=http://host/?x":         "s3: parameter endpoint has a query or a fragment",
		"s3://bucket?endpoint=http://host%23x":        "s3: parameter endpoint has a query or a fragment",
		"s3://bucket?endpoint=http://u:p%40host:9000": "s3: parameter endpoint has a user or a password in it",
		"s3://bucket?endpoint=http://u:p@host:9000":   "s3: there is an @",

		"gs://":                       "gs: the bucket is missing",
		"gs://b/p?path_style=true":    "gs: parameter path_style is unknown: gs has anonymous, endpoint",
		"gs://b/p?anonymous=1":        "gs: parameter anonymous is neither true nor false",
		"gs://b/p?endpoint=localhost": "gs: parameter endpoint does not begin with http",
		"gs://b/p?access_token=x":     "gs: parameter access_token: credentials are no part of a URL, they come from GOOGLE_APPLICATION_CREDENTIALS ",

		"azblob://":                      "azblob: the container is missing",
		"azblob://c/p?region=x":          "azblob: parameter region is unknown: azblob has account, endpoint, md5",
		"azblob://c/p?account=a.b":       "azblob: parameter account has something else in it",
		"azblob://c/p?md5=1":             "azblob: parameter md5 is neither true nor false",
		"azblob://c/p?endpoint=ftp://h":  "azblob: parameter endpoint does not begin with http",
		"azblob://c/p?account_key=x":     "azblob: parameter account_key: credentials are no part of a URL, they come from AZURE_STORAGE_KEY, ",
		"azblob://c/p?account=a&sv=2024": "azblob: parameter sv is unknown",
	} {
		t.Run(url, func(t *testing.T) {
			_, err := Parse(url)
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			require.ErrorContains(t, err, "store URL: "+says)
		})
	}
}

// The same of a metadata log.
func TestBadLogURLs(t *testing.T) {
	for url, says := range map[string]string{
		"":                     "there is no scheme: want file:///dir, kafka://host:port/topic",
		"s3://bucket/prefix":   "the scheme is unknown: want file:///dir, kafka://host:port/topic",
		planted + "://host":    "the scheme is unknown",
		"file://":              "file: the directory is missing",
		"file:///dir?mode=1":   "file: parameter mode is unknown: file has none",
		"kafka://":             "kafka: the broker is missing",
		"kafka:///topic":       "kafka: the broker is missing",
		"kafka://a,,b":         "kafka: the broker is missing",
		"kafka://a:0":          "kafka: a broker's port is no number from 1 to 65535",
		"kafka://a:1x,b:2":     "kafka: a broker's port is no number",
		"kafka://a,b:port":     "kafka: this is no URL",
		"kafka://a!b:1":        "kafka: a broker has something else in its name",
		"kafka://a/b/c":        "kafka: the topic is no name",
		"kafka://a/b%20c":      "kafka: the topic is no name",
		"kafka://a/..":         "kafka: the topic is no name",
		"kafka://a/" + long:    "kafka: the topic is no name",
		"kafka://a/t#x":        "kafka: there is a fragment",
		"kafka://a?acks=1":     "kafka: parameter acks is unknown: kafka has min_insync_replicas, partitions, rack, replication_factor, sasl, tls",
		"kafka://a?tls=1":      "kafka: parameter tls is neither true nor false",
		"kafka://a?sasl=oauth": "kafka: parameter sasl is none of plain, scram-sha-256, scram-sha-512",

		"kafka://a?partitions=0":           "kafka: parameter partitions is no number from 1 to 10000",
		"kafka://a?replication_factor=all": "kafka: parameter replication_factor is no number",
		"kafka://a?rack=a%0ab":             "kafka: parameter rack has something else in it than printable ASCII",

		"kafka://user:" + planted + "@host":            "kafka: there is an @, so a user or a password: credentials are no part of a URL, they come from KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
		"kafka://user:/" + planted + "@host":           "kafka: there is an @",
		"kafka://host?password=" + planted:             "kafka: parameter password: credentials are no part of a URL",
		"kafka://host?sasl=plain&sasl_user=" + planted: "kafka: parameter sasl_user: credentials are no part of a URL",
		"kafka://host?" + planted:                      "kafka: parameter number 1 is unknown",
	} {
		t.Run(url, func(t *testing.T) {
			_, err := ParseLog(url)
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			require.ErrorContains(t, err, "metadata log URL: "+says)
			for _, part := range []string{planted, "Hidden", "0123456789"} {
				require.NotContains(t, err.Error(), part)
			}
		})
	}
}

// FuzzParseLog is FuzzParse for metadata logs.
func FuzzParseLog(f *testing.F) {
	f.Add("kafka://h:9092,g:9093/topic?partitions=3&sasl=plain")
	f.Add("kafka://[::1]:9093")
	f.Add("file:///dir")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLog(text)
		if err != nil {
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			require.Less(t, len(err.Error()), 400)
			return
		}
		if strings.HasPrefix(text, "file") {
			return
		}
		require.NotContains(t, l.String(), "?")
		require.NotContains(t, l.String(), "@")
		again, err := ParseLog(l.String())
		require.NoError(t, err)
		require.Equal(t, l.String(), again.String())
	})
}

var long = strings.Repeat("a", 250) + "/" + strings.Repeat("b", 250) + "/" + strings.Repeat("c", 250)

// A credential is refused wherever it stands, in words that tell where it belongs and do not repeat it (W11).
func TestCredentialsInURLs(t *testing.T) {
	escaped := strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(planted)
	for _, s := range schemes() {
		if s.bucket == "" {
			continue
		}
		for _, secret := range []string{planted, escaped} {
			for _, form := range []string{
				"://key:SECRET@bucket/prefix",
				"://SECRET@bucket/prefix",
				"://key:/SECRET@bucket/prefix",
				"://bucket/prefix?access_key=SECRET",
				"://bucket/prefix?region=x&AWSSecretAccessKey=SECRET",
				"://bucket/prefix?X-Amz-Signature=SECRET",
				"://bucket/prefix?sv=2024&sig=SECRET",
				"://bucket/prefix?sas_token=SECRET",
				"://bucket/prefix?SECRET",
				"://bucket/prefix?SECRET=x",
				"://bucket/prefix?endpoint=https://user:SECRET@host",
				"://bucket/prefix?endpoint=https://user:SECRET%40host",
				"://bucket/prefix?endpoint=https://host/?sig=SECRET",
				"://bucket/prefix#SECRET",
				"://bucket:SECRET",
				"://bucket/+SECRET",
			} {
				url := s.name + strings.ReplaceAll(form, "SECRET", secret)
				_, err := Parse(url)
				require.ErrorIs(t, err, walstorage.ErrInvalidArgument, form)
				for _, part := range []string{planted, escaped, "Hidden", "0123456789"} {
					require.NotContains(t, err.Error(), part, form)
				}
			}
			_, err := Parse(s.name + "://bucket/prefix?secret_key=" + secret)
			require.ErrorContains(t, err, "parameter secret_key: "+s.credentials)
		}
	}
}

// A good URL names its place, without the parameters.
func TestGoodURLs(t *testing.T) {
	for url, name := range map[string]string{
		"file:///mnt/shared":               "file:///mnt/shared",
		"file:///mnt/shared/":              "file:///mnt/shared",
		"file:///mnt/a%20b@c":              "file:///mnt/a b@c",
		"s3://bucket":                      "s3://bucket",
		"s3://bucket/":                     "s3://bucket",
		"s3://My_Bucket.x/a/b-c_d/":        "s3://My_Bucket.x/a/b-c_d",
		"s3://fast--use1-az4--x-s3/wal":    "s3://fast--use1-az4--x-s3/wal",
		"s3://bucket/wal?region=eu-west-1": "s3://bucket/wal",
		"s3://bucket?endpoint=https://host:9000/at&path_style=true&no_checksum=false&kms_key_id=alias/a": "s3://bucket",
		"gs://bucket/wal?anonymous=false":                        "gs://bucket/wal",
		"azblob://container/wal?account=name&md5=true":           "azblob://container/wal",
		"s3://bucket?endpoint=http%3A%2F%2F%5B%3A%3A1%5D%3A9000": "s3://bucket",
	} {
		t.Run(url, func(t *testing.T) {
			l, err := Parse(url)
			require.NoError(t, err)
			require.Equal(t, name, l.String())
		})
	}
}

// seeds are URLs, with what is said of the wrong ones. Each of those has one thing wrong.
var seeds = []struct{ name, url, says string }{
	{"file", "file:///mnt/shared", ""},
	{"file-escaped", "file:///mnt/a%20b@c", ""},
	{"file-relative", "file://mnt/shared", "file: "},
	{"file-zero-byte", "file:///dir%00", "zero byte"},
	{"file-parameter", "file:///dir?mode=1", "unknown"},
	{"s3", "s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1&path_style=true", ""},
	{"s3-express", "s3://fast--use1-az4--x-s3/wal", ""},
	{"s3-ipv6", "s3://bucket?endpoint=http%3A%2F%2F%5B%3A%3A1%5D%3A9000", ""},
	{"s3-no-bucket", "s3:///prefix", "bucket is missing"},
	{"s3-port", "s3://bucket:9000/prefix", "there is a port"},
	{"s3-user", "s3://key:secret@bucket?region", "there is an @"},
	{"s3-fragment", "s3://bucket/prefix#part", "fragment"},
	{"s3-path-up", "s3://bucket/a/../b", "no prefix"},
	{"s3-parameter-twice", "s3://bucket?region=a&region=b", "there twice"},
	{"s3-parameter-empty", "s3://bucket?region=", "no value"},
	{"s3-bad-escape", "s3://bucket?region=%zz", "bad % escape"},
	{"s3-credential", "s3://bucket?secret_key=x", "credentials are no part of a URL"},
	{"s3-endpoint-user", "s3://bucket?endpoint=http://u:p%40host:9000", "user or a password"},
	{"gs", "gs://bucket/wal?anonymous=false", ""},
	{"gs-boolean", "gs://bucket?anonymous=1", "neither true nor false"},
	{"azblob", "azblob://container/wal?account=name&md5=true", ""},
	{"azblob-sas", "azblob://c/p?account=a&sv=2024&sig=x", "unknown"},
	{"no-scheme", "bucket/prefix", ""},
	{"other-scheme", "ftp://host/dir", ""},
	{"no-utf8", "s3://bucket/\xff", "s3: "},
}

func TestCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range seeds {
		_, err := Parse(seed.url)
		if seed.says != "" || !strings.Contains(seed.url, "://") || strings.HasPrefix(seed.url, "ftp") {
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument, seed.name)
			require.ErrorContains(t, err, seed.says, seed.name)
		} else {
			require.NoError(t, err, seed.name)
		}
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.url}})
	}
	corpus.Check(t, "FuzzParse", files...)
}

// Whatever the text, Parse returns a location or an error of its kind that is short and repeats no value, and a
// location's name is a location again and has nothing but the place in it (W11).
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			require.Less(t, len(err.Error()), 400)
			return
		}
		require.Equal(t, l.bucket == "", strings.HasPrefix(l.String(), "file://"))
		if l.bucket != "" {
			require.NotContains(t, l.String(), "?")
			require.NotContains(t, l.String(), "@")
			again, err := Parse(l.String())
			require.NoError(t, err)
			require.Equal(t, l.String(), again.String())
			_, err = Parse(l.String() + "?access_key=x")
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
		}
	})
}
