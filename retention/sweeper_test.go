package retention_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/retention"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/objectstore"
	"github.com/walhop/walhop/walstorage/objectstore/memory"
)

// bucket is a store with several brokers' segments. Its own clock is package time's; a broker's may be skewed.
type bucket struct {
	t      *testing.T
	driver *memory.Driver
	*objectstore.Manager
	random *rand.ChaCha8
}

func newBucket(t *testing.T, change ...func(*memory.Config)) *bucket {
	t.Helper()
	var cfg memory.Config
	for _, c := range change {
		c(&cfg)
	}
	driver := memory.New(cfg)
	manager, err := objectstore.New(driver, objectstore.Config{Cluster: "c", MaxRetryTime: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, manager.Close()) })
	return &bucket{t: t, driver: driver, Manager: manager, random: rand.NewChaCha8([32]byte{1})}
}

// upload stores a segment that the broker's id says was created at the time given.
func (b *bucket) upload(broker int32, created time.Time) walstorage.SegmentID {
	b.t.Helper()
	id, err := walstorage.NewSegmentID(broker, 7, created, b.random)
	require.NoError(b.t, err)
	require.NoError(b.t, b.UploadSegment(b.t.Context(), id, []byte("segment")))
	return id
}

// ids returns what is stored.
func (b *bucket) ids() []walstorage.SegmentID {
	b.t.Helper()
	var all []walstorage.SegmentID
	for info, err := range b.ListSegments(b.t.Context(), walstorage.ListOptions{}) {
		require.NoError(b.t, err)
		all = append(all, info.ID)
	}
	return all
}

func (b *bucket) has(id walstorage.SegmentID) bool { return slices.Contains(b.ids(), id) }

// sweeper returns a sweeper of broker 1.
func (b *bucket) sweeper(change ...func(*retention.Config)) *retention.Sweeper {
	b.t.Helper()
	cfg := retention.Config{Storage: b.Manager, Broker: 1}
	for _, c := range change {
		c(&cfg)
	}
	s, err := retention.New(cfg)
	require.NoError(b.t, err)
	return s
}

// sweep makes one run that must succeed.
func sweep(t *testing.T, s *retention.Sweeper) retention.Result {
	t.Helper()
	result, err := s.Sweep(t.Context())
	require.NoError(t, err)
	return result
}

// apache/pulsar#13219, benbjohnson/litestream#224: a segment lives for Retention plus Grace, to the second, and a reader
// that holds it at 59:59 keeps what it reads.
func TestSegmentLivesForRetentionAndGrace(t *testing.T) {
	tests := map[string]struct {
		grace time.Duration
		lives time.Duration
	}{
		"the default":      {0, time.Hour + 5*time.Minute},
		"a grace of 1 min": {time.Minute, time.Hour + time.Minute},
		"no grace":         {-1, time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t)
				s := b.sweeper(func(c *retention.Config) { c.Grace = test.grace })
				id := b.upload(1, time.Now())

				time.Sleep(test.lives - time.Second)
				assert.Zero(t, sweep(t, s).Deleted)
				assert.True(t, b.has(id))
				assert.Zero(t, b.driver.Calls("Delete"))

				time.Sleep(time.Second)
				result := sweep(t, s)
				assert.Equal(t, 1, result.Deleted)
				assert.EqualValues(t, len("segment"), result.Bytes)
				assert.False(t, b.has(id))
			})
		})
	}
}

