package unifiedlog_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/unifiedlog"
)

// produced returns a batch of an idempotent producer.
func produced(id int64, epoch int16, sequence int32, records int) []byte {
	spec := batchtest.NewSpec(0, 0, slices.Repeat([]string{"x"}, records)...)
	spec.ProducerID, spec.ProducerEpoch, spec.BaseSequence = id, epoch, sequence
	return spec.Bytes()
}

// changed returns a batch with its spec changed.
func changed(change func(*batchtest.Spec)) []byte {
	spec := batchtest.NewSpec(0, 0, "a", "b")
	change(&spec)
	return spec.Bytes()
}

// A leader refuses what Kafka's does, and nothing of it is appended.
func TestLeaderRefuses(t *testing.T) {
	now := int64(batchtest.Time) + 10
	config := func(dir string) unifiedlog.Config {
		return unifiedlog.Config{
			Dir: dir, MaxBatchBytes: 100, TimestampBefore: time.Hour, TimestampAfter: time.Minute,
			Now: func() time.Time { return time.UnixMilli(now) },
		}
	}
	hour, minute := int64(3_600_000), int64(60_000)
	tests := map[string]struct {
		raw  []byte
		kind error
	}{
		"a good one":                   {batchtest.Make(0, 0, "a", "b"), nil},
		"as large as may be":           {batchtest.Sized(0, 0, 100, 'x'), nil},
		"too large":                    {batchtest.Sized(0, 0, 101, 'x'), unifiedlog.ErrTooLarge},
		"KAFKA-6554, count above span": {batchtest.V6(), unifiedlog.ErrInvalidRecord},
		"a negative count":             {batchtest.V4(), unifiedlog.ErrInvalidRecord},
		"a count of 0":                 {changed(func(s *batchtest.Spec) { s.Records = 0 }), unifiedlog.ErrInvalidRecord},
		"a control batch":              {marker(7, true), unifiedlog.ErrInvalidRecord},
		"no sequence":                  {changed(func(s *batchtest.Spec) { s.ProducerID, s.ProducerEpoch = 7, 0 }), unifiedlog.ErrInvalidRecord},
		"no producer epoch":            {changed(func(s *batchtest.Spec) { s.ProducerID, s.BaseSequence = 7, 0 }), unifiedlog.ErrInvalidRecord},
		"a transaction of nobody":      {changed(func(s *batchtest.Spec) { s.Attributes = batch.Transactional }), unifiedlog.ErrInvalidRecord},
		"the broker's timestamp type":  {changed(func(s *batchtest.Spec) { s.Attributes = batch.LogAppendTime }), unifiedlog.ErrInvalidTimestamp},
		"no timestamp":                 {at(batchtest.Make(0, 0, "a"), -1), nil},
		"as old as may be":             {at(batchtest.Make(0, 0, "a"), now-hour), nil},
		"too old":                      {at(batchtest.Make(0, 0, "a", "b"), now-hour-1), unifiedlog.ErrInvalidTimestamp},
		"as early as may be":           {at(batchtest.Make(0, 0, "a"), now+minute), nil},
		"too early":                    {at(batchtest.Make(0, 0, "a", "b"), now+minute), unifiedlog.ErrInvalidTimestamp},
		"the second of two":            {slices.Concat(batchtest.Make(0, 0, "a"), batchtest.V6()), unifiedlog.ErrInvalidRecord},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			log := open(t, config(t.TempDir()))
			appended, err := log.AppendAsLeader(t.Context(), 1, test.raw)
			if test.kind == nil {
				require.NoError(t, err)
				assert.Zero(t, appended.First)
				return
			}
			require.ErrorIs(t, err, test.kind)
			var refused *unifiedlog.BatchError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, unifiedlog.Appended{First: -1, Last: -1, LogAppendTime: -1}, appended)
			assert.Zero(t, log.Size())

			// F8: as a follower it takes the same bytes.
			follower := open(t, config(t.TempDir()))
			require.NoError(t, follower.AppendRaw(t.Context(), test.raw[:len(test.raw):len(test.raw)]))
		})
	}
}

