package main

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/walhop/walhop/examples/internal/threebrokers"
	fakeazure "github.com/walhop/walhop/internal/fakes/azure"
	fakegcs "github.com/walhop/walhop/internal/fakes/gcs"
	fakes3 "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/walstorage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var closingLine = regexp.MustCompile(`(?m)^replicated (\d+) batches, (\d+) through the store, 0 differences$`)

// small is a run that takes a second.
func small(store string) settings {
	return settings{store: store, load: threebrokers.Load{Duration: 300 * time.Millisecond, Rate: 4, Partitions: 5, Linger: 5 * time.Millisecond}}
}

// s3Store starts a fake of S3 and returns it with the URL of a place in it.
func s3Store(t *testing.T) (*fakes3.Server, string) {
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "planted-secret", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none,
	} {
		t.Setenv(name, value)
	}
	fake := fakes3.New(fakes3.Config{Buckets: []string{"segments"}, AccessKeys: []string{"key"}})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	t.Cleanup(fake.Close)
	return fake, "s3://segments/demo?path_style=true&region=eu-west-7&endpoint=" + server.URL
}

// The whole program over each kind of store: everything arrives, through the store, and nothing of the run is left there.
func TestStores(t *testing.T) {
	t.Run("none given", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), &out, small("")), out.String())
		require.Regexp(t, closingLine, out.String())
		require.Contains(t, out.String(), "over file:///")
	})
	for name, open := range map[string]func(*testing.T) (fake, string){
		"s3":     func(t *testing.T) (fake, string) { return s3Store(t) },
		"gs":     func(t *testing.T) (fake, string) { return gcsStore(t) },
		"azblob": func(t *testing.T) (fake, string) { return azureStore(t) },
	} {
		t.Run(name, func(t *testing.T) {
			fake, url := open(t)
			fake.Store("segments", "demo/of/others", []byte("not ours"))
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), &out, small(url)), out.String())
			require.Regexp(t, closingLine, out.String())
			require.Contains(t, out.String(), "over "+name+"://segments/demo, as cluster walhop-cluster-")
			require.Regexp(t, `Put +\d+ requests +p50 .* 0 failed`, out.String())
			require.Equal(t, []string{"demo/of/others"}, fake.Keys("segments"))
		})
	}
}

// The whole program over each kind of metadata log, twice over the same one: the second run is a cluster of its own.
func TestMetadataLogs(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	for name, url := range map[string]string{
		"kafka": "kafka://" + strings.Join(cluster.ListenAddrs(), ",") + "/events?partitions=4&rack=zone-a",
		"file":  "file://" + t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				s := small("")
				s.metadata = url
				var out bytes.Buffer
				require.NoError(t, run(t.Context(), &out, s), out.String())
				require.Regexp(t, closingLine, out.String())
				require.NotContains(t, out.String(), "came through the store, the rest from the leaders")
			}
		})
	}
	records, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	require.NoError(t, err)
	defer records.Close()
	ends, err := kadm.NewClient(records).ListEndOffsets(t.Context(), "events")
	require.NoError(t, err)
	for partition := range int32(3) { // one for each broker
		end, ok := ends.Lookup("events", partition)
		require.True(t, ok)
		require.Positive(t, end.Offset)
	}
}

// A metadata log that cannot be used is told before anything is stored.
func TestMetadataLogThatCannotBeUsed(t *testing.T) {
	for url, says := range map[string]string{
		"kafka://host/a/b":             "-metadata: invalid argument: metadata log URL: kafka: the topic",
		"redis://host":                 "-metadata: invalid argument: metadata log URL: scheme redis is unknown",
		"file://" + t.TempDir() + "/x": "broker 0: file://",
	} {
		s := small("")
		s.metadata = url
		require.ErrorContains(t, run(t.Context(), &bytes.Buffer{}, s), says)
	}
}

