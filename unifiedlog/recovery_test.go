package unifiedlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/kafkadata"
	"github.com/walhop/walhop/unifiedlog"
)

// Every log that a real broker wrote, truncated to each of its offsets, has the files of a log to which no more was ever
// appended, and the same answers.
func TestEveryTruncationPoint(t *testing.T) {
	for _, topic := range kafkadata.Topics() {
		switch topic.Name {
		case "segments", "txn", "epochs", "idempotent", "plain":
		default:
			continue
		}
		t.Run(topic.Name, func(t *testing.T) {
			raw := topic.Log()
			last := topic.Batches[len(topic.Batches)-1].LastOffset
			for offset := int64(0); offset <= last+1; offset++ {
				cfg := kafkaConfig(topic.Name, "")
				cfg.RollFlush = unifiedlog.RollFlushNone
				truncated, disk := logOf(t, cfg, raw)
				end, err := truncated.TruncateTo(offset)
				require.NoError(t, err)
				kept := upTo(raw, offset)
				fresh, want := logOf(t, cfg, kept)
				wantEnd, _ := fresh.End()
				require.Equal(t, wantEnd, end, "truncated to %d", offset)
				require.Equal(t, fresh.Producers(), truncated.Producers(), "truncated to %d", offset)
				require.Equal(t, fmt.Sprint(fresh.Epochs()), fmt.Sprint(truncated.Epochs()))
				require.Equal(t, fresh.LastStableOffset(), truncated.LastStableOffset())

				if s := truncated.Segments(); len(s) > 1 && s[len(s)-1].Size == 0 {
					// As in Kafka, a segment stays that the truncation has emptied.
					require.NoError(t, fresh.Roll())
				}

				// And it goes on from there as that one does.
				next := batchtest.Make(end, 9, "next")
				require.NoError(t, truncated.AppendRaw(t.Context(), next))
				require.NoError(t, fresh.AppendRaw(t.Context(), next))
				require.NoError(t, truncated.Close())
				require.NoError(t, fresh.Close())
				requireSameFiles(t, fmt.Sprintf("truncated to %d", offset), want, disk)
			}
		})
	}
}

// logOf returns a log with the batches in it.
func logOf(t *testing.T, cfg unifiedlog.Config, raw []byte) (*unifiedlog.Log, *crashFS) {
	t.Helper()
	disk := newCrashFS()
	cfg.FS = disk
	log, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, log.AppendRaw(t.Context(), raw))
	return log, disk
}

func requireSameFiles(t *testing.T, what string, want, got *crashFS) {
	t.Helper()
	wanted, files := want.bytesOf(), got.bytesOf()
	for name, b := range wanted {
		require.Equal(t, string(b), string(files[name]), "%s: %s", what, name)
	}
	for name, b := range files {
		_, ok := wanted[name]
		require.True(t, ok || len(b) == 0, "%s: %s is left", what, name)
	}
}

// A log that is cut off at any byte, or that has any bytes behind it, opens to the whole batches of it: after a crash, and,
// as far as its last segment goes, after a clean shutdown too.
func TestTornTails(t *testing.T) {
	files := flipLog(t)
	whole := slices.DeleteFunc(slices.Sorted(names(files)), func(name string) bool { return !strings.HasSuffix(name, ".log") })
	for i, name := range whole {
		for _, clean := range []bool{false, true} {
			if clean && i < len(whole)-1 {
				continue
			}
			tails := map[string][]byte{
				"zeros":                  append(slices.Clone(files[name]), make([]byte, 200)...),
				"half a batch":           append(slices.Clone(files[name]), files[whole[0]][:40]...),
				"a batch of long ago":    append(slices.Clone(files[name]), files[whole[0]]...),
				"a batch of formats 0/1": append(slices.Clone(files[name]), batchtest.V9()...),
			}
			for n := range files[name] {
				if raceDetector && n%5 != 0 {
					continue
				}
				tails[fmt.Sprint("cut at ", n)] = files[name][:n]
			}
			for what, b := range tails {
				disk := fromFiles(files)
				disk.names[name].data = slices.Clone(b)
				cfg := smallConfig(disk)
				cfg.CleanShutdown = clean
				log, err := unifiedlog.Open(t.Context(), cfg)
				require.NoError(t, err)
				got, err := readLog(log)
				require.NoError(t, err, what)
				var want []byte
				for _, before := range whole[:i] {
					want = append(want, files[before]...)
				}
				if len(b) >= len(files[name]) {
					want = append(want, files[name]...)
				} else {
					s := batch.NewScanner(b)
					for s.Next() {
						want = append(want, s.Bytes()...)
					}
				}
				require.Equal(t, string(want), string(got), "%s %s, clean %v", name, what, clean)
				checkFiles(t, what, log, disk)
			}
		}
	}
}