// KAFKA-17062, KAFKA-17428, KAFKA-19981, redpanda-data/redpanda#12093, and WarpStream on object cleanup, in walhop's terms:
// size deletes nothing, a failed upload is not cleaned up after, and what nobody published ages like all others; a failed
// delete is retried, and counted.
func TestOrphansAgeLikeAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Given five published segments, and three whose uploads failed as far as their broker knows.
		b := newBucket(t)
		s := b.sweeper()
		for range 5 {
			b.upload(1, time.Now())
		}
		b.driver.Fault(func(c memory.Call) memory.Fault {
			if c.Method == "Put" {
				return memory.Fault{LandLate: 10 * time.Second}
			}
			return memory.Fault{}
		})
		for range 3 {
			id, err := walstorage.NewSegmentID(1, 7, time.Now(), b.random)
			require.NoError(t, err)
			require.Error(t, b.UploadSegment(t.Context(), id, []byte("segment")))
		}
		b.driver.Fault(nil)
		time.Sleep(time.Minute)
		require.Len(t, b.ids(), 8)
		assert.Zero(t, b.driver.Calls("Delete"), "what has failed may still land, and be what a retry finds")
		assert.Zero(t, sweep(t, s).Deleted)

		// When the hour has passed and the store refuses two deletes.
		time.Sleep(time.Hour + 5*time.Minute)
		b.driver.Fault(func(c memory.Call) memory.Fault {
			if c.Method == "Delete" {
				return memory.Fault{Err: walstorage.NewError(walstorage.ErrAccessDenied, nil)}
			}
			return memory.Fault{}
		})
		for range 2 {
			result, err := s.Sweep(t.Context())
			assert.ErrorIs(t, err, walstorage.ErrAccessDenied)
			assert.Equal(t, 8, result.Pending)
			assert.Zero(t, result.Deleted)
		}
		b.driver.Fault(nil)
		assert.Equal(t, 8, sweep(t, s).Deleted)
		assert.Empty(t, b.ids())
	})
}

// KAFKA-16511: the age of a segment is all that counts. No epoch is looked up, so none can be too old to be found: what
// was stored in broker epochs of long ago, or in one that is not known yet, goes with the rest.
func TestAnyEpochAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		for _, epoch := range []int64{0, 1, 7, 1 << 40, math.MaxInt64} {
			id, err := walstorage.NewSegmentID(1, epoch, time.Now(), b.random)
			require.NoError(t, err)
			require.NoError(t, b.UploadSegment(t.Context(), id, []byte("segment")))
		}
		time.Sleep(time.Hour + 5*time.Minute)
		assert.Equal(t, 5, sweep(t, b.sweeper()).Deleted)
		assert.Empty(t, b.ids())
	})
}

// Opndrive/opndrive#73: a bulk delete that fails for one segment deletes the others, and the next run asks for that one
// alone.
func TestFailedDeleteIsRetriedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		s := b.sweeper()
		var segments []walstorage.SegmentID
		for range 3 {
			segments = append(segments, b.upload(1, time.Now()))
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Hour)
		keys, err := walstorage.NewKeys("", "c")
		require.NoError(t, err)
		locked := keys.Key(segments[1])
		var asked [][]string
		refuse := true
		b.driver.Fault(func(c memory.Call) memory.Fault {
			if c.Method == "Delete" {
				asked = append(asked, c.Keys)
			}
			return memory.Fault{KeyErr: func(key string) error {
				if refuse && key == locked {
					return walstorage.NewError(walstorage.ErrAccessDenied, errors.New("object lock"))
				}
				return nil
			}}
		})

		result, err := s.Sweep(t.Context())
		var partly *walstorage.DeleteError
		require.ErrorAs(t, err, &partly)
		assert.ErrorIs(t, err, walstorage.ErrAccessDenied)
		assert.Equal(t, segments[1], partly.Failures[0].ID)
		assert.Equal(t, 2, result.Deleted)
		assert.Equal(t, 1, result.Pending)
		assert.Equal(t, []walstorage.SegmentID{segments[1]}, b.ids())

		asked, refuse = nil, false
		time.Sleep(time.Minute)
		assert.Equal(t, 1, sweep(t, s).Deleted)
		assert.Equal(t, [][]string{{locked}}, asked)
		assert.Empty(t, b.ids())
	})
}

