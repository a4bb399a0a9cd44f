package walstorage_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

func newKeys(t testing.TB, prefix, cluster string) walstorage.Keys {
	t.Helper()
	keys, err := walstorage.NewKeys(prefix, cluster)
	require.NoError(t, err)
	return keys
}

func TestKeyLayout(t *testing.T) {
	id := newID(t, 12, 345, time.Date(2026, 7, 4, 23, 59, 59, 999_000_000, time.UTC), 0x11)

	tests := map[string]struct{ prefix, want string }{
		"at the root":                  {"", "prod/"},
		"below a prefix":               {"wal", "wal/prod/"},
		"a slash at the end (A6)":      {"wal/", "wal/prod/"},
		"a prefix of several parts":    {"team-1/wal_2/x.y", "team-1/wal_2/x.y/prod/"},
		"a prefix of legal dots (A5)":  {"..wal", "..wal/prod/"},
		"a prefix of 512 legal bytes":  {strings.Repeat("a", 255) + "/" + strings.Repeat("b", 255) + "/", strings.Repeat("a", 255) + "/" + strings.Repeat("b", 255) + "/prod/"},
		"upper case is not folded":     {"WAL", "WAL/prod/"},
		"a part that ends like a file": {"x.wal", "x.wal/prod/"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			keys := newKeys(t, test.prefix, "prod")

			key := keys.Key(id)

			assert.Equal(t, test.want+"12/2026070423/59/345-"+id.UUID.String()+".wal", key)
			parsed, ok := keys.Parse(key)
			assert.True(t, ok)
			assert.Equal(t, id, parsed)
		})
	}
}

func TestKeysAreShortEnoughForEveryStore(t *testing.T) {
	keys := newKeys(t, strings.Repeat("a", 255)+"/"+strings.Repeat("b", 255)+"/", strings.Repeat("c", 255))
	id := newID(t, math.MaxInt32, math.MaxInt64, time.UnixMilli(1<<48-1), 0xff)

	key := keys.Key(id)

	assert.LessOrEqual(t, len(key), 900, "what the documentation of objectstore.Driver promises")
	parsed, ok := keys.Parse(key)
	assert.True(t, ok)
	assert.Equal(t, id, parsed)
}

// redpanda-data/redpanda#10560: a key holds only characters that no store quotes, signs or stores in another way: letters,
// digits, and of the rest those few that are allowed.
func TestNewKeysRefuses(t *testing.T) {
	tests := map[string]struct{ prefix, cluster, names string }{
		"no cluster":                   {"", "", "Cluster"},
		"a cluster of two parts":       {"", "a/b", "Cluster"},
		"a cluster that is a parent":   {"", "..", "Cluster"},
		"a cluster that is itself":     {"", ".", "Cluster"},
		"a cluster that ends in a dot": {"", "prod.", "Cluster"},
		"a part that ends in a dot":    {"wal./x", "c", "Prefix"},
		"a cluster with a space":       {"", "a b", "Cluster"},
		"a cluster of 256 bytes":       {"", strings.Repeat("c", 256), "Cluster"},
		"a control character (G5)":     {"", "a\x00", "Cluster"},
		"invalid UTF-8 (G5)":           {"", "a\xff", "Cluster"},
		"unicode":                      {"", "é", "Cluster"},
		"a prefix that begins with /":  {"/wal", "c", "Prefix"},
		"an empty part (G4)":           {"a//b", "c", "Prefix"},
		"two slashes at the end":       {"a//", "c", "Prefix"},
		"a slash alone":                {"/", "c", ""},
		"a parent in the prefix (G4)":  {"a/../b", "c", "Prefix"},
		"a dot in the prefix":          {"a/./b", "c", "Prefix"},
		"a percent sign (G2)":          {"a%2Fb", "c", "Prefix"},
		"a colon":                      {"a:b", "c", "Prefix"},
		"a prefix of 513 bytes":        {strings.Repeat("a", 255) + "/" + strings.Repeat("b", 255) + "/cc", "c", "Prefix"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := walstorage.NewKeys(test.prefix, test.cluster)

			if test.names == "" {
				require.NoError(t, err, "a slash at the end of nothing changes nothing")
				return
			}
			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			assert.ErrorContains(t, err, test.names)
		})
	}
}

