package unifiedlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog"
)

// readLog returns every batch of the log from its start on.
func readLog(log *unifiedlog.Log) ([]byte, error) {
	var all []byte
	buf := make([]byte, 1<<16)
	offset := log.Start()
	for {
		n, err := log.Fetch(context.Background(), offset, 1<<62, buf)
		if short := (*leader.ShortBufferError)(nil); errors.As(err, &short) {
			buf = make([]byte, short.Need)
			continue
		}
		if err != nil || n == 0 {
			return all, err
		}
		all = append(all, buf[:n]...)
		for s := batch.NewScanner(buf[:n]); s.Next(); {
			offset = s.LastOffset() + 1
		}
	}
}

// smallConfig is that of a log that rolls every few batches, so that a short story has many segments.
func smallConfig(fsys unifiedlog.FS) unifiedlog.Config {
	return unifiedlog.Config{
		FS: fsys, SegmentBytes: 300, IndexIntervalBytes: 80, RollFlush: unifiedlog.RollFlushInline,
		SegmentAge: forever, ProducerExpiration: forever,
	}
}

// story is what a broker does with a log, step by step, and what it keeps for it meanwhile.
type story struct {
	rollFlush unifiedlog.RollFlush
	log       *unifiedlog.Log
	// before and after are the log's bytes before and after the step that was done last, or was under way.
	before, after []byte
	// flushed is the recovery point that the log has told, clean that it was closed.
	flushed int64
	clean   bool
}

func transactional(producer int64, sequence int32, values ...string) []byte {
	spec := batchtest.NewSpec(0, 0, values...)
	spec.ProducerID, spec.ProducerEpoch, spec.BaseSequence = producer, 0, sequence
	spec.Attributes |= batch.Transactional
	return spec.Bytes()
}

// marker returns the control batch that ends a transaction.
func marker(producer int64, commit bool) []byte {
	spec := batchtest.NewSpec(0, 0)
	spec.ProducerID, spec.ProducerEpoch, spec.Records = producer, 0, 1
	spec.Attributes |= batch.Transactional | batch.Control
	kind := byte(0)
	if commit {
		kind = 1
	}
	spec.Payload = batchtest.AppendRecord(nil, 0, 0, []byte{0, 0, 0, kind}, []byte{0, 0, 0, 0, 0, 3})
	return spec.Bytes()
}

// steps are the steps of the story. Each returns the bytes that the log then has, and does it.
func (s *story) steps() []func() error {
	ctx := context.Background()
	// doing does a step that leaves of the log what left says; nil is for an append, which makes it longer.
	doing := func(left func([]byte) []byte, do func() error) func() error {
		return func() error {
			now, err := readLog(s.log)
			if err != nil {
				return err
			}
			s.before, s.after = now, nil
			if left != nil {
				s.after = left(now)
			}
			return do()
		}
	}
	same := func(b []byte) []byte { return b }
	lead := func(epoch int32, raw []byte) func() error {
		return doing(nil, func() error { _, err := s.log.AppendAsLeader(ctx, epoch, raw); return err })
	}
	truncate := func(to int64) func() error {
		return doing(func(b []byte) []byte { return upTo(b, to) }, func() error { _, err := s.log.TruncateTo(to); return err })
	}
	flush := doing(same, func() error {
		point, err := s.log.Flush()
		s.flushed = point
		return err
	})
	steps := []func() error{
		lead(1, batchtest.Make(0, 0, "a", "b")),
		lead(1, transactional(7, 0, "c", "d")),
		lead(1, batchtest.Make(0, 0, "e", "f")),
		flush,
		lead(1, transactional(8, 0, "g")),
		doing(nil, func() error { _, err := s.log.AppendMarkers(ctx, 1, marker(7, false)); return err }),
		lead(1, batchtest.Make(0, 0, "h", "i", "j")),
		lead(1, batchtest.Make(0, 0, "k", "l", "m")),
		lead(1, batchtest.Make(0, 0, "n", "o", "p")),
		lead(2, batchtest.Make(0, 0, "q")),
		flush,
		lead(2, batchtest.Make(0, 0, "r", "s")),
		lead(2, batchtest.Make(0, 0, "t", "u", "v")),
		lead(2, batchtest.Make(0, 0, "w")),
		truncate(15),
		doing(same, func() error { return s.log.Follow(4) }),
		doing(nil, func() error {
			end, _ := s.log.End()
			raw := append(batchtest.Make(end, 3, "x", "y"), batchtest.Make(end+2, 4, "z")...)
			for i := range int64(4) {
				raw = append(raw, batchtest.Make(end+3+i, 4, fmt.Sprint("more", i))...)
			}
			return s.log.AppendAsFollower(ctx, 4, end, raw)
		}),
		truncate(5),
		doing(nil, func() error {
			end, _ := s.log.End()
			return s.log.AppendAsFollower(ctx, 4, end, batchtest.Make(end, 4, "1", "2", "3"))
		}),
		doing(same, func() error {
			err := s.log.Close()
			if err == nil {
				s.flushed, s.clean = 1<<62, true
			}
			return err
		}),
	}
	return steps
}