func names(files map[string][]byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}
}

// Recovery begins with the segment that holds the recovery point: what lies before is not read, and stays.
func TestRecoveryPoint(t *testing.T) {
	files := flipLog(t)
	damaged := fromFiles(files)
	damaged.names["00000000000000000005.log"].data[100] ^= 1
	log, err := unifiedlog.Open(t.Context(), smallConfig(damaged))
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 5}, bases(log), "all of it is read")
	require.NoError(t, log.Close())

	damaged = fromFiles(files)
	damaged.names["00000000000000000005.log"].data[100] ^= 1
	cfg := smallConfig(damaged)
	cfg.RecoveryPoint = 12
	log, err = unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	end, _ := log.End()
	assert.EqualValues(t, 34, end)
	assert.EqualValues(t, 12, log.RecoveryPoint())
	got, err := readLog(log)
	var damage *unifiedlog.DamageError
	require.ErrorAs(t, err, &damage)
	assert.Equal(t, "00000000000000000005.log", damage.File)
	assert.True(t, bytes.HasPrefix(files["00000000000000000000.log"], got[:10]))
	require.NoError(t, log.Close())
}

// A gap between two segments that were not synced is what a power cut has left, unless the topic is compacted.
func TestHoleBetweenSegments(t *testing.T) {
	files := flipLog(t)
	for suffix := range map[string]bool{"log": true, "index": true, "timeindex": true, "txnindex": true} {
		delete(files, "00000000000000000010."+suffix)
	}
	open := func(change func(*unifiedlog.Config)) []int64 {
		cfg := smallConfig(fromFiles(files))
		change(&cfg)
		log, err := unifiedlog.Open(t.Context(), cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, log.Close()) }()
		return bases(log)
	}
	assert.Equal(t, []int64{0, 5}, open(func(*unifiedlog.Config) {}))
	all := []int64{0, 5, 16, 21, 27, 32}
	assert.Equal(t, all, open(func(c *unifiedlog.Config) { c.RecoveryPoint = 20 }))
	assert.Equal(t, all, open(func(c *unifiedlog.Config) { c.CleanShutdown = true }))
	assert.Equal(t, all, open(func(c *unifiedlog.Config) { c.Compacted = true }))
}

// Indexes that are missing are made anew, after a clean shutdown too, and nothing is cut for that.
func TestMissingFiles(t *testing.T) {
	files := flipLog(t)
	for name := range files {
		if strings.HasSuffix(name, ".log") || name == "partition.metadata" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, clean := range []bool{true, false} {
				without := map[string][]byte{}
				for n, b := range files {
					if n != name {
						without[n] = b
					}
				}
				disk := fromFiles(without)
				cfg := smallConfig(disk)
				cfg.CleanShutdown = clean
				log, err := unifiedlog.Open(t.Context(), cfg)
				require.NoError(t, err)
				point := log.RecoveryPoint()
				got, err := readLog(log)
				require.NoError(t, err)
				want, err := ask(t, log)
				require.NoError(t, err)
				require.NoError(t, log.Close())
				whole, err := unifiedlog.Open(t.Context(), smallConfig(fromFiles(files)))
				require.NoError(t, err)
				all, err := readLog(whole)
				require.NoError(t, err)
				expected, err := ask(t, whole)
				require.NoError(t, err)
				require.NoError(t, whole.Close())
				assert.Equal(t, all, got)
				if strings.HasSuffix(name, ".index") || strings.HasSuffix(name, ".timeindex") {
					assert.Zero(t, point, "what was made anew is not synced")
				}
				if clean && strings.HasSuffix(name, ".txnindex") {
					continue // that there was one is told by nothing
				}
				assert.Equal(t, expected, want, "clean %v", clean)
				if strings.HasSuffix(name, "index") {
					assert.Equal(t, string(files[name]), string(disk.bytesOf()[name]))
				}
			}
		})
	}
}