// What is configured to stamp batches does, and leaves the rest alone.
func TestLogAppendTime(t *testing.T) {
	now := time.UnixMilli(batchtest.Time + 12345)
	log := open(t, unifiedlog.Config{Dir: t.TempDir(), LogAppendTime: true, Now: func() time.Time { return now }})
	sent := produced(7, 0, 0, 2)
	appended, err := log.AppendAsLeader(t.Context(), 3, at(sent, 5))
	require.NoError(t, err)
	assert.Equal(t, unifiedlog.Appended{First: 0, Last: 1, LogAppendTime: now.UnixMilli()}, appended)
	got, err := readLog(log)
	require.NoError(t, err)
	h, err := batch.ParseHeader(got)
	require.NoError(t, err)
	assert.EqualValues(t, batch.LogAppendTime, h.Attributes)
	assert.Equal(t, now.UnixMilli(), h.MaxTimestamp)
	assert.EqualValues(t, 5, h.BaseTimestamp)

	// A duplicate gets the time of then.
	was := now
	now = now.Add(time.Hour)
	again, err := log.AppendAsLeader(t.Context(), 3, sent)
	require.NoError(t, err)
	assert.Equal(t, unifiedlog.Appended{First: 0, Last: 1, Duplicate: true, LogAppendTime: was.UnixMilli()}, again)
}

// The sequence numbers of idempotent producers, step by step.
func TestSequences(t *testing.T) {
	type step struct {
		raw       []byte
		err       error
		first     int64
		duplicate bool
	}
	ok := func(first int64, raw []byte) step { return step{raw, nil, first, false} }
	dup := func(first int64, raw []byte) step { return step{raw, nil, first, true} }
	no := func(err error, raw []byte) step { return step{raw, err, -1, false} }
	tests := map[string][]step{
		"in order": {ok(0, produced(7, 0, 0, 2)), ok(2, produced(7, 0, 2, 3)), ok(5, produced(7, 0, 5, 1))},
		"any number begins, as nothing is known of the producer": {ok(0, produced(7, 0, 90, 1)), ok(1, produced(7, 0, 91, 1))},
		"a gap": {ok(0, produced(7, 0, 0, 2)), no(unifiedlog.ErrOutOfOrderSequence, produced(7, 0, 3, 1)), ok(2, produced(7, 0, 2, 1))},
		"two producers": {
			ok(0, produced(7, 0, 0, 1)), ok(1, produced(8, 0, 0, 1)), ok(2, produced(7, 0, 1, 1)),
			no(unifiedlog.ErrOutOfOrderSequence, produced(8, 0, 2, 1)),
		},
		"each of the last five is a duplicate, the sixth last is not": {
			ok(0, produced(7, 0, 0, 1)), ok(1, produced(7, 0, 1, 2)), ok(3, produced(7, 0, 3, 1)),
			ok(4, produced(7, 0, 4, 1)), ok(5, produced(7, 0, 5, 1)), ok(6, produced(7, 0, 6, 1)),
			dup(6, produced(7, 0, 6, 1)), dup(1, produced(7, 0, 1, 2)), no(unifiedlog.ErrOutOfOrderSequence, produced(7, 0, 0, 1)),
			no(unifiedlog.ErrOutOfOrderSequence, produced(7, 0, 1, 1)), ok(7, produced(7, 0, 7, 1)),
		},
		"a new producer epoch begins at 0": {
			ok(0, produced(7, 0, 0, 2)), no(unifiedlog.ErrOutOfOrderSequence, produced(7, 1, 2, 1)),
			ok(2, produced(7, 1, 0, 1)), no(unifiedlog.ErrProducerFenced, produced(7, 0, 2, 1)), dup(2, produced(7, 1, 0, 1)),
		},
		"after the largest comes 0": {
			ok(0, produced(7, 0, math.MaxInt32-1, 1)), ok(1, produced(7, 0, math.MaxInt32, 3)), ok(4, produced(7, 0, 2, 1)),
			dup(1, produced(7, 0, math.MaxInt32, 3)),
		},
		"two batches in one append": {
			ok(0, slices.Concat(produced(7, 0, 0, 2), produced(7, 0, 2, 1))),
			dup(0, slices.Concat(produced(7, 0, 0, 2), produced(7, 0, 2, 1))),
			no(unifiedlog.ErrOutOfOrderSequence, slices.Concat(produced(7, 0, 2, 1), produced(7, 0, 3, 1))),
			no(unifiedlog.ErrOutOfOrderSequence, slices.Concat(produced(7, 0, 3, 1), produced(7, 0, 5, 1))),
			ok(3, produced(7, 0, 3, 1)),
		},
		"outside of the open transaction": {
			ok(0, transactional(7, 0, "a")), no(unifiedlog.ErrInvalidTxnState, produced(7, 0, 1, 1)), ok(1, transactional(7, 1, "b")),
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := unifiedlog.Config{Dir: t.TempDir(), ProducerExpiration: forever}
			log := open(t, cfg)
			for i, s := range steps {
				before := log.Size()
				appended, err := log.AppendAsLeader(t.Context(), 1, s.raw)
				require.ErrorIs(t, err, s.err, i)
				assert.Equal(t, s.first, appended.First, i)
				assert.Equal(t, s.duplicate, appended.Duplicate, i)
				if err != nil || s.duplicate {
					assert.Equal(t, before, log.Size(), i)
				}
			}
			assert.Zero(t, log.Anomalies())

			// A follower of this log knows the same, and so does the log after a restart, but for older duplicates.
			follower := open(t, unifiedlog.Config{Dir: t.TempDir(), ProducerExpiration: forever})
			raw, err := readLog(log)
			require.NoError(t, err)
			require.NoError(t, follower.AppendRaw(t.Context(), raw))
			assert.Equal(t, log.Producers(), follower.Producers())
			want := log.Producers()
			require.NoError(t, log.Close())
			for _, cfg.CleanShutdown = range []bool{true, false} {
				again := open(t, cfg)
				assert.Equal(t, want, again.Producers())
				require.NoError(t, again.Close())
			}
		})
	}
}

