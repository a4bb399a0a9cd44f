package walstorage_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// newID makes an id whose random bits are all of the byte given.
func newID(t *testing.T, broker int32, epoch int64, created time.Time, random byte) walstorage.SegmentID {
	t.Helper()
	id, err := walstorage.NewSegmentID(broker, epoch, created, bytes.NewReader(bytes.Repeat([]byte{random}, 10)))
	require.NoError(t, err)
	return id
}

func TestNewSegmentIDHoldsItsCreationTime(t *testing.T) {
	times := []time.Time{
		time.UnixMilli(0),
		time.UnixMilli(1),
		time.Date(2026, 3, 29, 2, 30, 0, 123_456_789, time.FixedZone("", 2*60*60)),
		time.UnixMilli(1<<48 - 1),
	}
	for _, created := range times {
		id := newID(t, 3, 7, created, 0xff)

		assert.Equal(t, created.Truncate(time.Millisecond).UnixMilli(), id.Created().UnixMilli())
		assert.Equal(t, time.UTC, id.Created().Location())
		assert.Equal(t, uuid.Version(7), id.UUID.Version())
		assert.Equal(t, uuid.RFC4122, id.UUID.Variant())
		assert.NoError(t, id.Validate())
	}
}

func TestNewSegmentIDTakesItsRandomBitsFromTheReaderAlone(t *testing.T) {
	created := time.UnixMilli(1_700_000_000_000)

	assert.Equal(t, newID(t, 1, 1, created, 0x5a), newID(t, 1, 1, created, 0x5a), "same time and bits, same id")
	assert.NotEqual(t, newID(t, 1, 1, created, 0x5a), newID(t, 1, 1, created, 0x5b))
	assert.Equal(t, "018bcfe5-6800-7a5a-9a5a-5a5a5a5a5a5a", newID(t, 1, 1, created, 0x5a).UUID.String())
}

func TestNewSegmentIDRefuses(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	tests := map[string]struct {
		broker  int32
		epoch   int64
		created time.Time
		names   string
	}{
		"a negative broker":          {-1, 0, now, "broker id -1"},
		"a negative epoch":           {0, -1, now, "broker epoch -1"},
		"a time before 1970":         {0, 0, time.UnixMilli(-1), "creation time"},
		"the zero time":              {0, 0, time.Time{}, "creation time"},
		"a time beyond the 48 bits":  {0, 0, time.UnixMilli(1 << 48), "creation time"},
		"the lowest broker possible": {math.MinInt32, 0, now, "broker id"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := walstorage.NewSegmentID(test.broker, test.epoch, test.created, bytes.NewReader(make([]byte, 10)))

			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			assert.ErrorContains(t, err, test.names)
		})
	}

	t.Run("a reader that runs dry", func(t *testing.T) {
		_, err := walstorage.NewSegmentID(0, 0, now, strings.NewReader("short"))

		require.Error(t, err)
		assert.NotErrorIs(t, err, walstorage.ErrInvalidArgument, "not the caller's arguments")
	})

	t.Run("a reader that fails", func(t *testing.T) {
		broken := errors.New("no entropy")

		_, err := walstorage.NewSegmentID(0, 0, now, failingReader{broken})

		assert.ErrorIs(t, err, broken)
	})
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestSegmentIDValidate(t *testing.T) {
	valid := newID(t, 0, 0, time.UnixMilli(1), 0)
	require.NoError(t, valid.Validate())

	tests := map[string]struct {
		change func(id *walstorage.SegmentID)
		names  string
	}{
		"zero id":         {func(id *walstorage.SegmentID) { *id = walstorage.SegmentID{} }, "zero"},
		"negative broker": {func(id *walstorage.SegmentID) { id.BrokerID = -2 }, "broker id -2"},
		"negative epoch":  {func(id *walstorage.SegmentID) { id.BrokerEpoch = -2 }, "broker epoch -2"},
		"version 4":       {func(id *walstorage.SegmentID) { id.UUID[6] = 0x40 }, "version 7"},
		"other variant":   {func(id *walstorage.SegmentID) { id.UUID[8] = 0xc0 }, "version 7"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			id := valid
			test.change(&id)

			err := id.Validate()

			require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
			assert.ErrorContains(t, err, test.names)
		})
	}
}

func TestSegmentIDIsAMapKeyAndShowsItsParts(t *testing.T) {
	id := newID(t, 12, 345, time.UnixMilli(1_700_000_000_000), 1)
	seen := map[walstorage.SegmentID]bool{id: true}

	assert.True(t, seen[newID(t, 12, 345, time.UnixMilli(1_700_000_000_000), 1)])
	assert.Equal(t, "12/345-"+id.UUID.String(), id.String())
}
