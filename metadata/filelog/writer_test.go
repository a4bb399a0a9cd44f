package filelog_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
)

var errDisk = errors.New("scripted: no space left on device")

// M1, L5: a failed write or fsync is an unknown outcome; the file is not trusted again, and the repeated events go into
// a new one. A torn frame that is left corrupts nothing of what follows.
func TestFailedWrites(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(op string, length int) (written int, err error)
		// files is the number of files after the repeated publication, torn whether something torn is found.
		files int
		torn  bool
	}{
		{"nothing is written", func(op string, _ int) (int, error) { return 0, failIf(op == "write") }, 2, false},
		{"a part is written", func(op string, n int) (int, error) { return 2 * n / 3, failIf(op == "write") }, 2, true},
		{"the new file's name is not on disk", func(op string, n int) (int, error) { return n, failIf(op == "syncdir") }, 3, false},
		{"all is written, but not on disk", func(op string, n int) (int, error) { return n, failIf(op == "sync") }, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var damage damages
				log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Hooks: damage.hooks()})
				sub := subscribe(t, log)
				fail := false
				filelog.Fail(log, func(op string, length int) (int, error) {
					if fail {
						return tt.script(op, length)
					}
					return length, nil
				})
				publish(t, log, events(1, 1, 0)...)
				fail = true
				if strings.HasPrefix(tt.name, "the new file") {
					filelog.Leave(log)
				}
				stored, err := log.Publish(t.Context(), events(1, 1, 1, 2)...)
				assert.Zero(t, stored)
				assert.ErrorIs(t, err, metadata.ErrUnknownOutcome)
				assert.ErrorIs(t, err, errDisk)
				fail = false
				publish(t, log, events(1, 1, 1, 2)...)
				publish(t, log, events(1, 1, 3)...)

				assert.Equal(t, "1.1:0 1.1:1 1.1:2 1.1:3", read(t, sub))
				assert.Len(t, files(t, dir), tt.files)
				assert.Equal(t, tt.torn, len(damage.all()) > 0, "%v", damage.all())
			})
		})
	}
}

// M1: what Publish returns as stored is on disk: the bytes first, then, for a new file, its name.
func TestOrderOfCalls(t *testing.T) {
	dir := t.TempDir()
	log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, RotateBytes: 400})
	var calls []string
	filelog.Fail(log, func(op string, length int) (int, error) {
		calls = append(calls, op)
		return length, nil
	})
	for n := range int64(4) {
		publish(t, log, events(1, 1, n)...)
		calls = append(calls, "return")
	}
	assert.Equal(t, []string{
		"write", "sync", "syncdir", "return", "write", "sync", "return", "write", "sync", "return",
		"write", "sync", "syncdir", "return",
	}, calls)
}

func failIf(fail bool) error {
	if fail {
		return errDisk
	}
	return nil
}

// A disk that stays full leaves no heap of files behind, and all goes on when it has room again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		fail := false
		filelog.Fail(log, func(_ string, length int) (int, error) { return length / 3, failIf(fail) })
		publish(t, log, events(1, 1, 0)...)
		fail = true
		for range 100 {
			_, err := log.Publish(t.Context(), events(1, 1, 1)...)
			require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
		}
		assert.Len(t, files(t, dir), 2, "the good one, and the last that failed")
		fail = false
		publish(t, log, events(1, 1, 1)...)
		assert.Equal(t, "1.1:0 1.1:1", read(t, sub))
	})
}

// Q12: a new file that failed holds nothing acknowledged. A reader that has seen it, and not read it yet, tells no gap.
func TestFailedNewFileIsNoGap(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		sub, pass, _ := filelog.SubscribeByHand(t, log)
		fail := true
		filelog.Fail(log, func(op string, length int) (int, error) {
			if op == "sync" && fail {
				pass() // it is seen while the disk is waited for
				return 0, errDisk
			}
			return length, nil
		})
		_, err := log.Publish(t.Context(), events(1, 1, 0)...)
		require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
		fail = false
		publish(t, log, events(1, 1, 0)...)
		pass()
		assert.Equal(t, "1.1:0", read(t, sub))
	})
}

// A caller that gives up on a stalled fsync gets its answer at once; the next call waits for the disk, and the event of
// unknown outcome, repeated, is one event (L5).
func TestStalledFsync(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		stall := make(chan struct{})
		filelog.Fail(log, func(op string, length int) (int, error) {
			if op == "sync" {
				<-stall
			}
			return length, nil
		})
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		begun := time.Now()
		_, err := log.Publish(ctx, events(1, 1, 0)...)
		assert.ErrorIs(t, err, ctx.Err())
		assert.Equal(t, time.Second, time.Since(begun))
		_, err = log.Publish(ctx, events(1, 1, 0)...)
		assert.ErrorIs(t, err, ctx.Err(), "the turn is still taken")

		close(stall)
		publish(t, log, events(1, 1, 0, 1)...)
		assert.Equal(t, "1.1:0 1.1:1", read(t, sub))
		assert.Len(t, files(t, dir), 1, "a stalled write is no failed one")
	})
}

// Close waits for a write that its caller has given up.
func TestCloseWaitsForTheDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		filelog.Fail(log, func(op string, length int) (int, error) {
			if op == "sync" {
				time.Sleep(time.Minute) // virtual
			}
			return length, nil
		})
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		_, err := log.Publish(ctx, events(1, 1, 0)...)
		require.ErrorIs(t, err, ctx.Err())
		begun := time.Now()
		require.NoError(t, log.Close())
		assert.Equal(t, 59*time.Second, time.Since(begun))
	})
}

// A file that someone removed is not written again: its events would be gone.
func TestFileRemovedUnderTheWriter(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		publish(t, log, events(1, 1, 0)...)
		require.NoError(t, os.Remove(filepath.Join(dir, files(t, dir)[0])))
		publish(t, log, events(1, 1, 1)...)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "1")))
		publish(t, log, events(1, 1, 2)...)
		assert.Contains(t, read(t, sub), "1.1:2")
	})
}

// Everything that cannot be begun is stored by no means.
func TestCannotCreate(t *testing.T) {
	dir := t.TempDir()
	log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "1")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1"), nil, 0o644))
	_, err := log.Publish(t.Context(), events(1, 1, 0)...)
	require.Error(t, err)
	assert.NotErrorIs(t, err, metadata.ErrUnknownOutcome)
	assert.NotErrorIs(t, err, fs.ErrExist)
	require.NoError(t, os.Remove(filepath.Join(dir, "1")))
	publish(t, log, events(1, 1, 0)...)
}