// KAFKA-6003: a follower checks no sequence number, keeps the state of the producers and counts what is odd.
func TestFollowerCountsAnomalies(t *testing.T) {
	log := open(t, unifiedlog.Config{Dir: t.TempDir()})
	require.NoError(t, log.Follow(0))
	var raw []byte
	for i, sent := range [][]byte{produced(7, 0, 40, 1), produced(7, 0, 90, 1), produced(7, 0, 90, 1), produced(9, 0, 0, 1)} {
		batch.Assign(sent, int64(i), 0)
		raw = append(raw, sent...)
	}
	require.NoError(t, log.AppendAsFollower(t.Context(), 0, 0, raw))
	assert.EqualValues(t, 2, log.Anomalies())
	producers := log.Producers()
	require.Len(t, producers, 2)
	assert.EqualValues(t, 90, producers[0].LastSequence)
	assert.EqualValues(t, 2, producers[0].LastOffset)
	assert.EqualValues(t, 0, producers[1].LastSequence)
}

// Producers that have been silent for long are forgotten, but for those with an open transaction.
func TestProducersExpire(t *testing.T) {
	now := time.UnixMilli(batchtest.Time)
	cfg := unifiedlog.Config{Dir: t.TempDir(), Now: func() time.Time { return now }, ProducerExpiration: time.Hour}
	log := open(t, cfg)
	lead := func(raw []byte) {
		_, err := log.AppendAsLeader(t.Context(), 1, at(raw, now.UnixMilli()))
		require.NoError(t, err)
	}
	lead(produced(7, 0, 0, 1))
	lead(transactional(8, 0, "open"))
	now = now.Add(time.Hour - time.Millisecond)
	lead(produced(9, 0, 0, 1))
	assert.Zero(t, log.ExpireProducers())
	require.NoError(t, log.Close())
	now = now.Add(time.Millisecond)
	cfg.CleanShutdown = true
	log = open(t, cfg)
	assert.Len(t, log.Producers(), 2, "a snapshot is read without those that have expired")
	now = now.Add(time.Hour)
	assert.Equal(t, 1, log.ExpireProducers())
	require.Len(t, log.Producers(), 1)
	assert.EqualValues(t, 8, log.Producers()[0].ID)
}
