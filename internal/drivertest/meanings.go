package drivertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
)

// Meaning is a row of a driver's mapping table: what an answer to some requests means.
type Meaning struct {
	Status  int
	Code    string // or reason
	Message string // default: "as the test wants it"
	Ops     string // the requests that can get it, with blanks between
	Kind    error  // nil is unclassified: an error all the same
	Asks    int    // further requests that the answer leads to
}

// Again calls the operation of a row once more.
type Again func() error

// Meanings proves W7 row by row: each answer of the table, to each request that can get it, is one request and has the kind
// named. also, if it is not nil, is told of each error, for what is special about the driver's.
func Meanings[F any](t *testing.T, s Subject[F], rows []Meaning, also func(t *testing.T, op string, row Meaning, err error, again Again)) {
	place := s.Sockets(t)
	place.Fake.Store(Bucket, "there", []byte("data"))
	for _, row := range rows {
		if row.Message == "" {
			row.Message = "as the test wants it"
		}
		for op := range strings.FieldsSeq(row.Ops) {
			t.Run(fmt.Sprint(op, " ", row.Status, " ", row.Code), func(t *testing.T) {
				driver := place.Driver(t, Options{})
				place.Fake.Always(op, s.Fault(Fault{Status: row.Status, Code: row.Code, Message: row.Message}))
				call := func() error {
					before := len(place.Fake.Came())
					err := s.Operations[op](t.Context(), driver)
					require.Error(t, err)
					assert.Equal(t, before+1+row.Asks, len(place.Fake.Came()), "one attempt")
					return err
				}
				err := call()
				assert.Equal(t, row.Kind, walstorage.KindOf(err), "%v", err)
				if also != nil {
					also(t, op, row, err, call)
				}
			})
		}
	}
}

// WrongChecksum proves K1, K2 (W4): what arrives with another checksum than was sent is refused and not stored.
func WrongChecksum[F any](t *testing.T, s Subject[F]) {
	place := s.Sockets(t)
	err := place.Driver(t, Options{}).Put(t.Context(), "k", objectstore.NewBody([]byte("data")), Checksum([]byte("other")))
	assert.Equal(t, walstorage.ErrCorrupt, walstorage.KindOf(err), "%v", err)
	assert.Empty(t, place.Fake.Keys(Bucket))
}

// Undeleted are the kinds of the failures that a delete reports, by key (W9); ok is false where it does not tell of keys.
func Undeleted(err error) (kinds map[string]error, ok bool) {
	var partial *objectstore.DeleteError
	if !errors.As(err, &partial) {
		return nil, false
	}
	kinds = make(map[string]error)
	for _, failure := range partial.Failures {
		kinds[failure.Key] = walstorage.KindOf(failure.Err)
	}
	return kinds, true
}