// versity/versitygw#1567: a store that refuses a whole request because of one segment in it that is locked. The locked ones
// are left and named, all others are deleted, with a bounded number of requests more in each run.
func TestOneLockedSegmentKeepsNoOther(t *testing.T) {
	tests := map[string]struct {
		locked   []int // of 2,500, in the order of their ages
		runs     int
		requests int // of the first run
	}{
		"none":          {nil, 1, 3},
		"the oldest":    {[]int{0}, 1, 3 + 18},
		"in the middle": {[]int{1234}, 1, 3 + 20},
		"the newest":    {[]int{2499}, 1, 3 + 18},
		"two":           {[]int{3, 4}, 1, 3 + 20},
		"two apart":     {[]int{3, 2000}, 2, 3 + 36},
		"many":          {[]int{1, 200, 700, 1100, 1800, 2001, 2400}, 8, 3 + 40},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t)
				keys, err := walstorage.NewKeys("", "c")
				require.NoError(t, err)
				locked := map[string]bool{}
				var want []walstorage.SegmentID
				for n := range 2500 {
					if id := b.upload(1, time.Now().Add(time.Duration(n)*time.Millisecond)); slices.Contains(test.locked, n) {
						locked[keys.Key(id)] = true
						want = append(want, id)
					}
				}
				b.driver.Fault(func(c memory.Call) memory.Fault {
					if c.Method == "Delete" && slices.ContainsFunc(c.Keys, func(key string) bool { return locked[key] }) {
						return memory.Fault{Err: walstorage.NewError(walstorage.ErrAccessDenied, errors.New("object lock"))}
					}
					return memory.Fault{}
				})
				time.Sleep(2 * time.Hour)
				s := b.sweeper()
				for run := range test.runs {
					before := b.driver.Calls("Delete")
					result, err := s.Sweep(t.Context())
					assert.Equal(t, len(locked) > 0, errors.Is(err, walstorage.ErrAccessDenied))
					assert.Equal(t, len(b.ids()), result.Pending)
					assert.LessOrEqual(t, b.driver.Calls("Delete")-before, 3+40)
					if run == 0 {
						assert.Equal(t, test.requests, b.driver.Calls("Delete"))
					}
				}
				assert.ElementsMatch(t, want, b.ids())

				// and what comes of age later goes all the same
				b.upload(1, time.Now())
				time.Sleep(2 * time.Hour)
				for range 2 {
					_, _ = s.Sweep(t.Context())
				}
				assert.ElementsMatch(t, want, b.ids())
			})
		})
	}
}

// chroma-core/chroma#4972 and chroma-core/chroma#5207: a run that is cut off anywhere is finished by the next, and two
// sweepers at once end in the same state.
func TestRunsMayOverlapAndBeCutOff(t *testing.T) {
	for n := range 6 {
		t.Run(fmt.Sprintf("cut off at call %d", n+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBucket(t, func(c *memory.Config) { c.PageSize, c.KeysPerDelete = 500, 500 })
				for i := range 1200 {
					b.upload(1, time.Now().Add(time.Duration(i)*time.Millisecond))
				}
				time.Sleep(2 * time.Hour)
				kept := b.upload(1, time.Now())

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				calls := 0
				b.driver.Fault(func(c memory.Call) memory.Fault {
					if calls++; calls == n+1 {
						cancel()
						return memory.Fault{Err: context.Canceled}
					}
					return memory.Fault{}
				})
				s := b.sweeper()
				_, err := s.Sweep(ctx)
				assert.ErrorIs(t, err, context.Canceled)
				b.driver.Fault(nil)

				var wg sync.WaitGroup
				for _, sweeper := range []*retention.Sweeper{s, b.sweeper(), b.sweeper()} {
					wg.Go(func() {
						_, err := sweeper.Sweep(t.Context())
						assert.NoError(t, err)
					})
				}
				wg.Wait()
				assert.Equal(t, []walstorage.SegmentID{kept}, b.ids())
			})
		})
	}
}

// redpanda-data/redpanda#30200: with nothing left to replicate, old segments go all the same; what is uploaded between the
// list and the delete stays.
func TestLastSegmentsGoToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		s := b.sweeper()
		b.upload(1, time.Now())
		time.Sleep(time.Hour + 5*time.Minute)
		var late walstorage.SegmentID
		b.driver.Fault(func(c memory.Call) memory.Fault {
			if c.Method == "Delete" {
				late = b.upload(1, time.Now())
			}
			return memory.Fault{}
		})
		assert.Equal(t, 1, sweep(t, s).Deleted)
		assert.Equal(t, []walstorage.SegmentID{late}, b.ids())
	})
}