// A foreign object below the prefix, whatever its name, is no segment: List passes it over, nothing deletes it.
func TestParseRefusesForeignKeys(t *testing.T) {
	keys := newKeys(t, "wal", "prod")
	id := newID(t, 12, 345, time.Date(2026, 7, 4, 23, 59, 0, 0, time.UTC), 0x11)
	own := keys.Key(id)
	text := id.UUID.String()

	foreign := map[string]string{
		"empty":                           "",
		"the base alone":                  "wal/prod/",
		"a readme":                        "wal/prod/README.md",
		"no suffix":                       strings.TrimSuffix(own, ".wal"),
		"a temporary file":                own + ".tmp",
		"a file beside the base":          "wal/prodx" + strings.TrimPrefix(own, "wal/prod"),
		"another cluster (A5)":            newKeys(t, "wal", "prod2").Key(id),
		"another prefix (A5)":             newKeys(t, "wal2", "prod").Key(id),
		"a prefix that is longer":         newKeys(t, "wal/prod", "prod").Key(id),
		"the folder of another hour":      strings.Replace(own, "2026070423", "2026070422", 1),
		"the folder of another minute":    strings.Replace(own, "/59/", "/58/", 1),
		"a plus sign":                     strings.Replace(own, "/12/", "/+12/", 1),
		"a leading zero":                  strings.Replace(own, "/12/", "/012/", 1),
		"a negative broker":               strings.Replace(own, "/12/", "/-12/", 1),
		"a broker beyond 32 bits":         strings.Replace(own, "/12/", "/4294967308/", 1),
		"a negative epoch":                strings.Replace(own, "345-", "-345-", 1),
		"an epoch beyond 64 bits":         strings.Replace(own, "345-", "99999999999999999999-", 1),
		"an upper case UUID":              strings.Replace(own, text, strings.ToUpper(text), 1),
		"a UUID in braces":                strings.Replace(own, text, "{"+text+"}", 1),
		"a UUID as a URN":                 strings.Replace(own, text, "urn:uuid:"+text, 1),
		"a UUID without dashes":           strings.Replace(own, text, strings.ReplaceAll(text, "-", ""), 1),
		"a UUID of version 4":             strings.Replace(own, text, "11111111-1111-4111-9111-111111111111", 1),
		"one more folder":                 strings.Replace(own, "/59/", "/59/x/", 1),
		"one folder fewer":                strings.Replace(own, "/59/", "/", 1),
		"a double slash":                  strings.Replace(own, "/59/", "/59//", 1),
		"a slash in front":                "/" + own,
		"the name alone":                  own[strings.LastIndexByte(own, '/')+1:],
		"the suffix alone behind a slash": "wal/prod/.wal",
	}
	for name, key := range foreign {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, own, key, "the test changes something")

			_, ok := keys.Parse(key)

			assert.False(t, ok, key)
		})
	}
}

// Parse and Key are inverse: whatever Parse accepts, Key builds byte for byte, and what Key builds, Parse reads back.
func FuzzKeysParse(f *testing.F) {
	keys := newKeys(f, "wal", "prod")
	f.Add("wal/prod/README", int32(math.MaxInt32), int64(math.MaxInt64), uint64(math.MaxUint64), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, key string, broker int32, epoch int64, high, low uint64) {
		if id, ok := keys.Parse(key); ok {
			if err := id.Validate(); err != nil {
				t.Fatalf("Parse(%q) gives an id that is not valid: %v", key, err)
			}
			if built := keys.Key(id); built != key {
				t.Fatalf("Parse accepts %q, Key builds %q", key, built)
			}
		}
		id := walstorage.SegmentID{BrokerID: broker, BrokerEpoch: epoch}
		binary.BigEndian.PutUint64(id.UUID[:8], high)
		binary.BigEndian.PutUint64(id.UUID[8:], low)
		id.UUID[6] = id.UUID[6]&0x0f | 0x70
		id.UUID[8] = id.UUID[8]&0x3f | 0x80
		if id.Validate() != nil {
			return
		}
		if parsed, ok := keys.Parse(keys.Key(id)); !ok || parsed != id {
			t.Fatalf("%v is built as %q and read back as %v, %v", id, keys.Key(id), parsed, ok)
		}
	})
}