func TestOpen(t *testing.T) {
	dir := func(t *testing.T, files map[string]string) string {
		dir := filepath.Join(t.TempDir(), "deep", "topic-0")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		return dir
	}
	one := string(batchtest.Make(0, 0, "a"))
	t.Run("what was half done is swept", func(t *testing.T) {
		cfg := unifiedlog.Config{Dir: dir(t, map[string]string{
			"00000000000000000000.log": one, "00000000000000000000.log.deleted": one, "00000000000000000000.index.cleaned": "x",
			"leader-epoch-checkpoint.tmp": "0", "00000000000000000009.index": "", "00000000000000000009.timeindex": "",
			"00000000000000000009.txnindex": "", "00000000000000000700.snapshot": "", "0.log": "not ours", "notes": "neither",
		})}
		log := open(t, cfg)
		require.NoError(t, log.Close())
		var left []string
		for name := range filesIn(t, cfg.Dir) {
			left = append(left, name)
		}
		slices.Sort(left)
		assert.Equal(t, []string{
			"0.log", "00000000000000000000.index", "00000000000000000000.log", "00000000000000000000.timeindex",
			"00000000000000000001.snapshot", "leader-epoch-checkpoint", "notes",
		}, left)
	})
	t.Run("an unfinished swap", func(t *testing.T) {
		cfg := unifiedlog.Config{Dir: dir(t, map[string]string{"00000000000000000000.log.swap": one})}
		_, err := unifiedlog.Open(t.Context(), cfg)
		assert.ErrorIs(t, err, unifiedlog.ErrUnfinishedSwap)
	})
	t.Run("topic ids", func(t *testing.T) {
		cfg := unifiedlog.Config{Dir: dir(t, nil), TopicID: topicID}
		require.NoError(t, open(t, cfg).Close())
		cfg.TopicID = uuid.Nil
		log := open(t, cfg)
		assert.Equal(t, topicID, log.TopicID())
		require.NoError(t, log.Close())
		cfg.TopicID = uuid.MustParse("11890a5d-ac96-774b-bcce-b302099a8057")
		_, err := unifiedlog.Open(t.Context(), cfg)
		assert.ErrorIs(t, err, unifiedlog.ErrTopicID)
		require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "partition.metadata"), []byte("version: 1\n"), 0o644))
		_, err = unifiedlog.Open(t.Context(), cfg)
		assert.ErrorIs(t, err, unifiedlog.ErrCorrupt)
	})
	t.Run("a log that ends below its start", func(t *testing.T) {
		cfg := unifiedlog.Config{Dir: dir(t, map[string]string{"00000000000000000000.log": one}), LogStart: 10}
		log := open(t, cfg)
		end, epoch := log.End()
		assert.Equal(t, "10 -1", fmt.Sprint(end, epoch))
		assert.Equal(t, []int64{10}, bases(log))
	})
	t.Run("B6, the epochs led before a restart", func(t *testing.T) {
		cfg := unifiedlog.Config{Dir: dir(t, nil)}
		log := open(t, cfg)
		_, err := log.Lead(4)
		require.NoError(t, err)
		require.NoError(t, log.Close())
		log = open(t, cfg)
		epoch, leads := log.Epoch()
		assert.EqualValues(t, 4, epoch)
		assert.False(t, leads)
		_, err = log.Lead(4)
		assert.ErrorIs(t, err, unifiedlog.ErrEpochUsed)
	})
	t.Run("a directory that is none", func(t *testing.T) {
		_, err := unifiedlog.Open(t.Context(), unifiedlog.Config{Dir: filepath.Join(dir(t, map[string]string{"file": ""}), "file")})
		assert.Error(t, err)
	})
}