// N2: a sweeper leaves other brokers' segments and foreign objects alone, and sweeps those of brokers that are gone.
func TestOnlyOwnAndGoneBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		own, other, gone := b.upload(1, time.Now()), b.upload(2, time.Now()), b.upload(3, time.Now())
		b.driver.Store().Put("c/1/README", []byte("not a segment"), time.Now())
		other2, err := objectstore.New(memory.New(memory.Config{Store: b.driver.Store()}), objectstore.Config{Cluster: "d"})
		require.NoError(t, err)
		defer func() { assert.NoError(t, other2.Close()) }()
		require.NoError(t, other2.UploadSegment(t.Context(), own, []byte("of another cluster")))
		time.Sleep(2 * time.Hour)

		ids, failure := []int32{3, 1, 3, -4}, error(nil)
		s := b.sweeper(func(c *retention.Config) {
			c.Gone = func(context.Context) ([]int32, error) { return ids, failure }
		})
		var lists []string
		b.driver.Fault(func(c memory.Call) memory.Fault {
			if c.Method == "List" {
				lists = append(lists, c.Key)
			}
			return memory.Fault{}
		})
		result, err := s.Sweep(t.Context())
		assert.Equal(t, []string{"c/1/", "c/3/"}, lists, "each once, its own broker not a second time")
		b.driver.Fault(nil)
		assert.ErrorContains(t, err, "-4")
		assert.Equal(t, 2, result.Deleted)
		assert.Equal(t, []walstorage.SegmentID{other}, b.ids())
		assert.False(t, b.has(gone))
		_, err = other2.StatSegment(t.Context(), own)
		assert.NoError(t, err, "two clusters on one prefix never see each other")
		assert.Contains(t, b.driver.Store().Keys(), "c/1/README")

		// A hook that fails keeps nobody from its own segments; what comes of age later goes within the hour.
		failure = errors.New("no controller")
		b.upload(1, time.Now())
		b.upload(3, time.Now())
		time.Sleep(2 * time.Hour)
		result, err = s.Sweep(t.Context())
		assert.ErrorIs(t, err, failure)
		assert.Equal(t, 1, result.Deleted)
		failure, ids = nil, []int32{1, 3}
		b.driver.Fault(func(c memory.Call) memory.Fault {
			if c.Method == "Delete" {
				return memory.Fault{Err: walstorage.NewError(walstorage.ErrAccessDenied, nil)}
			}
			return memory.Fault{}
		})
		_, err = s.Sweep(t.Context())
		assert.ErrorIs(t, err, walstorage.ErrAccessDenied)
		b.driver.Fault(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, sweep(t, s).Deleted, "what failed is tried again in the next run")
		assert.Equal(t, []walstorage.SegmentID{other}, b.ids())
		ids = nil
		time.Sleep(time.Hour)
		sweep(t, s)
	})
}

// A run lists from the oldest segment that is not deleted yet; once a day everything is listed, which finds a segment that
// appeared in an hour that had been listed before.
func TestListsBeginWhereTheLastEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		s := b.sweeper()
		result := sweep(t, s)
		assert.True(t, result.Full)
		var prefixes []string
		b.driver.Fault(func(c memory.Call) memory.Fault {
			if c.Method == "List" {
				prefixes = append(prefixes, c.Key)
			}
			return memory.Fault{}
		})

		// Given a day of a segment a minute, swept each minute.
		for range 23 * 60 {
			b.upload(1, time.Now())
			time.Sleep(time.Minute)
			result = sweep(t, s)
			require.False(t, result.Full)
			require.LessOrEqual(t, result.Listed, 60+2, "at most the hour in which segments come of age, and one more")
		}
		assert.LessOrEqual(t, len(prefixes), 2*23*60)
		assert.NotContains(t, prefixes, "c/1/")
		assert.Len(t, b.ids(), 64)

		// When segments appear whose hours have passed: an upload that landed late, a clock that was 3 h behind.
		old := b.upload(1, time.Now().Add(-3*time.Hour))
		time.Sleep(30 * time.Minute)
		sweep(t, s)
		assert.True(t, b.has(old), "no bounded list looks there")

		// Then the full list finds them once a day, and they go when the store has had them for an hour, too.
		time.Sleep(time.Hour)
		result = sweep(t, s)
		assert.True(t, result.Full)
		assert.Equal(t, 1, result.Skewed)
		assert.False(t, b.has(old))
	})
}

// A store that is down ends the deletes of a run; the next one goes on.
func TestStoreDownEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		s := b.sweeper()
		for i := range 2500 {
			b.upload(1, time.Now().Add(time.Duration(i)*time.Millisecond))
		}
		time.Sleep(2 * time.Hour)
		b.driver.Fault(func(c memory.Call) memory.Fault {
			if c.Method == "Delete" && c.Number > 1 {
				return memory.Fault{Err: walstorage.NewError(walstorage.ErrBucketNotFound, nil)}
			}
			return memory.Fault{}
		})
		result, err := s.Sweep(t.Context())
		assert.ErrorIs(t, err, walstorage.ErrBucketNotFound)
		assert.Equal(t, 1000, result.Deleted)
		assert.Equal(t, 1500, result.Pending)
		b.driver.Fault(nil)
		before := b.driver.Calls("Delete")
		time.Sleep(time.Minute)
		assert.Equal(t, 1500, sweep(t, s).Deleted)
		assert.Equal(t, 2, before, "one that worked, one that failed")
		assert.Empty(t, b.ids())
	})
}