func TestPrefixes(t *testing.T) {
	keys := newKeys(t, "wal", "prod")
	broker := int32(7)
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 7, day, hour, minute, 0, 0, time.UTC) }
	millis := func(base time.Time, d time.Duration) time.Time { return base.Add(d) }

	tests := map[string]struct {
		options walstorage.ListOptions
		want    []string
	}{
		"everything":                    {walstorage.ListOptions{}, []string{"wal/prod/"}},
		"bounds without a broker":       {walstorage.ListOptions{CreatedAfter: at(4, 1, 0), CreatedBefore: at(4, 2, 0)}, []string{"wal/prod/"}},
		"a broker":                      {walstorage.ListOptions{BrokerID: &broker}, []string{"wal/prod/7/"}},
		"a lower bound alone":           {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 1, 0)}, []string{"wal/prod/7/"}},
		"an upper bound alone":          {walstorage.ListOptions{BrokerID: &broker, CreatedBefore: at(4, 1, 0)}, []string{"wal/prod/7/"}},
		"inside one hour":               {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 1, 10), CreatedBefore: at(4, 1, 50)}, []string{"wal/prod/7/2026070401/"}},
		"some minutes":                  {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 1, 10), CreatedBefore: at(4, 1, 12)}, []string{"wal/prod/7/2026070401/10/", "wal/prod/7/2026070401/11/"}},
		"up to a full hour":             {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 1, 0), CreatedBefore: at(4, 2, 0)}, []string{"wal/prod/7/2026070401/"}},
		"past a full hour":              {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 1, 0), CreatedBefore: millis(at(4, 2, 0), time.Nanosecond)}, []string{"wal/prod/7/2026070401/", "wal/prod/7/2026070402/"}},
		"past a full minute":            {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 1, 59), CreatedBefore: millis(at(4, 2, 0), time.Nanosecond)}, []string{"wal/prod/7/2026070401/59/", "wal/prod/7/2026070402/00/"}},
		"over midnight":                 {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 23, 0), CreatedBefore: at(5, 0, 30)}, []string{"wal/prod/7/2026070423/", "wal/prod/7/2026070500/"}},
		"in another time zone":          {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 1, 0).In(time.FixedZone("", 9*60*60+30*60)), CreatedBefore: at(4, 1, 1)}, []string{"wal/prod/7/2026070401/00/"}},
		"nothing in between":            {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 2, 0), CreatedBefore: at(4, 1, 0)}, nil},
		"the same bound twice":          {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 1, 0), CreatedBefore: at(4, 1, 0)}, nil},
		"bounds inside one millisecond": {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: millis(at(4, 1, 0), 500*time.Microsecond), CreatedBefore: millis(at(4, 1, 0), 400*time.Microsecond)}, []string{"wal/prod/7/2026070401/00/"}},
		"bounds far apart":              {walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 0, 0), CreatedBefore: at(6, 0, 1)}, []string{"wal/prod/7/"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := keys.Prefixes(test.options)

			assert.Equal(t, test.want, got)
			for _, prefix := range got {
				assert.True(t, strings.HasSuffix(prefix, "/"), "S3 directory buckets take no other prefix")
			}
		})
	}

	t.Run("two days hour by hour", func(t *testing.T) {
		got := keys.Prefixes(walstorage.ListOptions{BrokerID: &broker, CreatedAfter: at(4, 0, 0), CreatedBefore: at(6, 0, 0)})
		assert.Len(t, got, 48)
		assert.True(t, slices.IsSorted(got))
	})
}

// Whatever the bounds, a segment that they select lies under one of the prefixes that are listed for them (W10).
func TestPrefixesCoverEveryMatch(t *testing.T) {
	keys := newKeys(t, "", "prod")
	broker := int32(7)
	base := time.Date(2026, 7, 4, 11, 0, 0, 0, time.UTC)
	edges := []time.Duration{
		-time.Hour, -time.Millisecond, -time.Microsecond, 0, time.Nanosecond, 400 * time.Microsecond, time.Millisecond,
		time.Minute, 29 * time.Minute, 31 * time.Minute, time.Hour - time.Microsecond, time.Hour, time.Hour + time.Nanosecond, 49 * time.Hour,
	}
	for _, created := range edges {
		id := newID(t, broker, 1, base.Add(created), 3)
		key := keys.Key(id)
		for _, after := range edges {
			for _, before := range edges {
				options := walstorage.ListOptions{BrokerID: &broker, CreatedAfter: base.Add(after), CreatedBefore: base.Add(before)}
				if !options.Match(id) {
					continue
				}
				covered := slices.ContainsFunc(keys.Prefixes(options), func(prefix string) bool { return strings.HasPrefix(key, prefix) })
				assert.True(t, covered, "%s with %v to %v", key, after, before)
			}
		}
	}
}

func TestListOptionsMatch(t *testing.T) {
	created := time.UnixMilli(1_700_000_000_123)
	id := walstorage.SegmentID{BrokerID: 7, UUID: uuid.UUID{0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x7b, 0x70, 0, 0x80}}
	require.Equal(t, created.UnixMilli(), id.Created().UnixMilli())
	own, other := int32(7), int32(8)

	tests := map[string]struct {
		options walstorage.ListOptions
		want    bool
	}{
		"no option":                                      {walstorage.ListOptions{}, true},
		"its broker":                                     {walstorage.ListOptions{BrokerID: &own}, true},
		"another broker":                                 {walstorage.ListOptions{BrokerID: &other}, false},
		"after its own time":                             {walstorage.ListOptions{CreatedAfter: created}, true},
		"after a time inside its millisecond":            {walstorage.ListOptions{CreatedAfter: created.Add(999 * time.Microsecond)}, true},
		"after the next millisecond":                     {walstorage.ListOptions{CreatedAfter: created.Add(time.Millisecond)}, false},
		"before its own time":                            {walstorage.ListOptions{CreatedBefore: created}, false},
		"before the next nanosecond":                     {walstorage.ListOptions{CreatedBefore: created.Add(1)}, true},
		"between":                                        {walstorage.ListOptions{BrokerID: &own, CreatedAfter: created, CreatedBefore: created.Add(time.Millisecond)}, true},
		"between, of another broker":                     {walstorage.ListOptions{BrokerID: &other, CreatedAfter: created, CreatedBefore: created.Add(time.Millisecond)}, false},
		"between bounds that are in the wrong order":     {walstorage.ListOptions{CreatedAfter: created.Add(time.Hour), CreatedBefore: created.Add(-time.Hour)}, false},
		"in another time zone, which changes no instant": {walstorage.ListOptions{CreatedAfter: created.In(time.FixedZone("", -3600)), CreatedBefore: created.Add(1).In(time.FixedZone("", 3600))}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, test.options.Match(id))
		})
	}
}
