package walstorage

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	// keySuffix ends every object key that walhop writes.
	keySuffix = ".wal"
	// hourLayout and minuteLayout are the two time folders of a key, in UTC.
	hourLayout, minuteLayout = "2006010215", "04"
	// maxPrefixBytes keeps a whole key far below the 1,024 bytes that S3 and GCS allow.
	maxPrefixBytes = 512
)

// Keys is the one place that builds and parses the object keys of a cluster:
//
//	<prefix>/<cluster>/<broker>/<yyyymmddhh>/<mm>/<epoch>-<uuid>.wal
//
// The time is the segment's creation time in UTC, so that a list with time bounds walks hours and no folder holds more
// than some thousand objects (6,000 at 100 segments a second). Keys is immutable and safe for concurrent use.
type Keys struct {
	base string // "<prefix>/<cluster>/"
}

// NewKeys returns the keys of the cluster below prefix. Both are made of the characters A-Z a-z 0-9 . _ - only, prefix
// also of single slashes between its parts, since other characters are signed or folded differently by some stores; no part
// ends in a dot, which Azure cuts off. prefix may be empty and may end in a slash, which changes nothing; it has at most
// 512 bytes, cluster between 1 and 255. The error is of kind [ErrInvalidArgument] and names the field.
func NewKeys(prefix, cluster string) (Keys, error) {
	prefix = strings.TrimSuffix(prefix, "/")
	if len(prefix) > maxPrefixBytes {
		return Keys{}, NewError(ErrInvalidArgument, fmt.Errorf("keys: Prefix has %d bytes, at most %d are allowed", len(prefix), maxPrefixBytes))
	}
	if cluster == "" {
		return Keys{}, NewError(ErrInvalidArgument, fmt.Errorf("keys: Cluster is empty"))
	}
	if !legalPart(cluster) {
		return Keys{}, NewError(ErrInvalidArgument, fmt.Errorf("keys: Cluster %q: allowed are 1 to 255 of A-Z a-z 0-9 . _ - with no dot at the end", cluster))
	}
	base := cluster + "/"
	if prefix != "" {
		for part := range strings.SplitSeq(prefix, "/") {
			if !legalPart(part) {
				return Keys{}, NewError(ErrInvalidArgument, fmt.Errorf("keys: Prefix %q: part %q: allowed are 1 to 255 of A-Z a-z 0-9 . _ - with no dot at the end", prefix, part))
			}
		}
		base = prefix + "/" + base
	}
	return Keys{base: base}, nil
}

func legalPart(part string) bool {
	if part == "" || len(part) > 255 || strings.HasSuffix(part, ".") {
		return false
	}
	for _, c := range []byte(part) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Key returns the object key of a valid segment id.
func (k Keys) Key(id SegmentID) string {
	created := id.Created()
	buf := make([]byte, 0, len(k.base)+80)
	buf = append(buf, k.base...)
	buf = strconv.AppendInt(buf, int64(id.BrokerID), 10)
	buf = append(buf, '/')
	buf = created.AppendFormat(buf, hourLayout)
	buf = append(buf, '/')
	buf = created.AppendFormat(buf, minuteLayout)
	buf = append(buf, '/')
	buf = strconv.AppendInt(buf, id.BrokerEpoch, 10)
	buf = append(buf, '-')
	text, _ := id.UUID.MarshalText() // never fails
	buf = append(buf, text...)
	buf = append(buf, keySuffix...)
	return string(buf)
}

// Parse returns the id of the segment that key names. ok is false for every key that [Keys.Key] does not build, byte
// for byte: a foreign object, a key of another cluster, a segment in the folder of another hour.
func (k Keys) Parse(key string) (id SegmentID, ok bool) {
	rest, found := strings.CutPrefix(key, k.base)
	if !found {
		return SegmentID{}, false
	}
	name, found := strings.CutSuffix(rest[strings.LastIndexByte(rest, '/')+1:], keySuffix)
	if !found {
		return SegmentID{}, false
	}
	broker, _, found := strings.Cut(rest, "/")
	if !found {
		return SegmentID{}, false
	}
	brokerID, err := strconv.ParseInt(broker, 10, 32)
	if err != nil {
		return SegmentID{}, false
	}
	epoch, text, found := strings.Cut(name, "-")
	if !found {
		return SegmentID{}, false
	}
	id.BrokerID = int32(brokerID)
	if id.BrokerEpoch, err = strconv.ParseInt(epoch, 10, 64); err != nil {
		return SegmentID{}, false
	}
	if id.UUID, err = uuid.Parse(text); err != nil || id.Validate() != nil {
		return SegmentID{}, false
	}
	return id, k.Key(id) == key
}

// A span between two bounds is listed folder by folder while that saves more than it costs: by the minute up to half an
// hour, by the hour up to two days.
const (
	maxListMinutes = 30
	maxListHours   = 48
)

// Prefixes returns the key prefixes, each ending in "/", whose objects hold every segment that options can match: if a
// broker is named and there are two bounds, the minutes between them, where they are at most half an hour apart, or the
// hours, where it is at most two days; otherwise the broker, or the whole cluster. The caller still filters by
// [Keys.Parse] and [ListOptions.Match].
func (k Keys) Prefixes(options ListOptions) []string {
	if options.BrokerID == nil {
		return []string{k.base}
	}
	broker := k.base + strconv.FormatInt(int64(*options.BrokerID), 10) + "/"
	after, before := options.CreatedAfter.UTC(), options.CreatedBefore
	if options.CreatedAfter.IsZero() || before.IsZero() {
		return []string{broker}
	}
	// In whole milliseconds, as Match has it: a lower bound inside the millisecond of the upper one is still below it.
	if !after.Truncate(time.Millisecond).Before(before) {
		return nil
	}
	step, layout := time.Hour, hourLayout+"/"
	switch {
	case before.Sub(after.Truncate(time.Minute)) <= maxListMinutes*time.Minute:
		step, layout = time.Minute, hourLayout+"/"+minuteLayout+"/"
	case before.Sub(after.Truncate(time.Hour)) > maxListHours*time.Hour:
		return []string{broker}
	}
	var prefixes []string
	for folder := after.Truncate(step); folder.Before(before); folder = folder.Add(step) {
		prefixes = append(prefixes, broker+folder.Format(layout))
	}
	return prefixes
}