// fake is what the fakes of all stores have in common.
type fake interface {
	Keys(bucket string) []string
	Store(bucket, key string, data []byte)
}

// azureStore is the same for Azure.
func azureStore(t *testing.T) (*fakeazure.Server, string) {
	t.Setenv("AZURE_STORAGE_KEY", "cGxhbnRlZC1zZWNyZXQ=")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "")
	fake := fakeazure.New(fakeazure.Config{Containers: []string{"segments"}})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	t.Cleanup(fake.Close)
	return fake, "azblob://segments/demo?account=account&endpoint=" + server.URL + "/account"
}

// gcsStore is the same for Google's.
func gcsStore(t *testing.T) (*fakegcs.Server, string) {
	fake := fakegcs.New(fakegcs.Config{Buckets: []string{"segments"}})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	t.Cleanup(fake.Close)
	return fake, "gs://segments/demo?endpoint=" + server.URL
}

// A store that is slow is no error, even if little comes through it: the followers got everything all the same.
func TestSlowStore(t *testing.T) {
	fake, url := s3Store(t)
	fake.Fault(func(r fakes3.Request) fakes3.Fault {
		if r.Op == "GetObject" && r.Number > 36 {
			return fakes3.Fault{Delay: 1500 * time.Millisecond}
		}
		return fakes3.Fault{}
	})
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, small(url)), out.String())
	require.Regexp(t, closingLine, out.String())
	require.Regexp(t, `only \d+ % came through the store`, out.String())
	require.Empty(t, fake.Keys("segments"))
}

// A store that refuses in the midst is an error, although the followers have everything.
func TestRefusingStore(t *testing.T) {
	fake, url := s3Store(t)
	fake.Fault(func(r fakes3.Request) fakes3.Fault {
		if r.Op == "PutObject" && r.Number > 20 && r.Number <= 23 {
			return fakes3.Fault{Status: 403, Code: "AccessDenied", Message: "no more"}
		}
		return fakes3.Fault{}
	})
	var out bytes.Buffer
	err := run(t.Context(), &out, small(url))
	require.ErrorIs(t, err, walstorage.ErrAccessDenied)
	require.ErrorContains(t, err, "failed otherwise than by slowness")
	require.Regexp(t, closingLine, out.String())
	require.Empty(t, fake.Keys("segments"))
}

// An interrupt ends production, lets what is on its way arrive, and what was stored is deleted.
func TestInterrupt(t *testing.T) {
	fake, url := s3Store(t)
	ctx, interrupt := context.WithCancel(t.Context())
	out := &interrupting{interrupt: interrupt}
	s := small(url)
	s.load.Duration = time.Hour
	require.NoError(t, run(ctx, out, s), out.String())
	require.Regexp(t, closingLine, out.String())
	require.Empty(t, fake.Keys("segments"))
}

// interrupting interrupts with the first line.
type interrupting struct {
	bytes.Buffer
	interrupt func()
}

func (i *interrupting) Write(p []byte) (int, error) {
	i.interrupt()
	return i.Buffer.Write(p)
}