var errDisk = errors.New("no space left on device")

// Whatever call fails once, the log serves nothing that was not appended, says so if it can't go on, and opens again to a
// prefix. What had been acknowledged before is there.
func TestFaultAtEveryStep(t *testing.T) {
	whole := &story{rollFlush: unifiedlog.RollFlushInline}
	disk := newCrashFS()
	require.NoError(t, whole.play(disk))
	failed, went := 0, 0
	for call := 1; call <= disk.calls; call++ {
		s := &story{rollFlush: unifiedlog.RollFlushInline}
		fsys := newCrashFS()
		what := ""
		fsys.fault = func(n int, name string) error {
			if n == call {
				what = name
				return errDisk
			}
			return nil
		}
		err := s.play(fsys)
		what = fmt.Sprintf("call %d (%s)", call, what)
		if err == nil {
			went++ // an index that could not be written at once, and the like
			continue
		}
		require.ErrorIs(t, err, errDisk, what)
		if s.log == nil {
			continue
		}
		if !errors.Is(err, unifiedlog.ErrFailed) {
			// It goes on: what is appended now is read.
			if _, err := s.log.AppendAsLeader(t.Context(), 9, batchtest.Make(0, 0, "on")); !errors.Is(err, unifiedlog.ErrClosed) {
				require.NoError(t, err, what)
				s.before, err = readLog(s.log)
				require.NoError(t, err, what)
			}
		} else {
			failed++
			_, err := s.log.AppendAsLeader(t.Context(), 9, batchtest.Make(0, 0, "on"))
			require.True(t, errors.Is(err, unifiedlog.ErrFailed) || errors.Is(err, unifiedlog.ErrClosed), what)
		}
		_ = s.log.Close()
		checkReopened(t, what, s, fsys.crash(loseNothing, 0))
	}
	assert.Positive(t, failed)
	assert.Positive(t, went)
}

// A follower whose log is damaged can still truncate it, and comes to an end before the damage, from which it is filled
// again.
func TestTruncationOfADamagedLog(t *testing.T) {
	files := flipLog(t)
	for name, at := range map[string]int{"00000000000000000010.log": 8, "00000000000000000027.log": 16, "00000000000000000016.log": 7} {
		for _, clean := range []bool{true, false} {
			damaged := fromFiles(files)
			damaged.names[name].data[at] ^= 0x41
			cfg := smallConfig(damaged)
			cfg.CleanShutdown, cfg.RecoveryPoint = clean, 34
			log, err := unifiedlog.Open(t.Context(), cfg)
			require.NoError(t, err)
			_, err = readLog(log)
			require.ErrorIs(t, err, unifiedlog.ErrCorrupt)
			end, err := log.TruncateTo(33)
			require.NoError(t, err)
			if base, _ := strings.CutSuffix(name, ".log"); end == 33 {
				end, err = log.TruncateTo(number(t, base) + 1) // the damage lies below
				require.NoError(t, err)
			}
			require.NoError(t, log.AppendRaw(t.Context(), batchtest.Make(end, 9, "on")))
			got, err := readLog(log)
			require.NoError(t, err, name)
			assert.True(t, bytes.HasSuffix(got, batchtest.Make(end, 9, "on")))
			checkFiles(t, name, log, damaged)
		}
	}
}

func number(t *testing.T, digits string) int64 {
	t.Helper()
	var n int64
	_, err := fmt.Sscanf(digits, "%020d", &n)
	require.NoError(t, err)
	return n
}