// A list that fails leaves nothing out: the next one begins where the last complete one did.
func TestFailedListIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		var lines lines
		var results []error
		s := b.sweeper(func(c *retention.Config) {
			c.Logger = lines.logger()
			c.Hooks.RunDone = func(_ retention.Result, err error) { results = append(results, err) }
		})
		sweep(t, s)
		b.upload(1, time.Now())
		time.Sleep(2 * time.Hour)
		b.driver.Fault(func(c memory.Call) memory.Fault {
			return memory.Fault{Err: walstorage.NewError(walstorage.ErrBucketNotFound, nil)}
		})
		for range 3 {
			_, err := s.Sweep(t.Context())
			assert.ErrorIs(t, err, walstorage.ErrBucketNotFound)
		}
		b.driver.Fault(func(c memory.Call) memory.Fault { return memory.Fault{Panic: "driver"} })
		_, err := s.Sweep(t.Context())
		assert.Error(t, err)
		b.driver.Fault(nil)
		time.Sleep(2 * time.Hour)
		assert.Equal(t, 1, sweep(t, s).Deleted)
		assert.Len(t, results, 6)
		assert.Equal(t, 2, lines.count(), "a line for each change of state: %v", lines.all())
	})
}

// Run sweeps at once and each minute, goes on after errors, and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(t)
		b.upload(1, time.Now().Add(-2*time.Hour))
		runs := 0
		s := b.sweeper(func(c *retention.Config) {
			c.Hooks.RunDone = func(retention.Result, error) { runs++ }
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		assert.Equal(t, 1, runs)
		assert.Len(t, b.ids(), 1, "the store has it only now")
		b.driver.Fault(func(c memory.Call) memory.Fault {
			return memory.Fault{Err: walstorage.NewError(walstorage.ErrAccessDenied, nil)}
		})
		time.Sleep(time.Hour)
		b.driver.Fault(nil)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		assert.Empty(t, b.ids())
		assert.InDelta(t, 67, runs, 1)
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
		_, err := s.Sweep(ctx)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestConfigNamesTheField(t *testing.T) {
	type config = retention.Config
	negative := func(field func(*config) *time.Duration) []func(*config) {
		return []func(*config){func(c *config) { *field(c) = -1 }, func(c *config) { *field(c) = math.MinInt64 }}
	}
	configtest.Run(t, configtest.Table[config]{
		Valid: config{Storage: newBucket(t).Manager},
		Open: func(_ testing.TB, c config) error {
			_, err := retention.New(c)
			return err
		},
		Wrong: map[string][]func(*config){
			"Storage":   {func(c *config) { c.Storage = nil }},
			"Broker":    {func(c *config) { c.Broker = -1 }},
			"Retention": negative(func(c *config) *time.Duration { return &c.Retention }),
			"Interval":  negative(func(c *config) *time.Duration { return &c.Interval }),
			"FullEvery": append(negative(func(c *config) *time.Duration { return &c.FullEvery }), func(c *config) { c.FullEvery = time.Second }),
		},
		Any: map[string]string{
			"Gone":   "it may be nil",
			"Grace":  "a negative one is none",
			"Now":    "nil is time.Now",
			"Hooks":  "every one of them may be nil",
			"Logger": "nil is none",
		},
	})
}

// What is to be kept for ever is kept: no sum of times overflows and makes everything too old.
func TestRetentionWithoutLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []retention.Config{
			{Retention: math.MaxInt64},
			{Retention: math.MaxInt64, Grace: math.MaxInt64},
			{Grace: math.MaxInt64},
		} {
			b := newBucket(t)
			b.upload(1, time.Now())
			s := b.sweeper(func(c *retention.Config) { c.Retention, c.Grace = cfg.Retention, cfg.Grace })
			for range 3 {
				time.Sleep(1000 * time.Hour)
				require.Zero(t, sweep(t, s).Deleted)
				require.Len(t, b.ids(), 1)
			}
		}
	})
}