// What is wrong with a bucket or a URL is told before anything is run, with what to do about it, and without a secret.
func TestFirstStart(t *testing.T) {
	refuses := func(op string) func(t *testing.T, s *settings, fake *fakes3.Server) {
		return func(_ *testing.T, _ *settings, fake *fakes3.Server) {
			fake.Fault(func(r fakes3.Request) fakes3.Fault {
				if r.Op == op {
					return fakes3.Fault{Status: 403, Code: "AccessDenied", Message: "no"}
				}
				return fakes3.Fault{}
			})
		}
	}
	for name, wrong := range map[string]struct {
		make func(t *testing.T, s *settings, fake *fakes3.Server)
		kind error
		says []string
	}{
		"bucket": {func(_ *testing.T, s *settings, _ *fakes3.Server) {
			s.store = strings.Replace(s.store, "segments", "missing", 1)
		}, walstorage.ErrBucketNotFound, []string{"s3://missing/demo: cannot list what is in it: ", "It has to exist"}},
		"credentials": {func(t *testing.T, _ *settings, _ *fakes3.Server) {
			t.Setenv("AWS_ACCESS_KEY_ID", "another")
		}, walstorage.ErrAccessDenied, []string{"cannot list what is in it: ", "The environment's credentials"}},
		"create": {refuses("PutObject"), walstorage.ErrAccessDenied, []string{"s3://segments/demo: cannot create an object: "}},
		"read":   {refuses("GetObject"), walstorage.ErrAccessDenied, []string{"cannot read it: ", "or may not do this"}},
		"list":   {refuses("ListObjectsV2"), walstorage.ErrAccessDenied, []string{"cannot list what is in it: "}},
		"delete": {refuses("DeleteObjects"), walstorage.ErrAccessDenied, []string{"cannot delete an object: "}},
		"URL": {func(_ *testing.T, s *settings, _ *fakes3.Server) {
			s.store = "s3://key:planted-secret@segments"
		}, walstorage.ErrInvalidArgument, []string{"-store: ", "credentials are no part of a URL"}},
		"directory": {func(t *testing.T, s *settings, _ *fakes3.Server) {
			s.store = "file://" + filepath.Join(t.TempDir(), "missing")
		}, walstorage.ErrBucketNotFound, []string{"file:///", "does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			fake, url := s3Store(t)
			s := small(url)
			wrong.make(t, &s, fake)
			var out bytes.Buffer
			err := run(t.Context(), &out, s)
			require.ErrorIs(t, err, wrong.kind)
			for _, says := range wrong.says {
				require.ErrorContains(t, err, says)
			}
			require.NotContains(t, err.Error(), "planted-secret")
			require.NotContains(t, err.Error(), "endpoint=")
			require.Empty(t, out.String(), "nothing has begun")
			require.NotContains(t, err.Error(), "may be left")
			require.Empty(t, fake.Keys("segments"), "nothing is left")
		})
	}
}

// Where an object that is there cannot be deleted, as in a bucket with a lock, it is named by its key.
func TestLockedBucket(t *testing.T) {
	fake, url := s3Store(t)
	fake.Fault(func(r fakes3.Request) fakes3.Fault {
		if r.Op == "DeleteObjects" && len(fake.Keys("segments")) > 0 {
			return fakes3.Fault{Status: 403, Code: "AccessDenied", Message: "locked"}
		}
		return fakes3.Fault{}
	})
	err := run(t.Context(), &bytes.Buffer{}, small(url))
	require.ErrorContains(t, err, "cannot delete it: ")
	left := fake.Keys("segments")
	require.Len(t, left, 1)
	require.ErrorContains(t, err, "may be left, below the prefix: "+strings.TrimPrefix(left[0], "demo/"))
}

// A wrong load is told too.
func TestLoad(t *testing.T) {
	s := small("")
	s.load.Rate = 0
	require.ErrorContains(t, run(t.Context(), &bytes.Buffer{}, s), "-rate")
}

// The exit code tells a store that took no part, a difference, or a refusal, and no slowness.
func TestJudge(t *testing.T) {
	refusal := errors.New("refused")
	require.NoError(t, judge(threebrokers.Result{Batches: 100, Through: 1}, nil))
	require.NoError(t, judge(threebrokers.Result{}, nil))
	require.ErrorContains(t, judge(threebrokers.Result{Batches: 100}, nil), "nothing came through the store")
	require.ErrorContains(t, judge(threebrokers.Result{Batches: 100, Through: 100, Differences: 1}, nil), "differ")
	require.ErrorIs(t, judge(threebrokers.Result{Batches: 100, Through: 100}, refusal), refusal)
	require.ErrorIs(t, judge(threebrokers.Result{Batches: 100, Differences: 1}, refusal), refusal)
}
