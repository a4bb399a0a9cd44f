package drivertest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/fakes/faulty"
	"github.com/walhop/walhop/walstorage"
)

// BrokenReads proves J11, J15, D12, D13, D14 (W6): a body that ends early, stalls, or is of another range is tried again,
// each time by one request, and never passes.
func BrokenReads[F any](t *testing.T, s Subject[F]) {
	tests := map[string]Fault{
		"short, length promised": {Body: faulty.Body{Truncate: 600}},
		"short with a clean end": {Body: faulty.Body{Truncate: 600, Cut: true}},
		"nothing at all":         {Body: faulty.Body{Truncate: 1000, Cut: true}},
		"stalled":                {Body: faulty.Body{StallAfter: 10}},
		"the whole object":       {Body: faulty.Body{IgnoreRange: true}},
		"a range with no name":   {Body: faulty.Body{ContentRange: "bytes"}},
		"another range":          {Body: faulty.Body{ContentRange: "bytes 0-999/2000"}},
		"a shorter range":        {Body: faulty.Body{ContentRange: "bytes 100-500/2000"}},
		"dropped":                {Course: faulty.Course{Drop: true}},
		"500":                    {Status: 500},
		"503":                    {Status: 503, Code: s.Busy},
		"503 before the request": {Status: 503, Code: s.Busy, Course: faulty.Course{Early: true}},
		"headers never come":     {Course: faulty.Course{Wait: make(chan struct{})}},
		"an answer from a proxy": {Document: "<html>hello</html>"},
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if fault.Wait != nil {
					fault.Wait = make(chan struct{}) // of this bubble
				}
				place := s.Pipes(t, 0)
				manager, id := place.Manager(t, Options{StallTimeout: 2 * time.Second, AttemptTimeout: time.Minute}), Segment(t)
				object := make([]byte, 2000)
				for i := range object {
					object[i] = byte(i * 3)
				}
				place.Fake.Store(Bucket, Key(t, id), object)
				place.Fake.Faults(s.Get, s.Fault(fault))
				began := time.Now()

				dst := make([]byte, 1000)
				require.NoError(t, manager.FetchSegment(t.Context(), id, 100, dst))

				assert.Equal(t, object[100:1100], dst)
				assert.Equal(t, 2, place.Fake.Count(s.Get))
				assert.Less(t, time.Since(began), 5*time.Second, "a stall is noticed long before the attempt's deadline")
			})
		})
	}
}

// List is what becomes of a list of six segments and one foreign object, in pages of two.
type List[F any] struct {
	// Script are the faults of the first requests.
	Script []F
	// Found is how many segments are found, or else Fails says that the list ends with an error of no kind.
	Found int
	Fails bool
	// Pages is how many requests there are.
	Pages int
}

// BrokenLists proves E13, E14, J16, J11 (W10) for each case: what is no whole list is an error and never the end of one.
func BrokenLists[F any](t *testing.T, s Subject[F], tests map[string]List[F]) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := s.Pipes(t, 2)
				manager := place.Manager(t, Options{})
				for range 6 {
					place.Fake.Store(Bucket, Key(t, Segment(t)), []byte("x"))
				}
				place.Fake.Store(Bucket, Cluster+"/1/odd & <key>\x01", []byte("foreign"))
				place.Fake.Faults(s.List, test.Script...)

				found := map[walstorage.SegmentID]bool{}
				var failed error
				for info, err := range manager.ListSegments(t.Context(), walstorage.ListOptions{}) {
					if failed = err; err == nil {
						found[info.ID] = true
					}
				}

				assert.Equal(t, test.Pages, place.Fake.Count(s.List))
				if test.Fails {
					require.Error(t, failed)
					assert.NoError(t, walstorage.KindOf(failed), "%v", failed)
					return
				}
				require.NoError(t, failed)
				assert.Len(t, found, test.Found)
			})
		})
	}
}