// upTo returns the batches of raw that end at or below an offset.
func upTo(raw []byte, offset int64) []byte {
	end := 0
	for s := batch.NewScanner(raw); s.Next() && s.LastOffset() < offset; {
		end = s.End()
	}
	return raw[:end]
}

// play does the story on a disk until a step fails, and returns that error.
func (s *story) play(fsys *crashFS) error {
	cfg := smallConfig(fsys)
	cfg.RollFlush = s.rollFlush
	log, err := unifiedlog.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	s.log = log
	for _, step := range s.steps() {
		if err := step(); err != nil {
			return err
		}
		s.flushed = max(s.flushed, log.RecoveryPoint())
		if end, _ := log.End(); !s.clean {
			s.flushed = min(s.flushed, end)
		}
	}
	return nil
}

// After a crash between any two calls of the file system, whatever of the unsynced is lost, the log opens to a prefix of
// what was appended that holds everything that was synced; and goes on from there.
func TestCrashAtEveryStep(t *testing.T) {
	for name, flush := range map[string]unifiedlog.RollFlush{
		"rolled segments are synced": unifiedlog.RollFlushInline, "they are not": unifiedlog.RollFlushNone,
	} {
		t.Run(name, func(t *testing.T) { crashAtEveryStep(t, flush) })
	}
}

func crashAtEveryStep(t *testing.T, flush unifiedlog.RollFlush) {
	whole := &story{rollFlush: flush}
	disk := newCrashFS()
	require.NoError(t, whole.play(disk))
	require.Greater(t, disk.calls, 100)

	for call := 1; call <= disk.calls+1; call++ {
		if raceDetector && call%4 != 0 {
			continue
		}
		s := &story{rollFlush: flush}
		fsys := newCrashFS()
		what := "the end"
		fsys.fault = func(n int, name string) error {
			if n == call {
				what = name
				return errKilled
			}
			return nil
		}
		err := s.play(fsys)
		require.True(t, err == nil || errors.Is(err, errKilled), "%v", err)
		for seed, l := range []loss{loseNothing, loseUnsynced, loseSome, loseSome, loseSome, loseSome, loseSome, loseSome} {
			name := fmt.Sprintf("call %d (%s), lost: %v, seed %d", call, what, l, seed)
			checkReopened(t, name, s, fsys.crash(l, uint64(call*100+seed)))
		}
	}
}

// checkReopened opens what a crash has left.
func checkReopened(t *testing.T, name string, s *story, left *crashFS) {
	t.Helper()
	cfg := smallConfig(left)
	cfg.RecoveryPoint = s.flushed
	log, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err, name)
	got, err := readLog(log)
	require.NoError(t, err, name)
	end, _ := log.End()
	require.True(t, bytes.HasPrefix(s.before, got) || s.after != nil && bytes.HasPrefix(s.after, got) ||
		s.after == nil && bytes.HasPrefix(got, s.before),
		"%s: the log ends at %d and is no prefix of what was appended", name, end)
	if s.after == nil || len(s.after) >= len(s.before) {
		least := upTo(s.before, s.flushed)
		assert.True(t, bytes.HasPrefix(got, least), "%s: %d bytes were synced, %d are there", name, len(least), len(got))
	}
	checkFiles(t, name, log, left)
}

// checkFiles appends to a log, closes it, and compares every file with what recovery makes of the log alone.
func checkFiles(t *testing.T, name string, log *unifiedlog.Log, fsys *crashFS) {
	t.Helper()
	epoch, _ := log.Epoch()
	for _, e := range log.Epochs() {
		epoch = max(epoch, e.Epoch)
	}
	_, err := log.AppendAsLeader(t.Context(), epoch+1, batchtest.Make(0, 0, "after the crash"))
	require.NoError(t, err, name)
	want, err := readLog(log)
	require.NoError(t, err, name)
	require.NoError(t, log.Close(), name)

	files := fsys.bytesOf()
	cfg := smallConfig(fromFiles(files))
	cfg.CleanShutdown = true
	again, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err, name)
	got, err := readLog(again)
	require.NoError(t, err, name)
	require.Equal(t, want, got, name)
	require.NoError(t, again.Close(), name)

	anew := map[string][]byte{}
	for file, b := range files {
		if file[len(file)-4:] == ".log" {
			anew[file] = b
		}
	}
	rebuilt := fromFiles(anew)
	third, err := unifiedlog.Open(t.Context(), smallConfig(rebuilt))
	require.NoError(t, err, name)
	require.NoError(t, third.Close(), name)
	for file, b := range rebuilt.bytesOf() {
		require.Equal(t, string(b), string(files[file]), "%s: %s", name, file)
	}
}