// An index that points into a batch which holds another batch in a record is found out: it costs a longer search.
func TestIndexIntoABatch(t *testing.T) {
	disk := newCrashFS()
	cfg := unifiedlog.Config{FS: disk, IndexIntervalBytes: 100, SegmentAge: forever}
	log, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	inner := batchtest.Make(1, 0, "inside")
	require.NoError(t, log.AppendRaw(t.Context(), slices.Concat(batchtest.Make(0, 0, "a"), batchtest.Make(1, 0, string(inner)))))
	for offset := range int64(6) {
		require.NoError(t, log.AppendRaw(t.Context(), at(batchtest.Make(2+offset, 0, "b"), batchtest.Time+offset)))
	}
	want, err := readLog(log)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	index := disk.names["00000000000000000000.index"].data
	require.Greater(t, len(index), 8, "the last entry is looked at when the log is opened")
	require.Equal(t, byte(2), index[3], "the first is that of the third batch")
	index[7] = byte(bytes.Index(want, inner))

	cfg.CleanShutdown = true
	log, err = unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	buf := make([]byte, 1000)
	n, err := log.Read(t.Context(), 3, buf)
	require.NoError(t, err)
	assert.Equal(t, upTo(want[len(upTo(want, 3)):], 99), buf[:n])
	require.NoError(t, log.Close())
}

// Once the recovery point lies in a new segment, the indexes of the one before are on the disk, since recovery does not make
// them again; and a record that was synced there has a segment with a name.
func TestRecoveryPointInANewSegment(t *testing.T) {
	disk := newCrashFS()
	cfg := unifiedlog.Config{FS: disk, SegmentBytes: 300, IndexIntervalBytes: 80, RollFlush: unifiedlog.RollFlushNone}
	log, err := unifiedlog.Open(t.Context(), cfg)
	require.NoError(t, err)
	_, err = log.AppendAsLeader(t.Context(), 1, transactional(7, 0, "a", "b", "c", "d", "e", "f", "g", "h"))
	require.NoError(t, err)
	_, err = log.AppendMarkers(t.Context(), 1, marker(7, false))
	require.NoError(t, err)
	point, err := log.Flush()
	require.NoError(t, err)
	_, err = log.AppendAsLeader(t.Context(), 1, batchtest.Sized(0, 0, 200, 'x'))
	require.NoError(t, err)
	require.Equal(t, []int64{0, point}, bases(log))

	var left []*crashFS
	for seed := range uint64(50) {
		left = append(left, disk.crash(loseSome, seed))
	}
	last, err := log.Flush()
	require.NoError(t, err)
	left = append(left, disk.crash(loseUnsynced, 0))
	require.NoError(t, log.Close())
	there := 0
	for i, disk := range left {
		cfg.FS, cfg.RecoveryPoint = disk, point
		log, err = unifiedlog.Open(t.Context(), cfg)
		require.NoError(t, err)
		there += len(bases(log)) - 1
		aborted, err := log.AbortedTransactions(t.Context(), 0, point)
		require.NoError(t, err)
		assert.Equal(t, []unifiedlog.AbortedTransaction{{ProducerID: 7, First: 0, Last: 8}}, aborted)
		if end, _ := log.End(); i == len(left)-1 {
			assert.Equal(t, last, end)
		}
		require.NoError(t, log.Close())
	}
	assert.Greater(t, there, 10, "too seldom the new segment is there")
}

// Of two batches that contradict each other the one before goes too if it stands behind a gap: its base offset may be the
// wrong one, even below the recovery point.
func TestContradictingBatches(t *testing.T) {
	disk := newCrashFS()
	log, err := unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk})
	require.NoError(t, err)
	for range 4 {
		_, err = log.AppendAsLeader(t.Context(), 1, batchtest.Make(0, 0, "a"))
		require.NoError(t, err)
	}
	size := len(batchtest.Make(0, 0, "a"))
	require.NoError(t, log.Close())
	disk.names["00000000000000000000.log"].data[2*size+7] ^= 1 // 2 becomes 3, and 3 follows

	log, err = unifiedlog.Open(t.Context(), unifiedlog.Config{FS: disk, RecoveryPoint: 4})
	require.NoError(t, err)
	end, _ := log.End()
	assert.EqualValues(t, 2, end)
	require.NoError(t, log.Close())
}
