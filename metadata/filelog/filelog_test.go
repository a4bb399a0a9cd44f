package filelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/metadata/internal/testevent"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m)
}

// open opens a log that polls seldom, unless the test says otherwise: each poll costs real time.
func open(t testing.TB, cfg filelog.Config) *filelog.Log {
	if cfg.PollInterval == 0 {
		cfg.PollInterval = 40 * time.Millisecond
	}
	log, err := filelog.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return log
}

func subscribe(t testing.TB, log *filelog.Log) metadata.Subscription {
	sub, err := log.Subscribe(t.Context(), metadata.Position{})
	require.NoError(t, err)
	return sub
}

func subscribeFrom(t testing.TB, log *filelog.Log, from time.Time) metadata.Subscription {
	sub, err := log.Subscribe(t.Context(), metadata.Position{Time: from})
	require.NoError(t, err)
	return sub
}

func publish(t testing.TB, log *filelog.Log, events ...*metadata.Event) {
	stored, err := log.Publish(t.Context(), events...)
	require.NoError(t, err)
	require.Equal(t, len(events), stored)
}

// events returns events of the broker with the sequences given.
func events(broker int32, epoch int64, sequences ...int64) (list []*metadata.Event) {
	for _, sequence := range sequences {
		list = append(list, testevent.New(broker, epoch, sequence))
	}
	return list
}

// read returns what the subscription yields in the next two virtual seconds, as "broker.epoch:sequence" and "gap...".
func read(t testing.TB, sub metadata.Subscription) string {
	var out []string
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for {
		item, err := sub.Next(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return strings.Join(out, " ")
		}
		require.NoError(t, err)
		if g := item.Gap; g != nil {
			out = append(out, fmt.Sprintf("gap%d.%d[%d,%d)%s", g.BrokerID, g.BrokerEpoch, g.From, g.To, strings.ReplaceAll(string(g.Reason), " ", "-")))
			continue
		}
		id := item.Event.Segment.ID
		require.Equal(t, testevent.New(id.BrokerID, id.BrokerEpoch, item.Event.Sequence), item.Event)
		out = append(out, fmt.Sprintf("%d.%d:%d", id.BrokerID, id.BrokerEpoch, item.Event.Sequence))
	}
}

// files lists what is in the directory, sorted.
func files(t testing.TB, dir string) (names []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	slices.Sort(names)
	return names
}

// change rewrites a file of the log.
func change(t testing.TB, dir, name string, with func(b []byte) []byte) {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, with(b), 0o644))
}

// frames returns the offsets at which the frames of a file begin, and its size.
func frames(t testing.TB, dir, name string) (offsets []int) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], []byte("\xf7WEV"))
		if i < 0 {
			return append(offsets, len(b))
		}
		at += i
		offsets = append(offsets, at)
	}
}

// damages collects what is reported.
type damages struct {
	mu   sync.Mutex
	list []string
}

func (d *damages) hooks() metadata.Hooks {
	return metadata.Hooks{Damage: func(damage metadata.Damage) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.list = append(d.list, fmt.Sprintf("%s %s %d", damage.Kind, damage.Name, damage.Offset))
	}}
}

func (d *damages) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list)
}

func TestPublishReachesEverySubscription(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		one, two := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1}), open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 5})
		publish(t, one, events(1, 1, 0, 1)...)
		first, second := subscribe(t, one), subscribe(t, two)

		publish(t, one, events(1, 1, 2, 3)...)
		publish(t, two, events(2, 5, 0)...)
		publish(t, one, events(1, 1, 4)...)

		for _, sub := range []metadata.Subscription{first, second} {
			assert.Equal(t, "1.1:2 1.1:3 1.1:4 2.5:0", read(t, sub))
		}
		assert.Equal(t, []string{"1/0000000000000000001-0000000000.events", "2/0000000000000000005-0000000000.events"}, files(t, dir))
		third := subscribeFrom(t, two, time.Unix(0, 0))
		assert.Equal(t, "1.1:0 1.1:1 1.1:2 1.1:3 1.1:4 2.5:0", read(t, third))
	})
}

// An event is seen within one poll, about a millisecond, and the first one in a new file too. Virtual time; the file
// system's clock is not, and is made to go on with it, as two files may be created in one of its ticks here.
func TestEventIsSeenWithinAPoll(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		one := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, RotateBytes: 1})
		two := open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 5, PollInterval: filelog.DefaultPollInterval})
		sub := subscribe(t, two)
		for n := range int64(20) { // each is the first in a new file, which is the slowest case
			time.Sleep(time.Duration(n) * 7919 * time.Microsecond)
			publish(t, one, events(1, 1, n)...)
			require.NoError(t, os.Chtimes(filepath.Join(dir, "1"), time.Time{}, time.Now()))
			begun := time.Now()
			item, err := sub.Next(t.Context())
			require.NoError(t, err)
			require.NotNil(t, item.Event)
			assert.LessOrEqual(t, time.Since(begun), filelog.DefaultPollInterval)
		}
	})
}

// M1: rejected is told apart from unknown, and what comes before a wrong event is stored.
func TestPublishRejects(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var published []metadata.Publication
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Hooks: metadata.Hooks{
			Published: func(p metadata.Publication) { published = append(published, p) },
		}})
		sub := subscribe(t, log)
		for name, bad := range map[string]*metadata.Event{
			"nil":               nil,
			"another broker":    testevent.New(2, 1, 1),
			"another epoch":     testevent.New(1, 2, 1),
			"negative sequence": testevent.New(1, 1, -1),
			"no segment":        {Sequence: 1},
		} {
			stored, err := log.Publish(t.Context(), bad)
			assert.ErrorIs(t, err, metadata.ErrInvalid, name)
			assert.Zero(t, stored, name)
		}
		assert.Empty(t, files(t, dir), "a rejected event has begun a file")
		stored, err := log.Publish(t.Context(), testevent.New(1, 1, 0), testevent.New(1, 1, -1), testevent.New(1, 1, 2))
		assert.ErrorIs(t, err, metadata.ErrInvalid)
		assert.Equal(t, 1, stored)
		assert.Equal(t, "1.1:0", read(t, sub))
		stored, err = log.Publish(t.Context())
		assert.NoError(t, err)
		assert.Zero(t, stored)

		require.Len(t, published, 7, "the hook is called once for each call")
		assert.Equal(t, 3, published[5].Events)
		assert.Equal(t, 1, published[5].Stored)
		assert.NotZero(t, published[5].Bytes)
	})
}

// L6: a writer that meets a newer epoch of its own id stops for good; one that comes with a used epoch never starts.
func TestFencing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		older := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 7})
		newer := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 12})
		other := open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 1})
		sub := subscribe(t, other)
		publish(t, older, events(1, 7, 0)...)
		publish(t, newer, events(1, 12, 0)...)

		for range 2 {
			stored, err := older.Publish(t.Context(), events(1, 7, 1)...)
			assert.ErrorIs(t, err, metadata.ErrFenced)
			assert.Zero(t, stored)
		}
		again := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 12})
		_, err := again.Publish(t.Context(), events(1, 12, 0)...)
		assert.ErrorIs(t, err, metadata.ErrFenced, "two writers of one epoch")
		publish(t, newer, events(1, 12, 1)...)
		publish(t, other, events(2, 1, 0)...)
		assert.Equal(t, "1.7:0 1.12:0 1.12:1 2.1:0", read(t, sub))
		assert.Len(t, files(t, dir), 3)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "1")))
		_, err = older.Publish(t.Context(), events(1, 7, 1)...)
		assert.ErrorIs(t, err, metadata.ErrFenced, "terminal")
	})
}

// L6: an epoch that was used before is not used again, though its first file is gone.
func TestFencingOfAUsedEpoch(t *testing.T) {
	dir := t.TempDir()
	first := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 3, RotateBytes: 1})
	publish(t, first, events(1, 3, 0)...)
	publish(t, first, events(1, 3, 1)...)
	require.NoError(t, first.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, files(t, dir)[0])))
	again := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 3})
	_, err := again.Publish(t.Context(), events(1, 3, 0)...)
	assert.ErrorIs(t, err, metadata.ErrFenced)
	assert.ErrorContains(t, err, "epoch 3 of broker 1")
}

// L6: of two writers with one epoch that begin at the same time, one wins: creating a file is exclusive.
func TestFencingRace(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		var group sync.WaitGroup
		outcomes := make([]error, 4)
		for i := range outcomes {
			log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
			group.Go(func() { _, outcomes[i] = log.Publish(t.Context(), events(1, 1, 0)...) })
		}
		group.Wait()
		won := 0
		for _, err := range outcomes {
			if err == nil {
				won++
			} else {
				assert.ErrorIs(t, err, metadata.ErrFenced)
			}
		}
		assert.Equal(t, 1, won)
	}
}

// Events keep their order across files, and the files of a broker across its restarts.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1})
		early := subscribe(t, reader)
		var want []string
		for epoch := int64(1); epoch <= 3; epoch++ {
			log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: epoch, RotateBytes: 500})
			for n := range int64(20) {
				publish(t, log, events(1, epoch, n)...)
				want = append(want, fmt.Sprintf("1.%d:%d", epoch, n))
			}
			require.NoError(t, log.Close())
		}
		assert.Len(t, files(t, dir), 15, "four events reach 500 bytes")
		assert.Equal(t, strings.Join(want, " "), read(t, early))
		late := subscribeFrom(t, reader, time.Unix(0, 0))
		assert.Equal(t, strings.Join(want, " "), read(t, late))
		assert.Empty(t, read(t, subscribe(t, reader)))
	})
}

func TestRotationByAge(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, RotateAfter: time.Minute})
		publish(t, log, events(1, 1, 0)...)
		time.Sleep(59 * time.Second)
		publish(t, log, events(1, 1, 1)...)
		assert.Len(t, files(t, dir), 1)
		time.Sleep(time.Second)
		publish(t, log, events(1, 1, 2)...)
		assert.Len(t, files(t, dir), 2)
	})
}

// M6: files are dropped by age, by the writer's own clock, and never one that may still be written to.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const first = "1/0000000000000000001-0000000000.events"
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Retention: time.Hour})
		gone := open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 1, Retention: time.Hour})
		publish(t, gone, events(2, 1, 0)...)
		require.NoError(t, gone.Close())
		step := func(sequence int64, after time.Duration) []string {
			time.Sleep(after)
			publish(t, log, events(1, 1, sequence)...)
			_, err := log.Publish(t.Context()) // comes after the removal, which is off the caller's path
			require.NoError(t, err)
			return files(t, dir)
		}
		assert.Len(t, step(0, 0), 2)
		assert.Contains(t, step(1, 30*time.Minute), first)
		assert.Contains(t, step(2, 59*time.Minute), first, "its last event can be 59 minutes old")
		assert.NotContains(t, step(3, 2*time.Minute+10*time.Minute), first, "its successor was begun 71 minutes ago")
		assert.Len(t, step(4, 40*time.Minute), 3+1, "broker 2 is not gone for two hours yet, or broker 1 has kept too much")
		assert.Equal(t, []string{
			"1/0000000000000000001-0000000004.events", "1/0000000000000000001-0000000005.events",
		}, step(5, 2*time.Hour), "all but the newest and the one before, which holds what was young two hours ago")
	})
}

// M3, M6: a subscription learns that what it had not read has been removed, whether it knew of the file or not.
func TestRemovedBeforeItWasRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, RotateBytes: 1, RotateAfter: time.Minute, Retention: 2 * time.Minute, PollInterval: time.Second})
		unknowing, knowing := subscribe(t, log), subscribe(t, log)
		publish(t, log, events(1, 1, 0)...)
		publish(t, log, events(1, 1, 1)...)
		publish(t, log, events(1, 1, 2)...)
		item, err := knowing.Next(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 0, item.Event.Sequence)
		time.Sleep(time.Hour)
		publish(t, log, events(1, 1, 3)...) // its new file ends the time of events 0 and 1
		time.Sleep(time.Minute)
		require.Len(t, files(t, dir), 2)

		assert.Equal(t, "gap1.1[-1,-1)missing 1.1:2 1.1:3", read(t, unknowing))
		assert.Equal(t, "gap1.1[-1,-1)missing 1.1:2 1.1:3", read(t, knowing))
		publish(t, log, events(1, 1, 4)...)
		assert.Equal(t, "1.1:4", read(t, unknowing))
		late := subscribe(t, log)
		publish(t, log, events(1, 1, 5)...)
		assert.Equal(t, "1.1:5", read(t, late), "what was removed before it subscribed is not missing")
	})
}

// L6: an event that an overtaken writer got in, between its look and its write, is delivered, and in its order.
func TestEventOfAnOvertakenWriter(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		older := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 7})
		newer := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 8})
		sub := subscribe(t, newer)
		publish(t, older, events(1, 7, 0)...)
		publish(t, newer, events(1, 8, 0)...)
		assert.Equal(t, "1.7:0 1.8:0", read(t, sub))
		late, err := testevent.New(1, 7, 1).MarshalBinary()
		require.NoError(t, err)
		filelog.AppendRaw(t, older, late)
		publish(t, newer, events(1, 8, 1)...)
		assert.Equal(t, "1.7:1 1.8:1", read(t, sub))
	})
}

// Two changes of a directory can bear one time. A file is seen within a poll all the same.
func TestDirectoriesWithCoarseTimes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, RotateBytes: 1, PollInterval: time.Millisecond})
		sub := subscribe(t, log)
		for n := range int64(5) {
			publish(t, log, events(1, 1, n)...)
			require.NoError(t, os.Chtimes(filepath.Join(dir, "1"), time.Time{}, time.Unix(1e9, 0)))
			begun := time.Now()
			item, err := sub.Next(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, n, item.Event.Sequence)
			assert.LessOrEqual(t, time.Since(begun), 2*time.Millisecond, "event %d", n)
		}
		time.Sleep(10 * time.Second) // now the time is believed, and only a full pass finds what it hides
		publish(t, log, events(1, 1, 5)...)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "1"), time.Time{}, time.Unix(1e9, 0)))
		assert.Equal(t, "1.1:5", read(t, sub))
	})
}

// N4: a position in time picks where to start and filters nothing afterwards.
func TestSubscribeFromTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		skew := time.Duration(0)
		now := func() time.Time { return time.Now().Add(skew) }
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, RotateBytes: 500, Now: now})
		other := open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 1})
		var times []time.Time
		for n := range int64(10) {
			time.Sleep(time.Minute)
			times = append(times, time.Now())
			publish(t, log, events(1, 1, n)...)
		}
		publish(t, other, events(2, 1, 0)...)
		skew = -time.Hour // the clock is set back
		publish(t, log, events(1, 1, 10)...)

		for n, from := range times {
			var want []string
			for sequence := n; sequence <= 10; sequence++ {
				want = append(want, fmt.Sprintf("1.1:%d", sequence))
			}
			want = append(want, "2.1:0")
			assert.Equal(t, strings.Join(want, " "), read(t, subscribeFrom(t, log, from)), "from event %d", n)
		}
	})
}

// M3, M4: every kind of damage is reported with its name and place, once, and everything else goes on. With live set
// nothing comes behind it for a while, and it is found out all the same (C2d).
func TestDamage(t *testing.T) {
	const name = "1/0000000000000000001-0000000000.events"
	const next = "1/0000000000000000002-0000000000.events"
	flip := func(at int) func(b []byte) []byte {
		return func(b []byte) []byte {
			b[at] ^= 0x10
			return b
		}
	}
	for _, tt := range []struct {
		name   string
		damage func(at []int) func(b []byte) []byte // at: where the frames of events 0 to 4 begin, and the end
		want   string
		report func(at []int) []string
	}{
		{
			name: "a flipped bit in an event", damage: func(at []int) func([]byte) []byte { return flip(at[2] - 5) },
			want:   "1.1:0 gap1.1[-1,-1)corrupt 1.1:2 1.1:3 1.1:4 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("corrupt %s %d", name, at[1])} },
		},
		{
			name: "a flipped bit in a length", damage: func(at []int) func([]byte) []byte { return flip(at[1] + 6) },
			want:   "1.1:0 gap1.1[-1,-1)corrupt 1.1:2 1.1:3 1.1:4 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("corrupt %s %d", name, at[1])} },
		},
		{
			name: "a flipped bit in the last event", damage: func(at []int) func([]byte) []byte { return flip(at[5] - 5) },
			want:   "1.1:0 1.1:1 1.1:2 1.1:3 gap1.1[-1,-1)corrupt 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("corrupt %s %d", name, at[4])} },
		},
		{
			name: "a flipped bit in the last frame's header", damage: func(at []int) func([]byte) []byte { return flip(at[4] + 1) },
			want:   "1.1:0 1.1:1 1.1:2 1.1:3 gap1.1[-1,-1)corrupt 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("corrupt %s %d", name, at[4])} },
		},
		{
			name: "two events overwritten",
			damage: func(at []int) func([]byte) []byte {
				return func(b []byte) []byte {
					return append(append(b[:at[1]:at[1]], make([]byte, at[3]-at[1])...), b[at[3]:]...)
				}
			},
			want:   "1.1:0 gap1.1[-1,-1)corrupt gap1.1[1,3)missing 1.1:3 1.1:4 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("corrupt %s %d", name, at[1])} },
		},
		{
			name: "an event cut out",
			damage: func(at []int) func([]byte) []byte {
				return func(b []byte) []byte { return append(b[:at[1]:at[1]], b[at[2]:]...) }
			},
			// What follows is not at its place, so nothing of it is believed.
			want:   "1.1:0 gap1.1[-1,-1)corrupt 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("corrupt %s %d", name, at[1])} },
		},
		{
			name: "a torn tail",
			damage: func(at []int) func([]byte) []byte {
				return func(b []byte) []byte { return b[:at[5]-7] }
			},
			want:   "1.1:0 1.1:1 1.1:2 1.1:3 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("torn %s %d", name, at[4])} },
		},
		{
			name: "a tail torn in the frame's header",
			damage: func(at []int) func([]byte) []byte {
				return func(b []byte) []byte { return b[:at[4]+9] }
			},
			want:   "1.1:0 1.1:1 1.1:2 1.1:3 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("torn %s %d", name, at[4])} },
		},
		{
			name: "a tail that was never filled",
			damage: func(at []int) func([]byte) []byte {
				return func(b []byte) []byte { return append(b[:at[4]:at[4]], make([]byte, 5000)...) }
			},
			want:   "1.1:0 1.1:1 1.1:2 1.1:3 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("torn %s %d", name, at[4])} },
		},
		{
			name: "a file torn in its header",
			damage: func([]int) func([]byte) []byte {
				return func(b []byte) []byte { return b[:17] }
			},
			want:   "1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("torn %s 0", name)} },
		},
		{
			name: "a flipped bit in the file's header", damage: func([]int) func([]byte) []byte { return flip(9) },
			want:   "1.1:0 1.1:1 1.1:2 1.1:3 1.1:4 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("corrupt %s 0", name)} },
		},
		{
			name: "an empty file", damage: func([]int) func([]byte) []byte { return func([]byte) []byte { return nil } },
			want:   "1.2:0",
			report: func([]int) []string { return nil },
		},
		{
			name: "rubbish at the end",
			damage: func([]int) func([]byte) []byte {
				return func(b []byte) []byte { return append(b, strings.Repeat("rubbish", 20000)...) }
			},
			want:   "1.1:0 1.1:1 1.1:2 1.1:3 1.1:4 gap1.1[-1,-1)corrupt 1.2:0",
			report: func(at []int) []string { return []string{fmt.Sprintf("corrupt %s %d", name, at[5])} },
		},
	} {
		for _, live := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/live=%v", tt.name, live), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					var damage damages
					reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1, Hooks: damage.hooks()})
					writer := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
					publish(t, writer, events(1, 1, 0, 1, 2, 3, 4)...)
					at := frames(t, dir, name)
					require.Len(t, at, 6)
					change(t, dir, name, tt.damage(at))

					var got string
					if live { // nothing comes after it for a while: it is found out all the same
						sub := subscribeFrom(t, reader, time.Unix(0, 0))
						before := read(t, sub)
						assert.Equal(t, tt.report(at), damage.all())
						restarted := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 2})
						publish(t, restarted, events(1, 2, 0)...)
						got = strings.TrimSpace(before + " " + read(t, sub))
					} else {
						restarted := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 2})
						publish(t, restarted, events(1, 2, 0)...)
						got = read(t, subscribeFrom(t, reader, time.Unix(0, 0)))
					}
					assert.Equal(t, tt.want, got)
					assert.Equal(t, tt.report(at), damage.all())
					assert.Equal(t, tt.want, read(t, subscribeFrom(t, reader, time.Unix(0, 0))), "a second reader")
					assert.Equal(t, tt.report(at), damage.all(), "reported once for each place, not for each reader")
				})
			})
		}
	}
	_ = next
}

// Damage is found out at once where a good frame stands behind it. Bytes at the end have a second, as a network file
// system can show a file's new size before the bytes.
func TestBytesThatComeLate(t *testing.T) {
	for _, shown := range []int{0, 10, 24, 60} { // of the frame
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			var damage damages
			log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, PollInterval: time.Millisecond, Hooks: damage.hooks()})
			sub := subscribe(t, log)
			publish(t, log, events(1, 1, 0)...)
			encoded, err := testevent.New(1, 1, 1).MarshalBinary()
			require.NoError(t, err)
			finish := filelog.AppendUnfinished(t, log, encoded, shown)
			time.AfterFunc(900*time.Millisecond, finish)
			assert.Equal(t, "1.1:0 1.1:1", read(t, sub), "%d bytes are there at first", shown)
			assert.Empty(t, damage.all())

			filelog.AppendUnfinished(t, log, encoded, shown)
			publish(t, log, events(1, 1, 2)...)
			begun := time.Now()
			item, err := sub.Next(t.Context())
			require.NoError(t, err)
			require.NotNil(t, item.Gap)
			assert.Less(t, time.Since(begun), 3*time.Millisecond)
			assert.Equal(t, "1.1:2", read(t, sub))
			assert.Len(t, damage.all(), 1)
		})
	}
}

// M4: an event in a file of another broker or epoch is damage: its sequence would confuse what is counted.
func TestEventInAFileOfAnother(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		publish(t, log, events(1, 1, 0)...)
		for _, other := range []*metadata.Event{testevent.New(2, 1, 0), testevent.New(1, 2, 5)} {
			encoded, err := other.MarshalBinary()
			require.NoError(t, err)
			filelog.AppendRaw(t, log, encoded)
		}
		publish(t, log, events(1, 1, 1)...)
		assert.Equal(t, "1.1:0 gap1.1[-1,-1)corrupt gap1.1[-1,-1)corrupt 1.1:1", read(t, sub))
	})
}

// M4: an event or a file of a version to come is skipped with a gap.
func TestUnknownVersions(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var damage damages
		reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1, Hooks: damage.hooks()})
		sub := subscribe(t, reader)
		writer := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		publish(t, writer, events(1, 1, 0)...)
		filelog.AppendRaw(t, writer, []byte{1 << 3, 2, 2 << 3, 1, 9, 9, 9}) // version 2, sequence 1
		publish(t, writer, events(1, 1, 2)...)
		require.NoError(t, writer.Close())
		filelog.WriteFutureFile(t, dir, 1, 2)
		newest := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 3})
		publish(t, newest, events(1, 3, 0)...)

		assert.Equal(t, "1.1:0 gap1.1[1,2)unknown-version 1.1:2 gap1.2[-1,-1)unknown-version 1.3:0", read(t, sub))
		assert.Len(t, damage.all(), 2)
		assert.Contains(t, damage.all()[0], "unknown version 1/0000000000000000001-0000000000.events")
		assert.Contains(t, damage.all()[1], "unknown version 1/0000000000000000002-0000000000.events")
	})
}

// A subscription that begins while a frame is being written, or behind old damage, begins at a frame.
func TestSubscribeBehindAnUnfinishedFrame(t *testing.T) {
	const name = "1/0000000000000000001-0000000000.events"
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var damage damages
		reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1, Hooks: damage.hooks()})
		writer := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		publish(t, writer, events(1, 1, 0, 1, 2)...)
		whole, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		at := frames(t, dir, name)
		for cut := at[2] + 1; cut < at[3]; cut += 11 {
			change(t, dir, name, func([]byte) []byte { return whole[:cut] })
			sub := subscribe(t, reader)
			change(t, dir, name, func([]byte) []byte { return whole })
			assert.Equal(t, "1.1:2", read(t, sub), "the frame that was under way, cut at %d", cut)
			require.NoError(t, sub.Close())
		}
		assert.Empty(t, damage.all())

		change(t, dir, name, func([]byte) []byte {
			bad := bytes.Clone(whole)
			bad[at[1]+30] ^= 1
			return bad
		})
		sub := subscribe(t, reader)
		publish(t, writer, events(1, 1, 3)...)
		assert.Equal(t, "1.1:3", read(t, sub), "old damage is not the subscription's business")
		assert.Empty(t, damage.all())
	})
}

// A foreign file in the directory is reported with its name and left alone.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var damage damages
		var lines bytes.Buffer
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1, Hooks: damage.hooks(), Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		for _, name := range []string{"lost+found/x", "README", "01/file", "1/notes.txt", "1/0000000000000000001-1.events", "3"} {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("not ours"), 0o644))
		}
		require.NoError(t, os.Mkdir(filepath.Join(dir, "1", "0000000000000000000-0000000007.events"), 0o755))
		sub := subscribe(t, log)
		publish(t, log, events(1, 1, 0)...)
		assert.Equal(t, "1.1:0", read(t, sub))
		time.Sleep(time.Minute)

		assert.ElementsMatch(t, []string{
			"foreign 01 -1", "foreign 3 -1", "foreign README -1", "foreign lost+found -1",
			"foreign 1/0000000000000000000-0000000007.events -1", "foreign 1/0000000000000000001-1.events -1", "foreign 1/notes.txt -1",
		}, damage.all(), "once each")
		assert.Equal(t, 7, strings.Count(lines.String(), "\n"))
		assert.Contains(t, lines.String(), "1/notes.txt")
		assert.Contains(t, lines.String(), dir)
		assert.FileExists(t, filepath.Join(dir, "1", "notes.txt"))
	})
}

func TestContexts(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := log.Publish(ended, events(1, 1, 0)...)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, files(t, dir))
		_, err = log.Subscribe(ended, metadata.Position{})
		assert.ErrorIs(t, err, context.Canceled)
		_, err = filelog.New(ended, filelog.Config{Dir: dir})
		assert.ErrorIs(t, err, context.Canceled)

		sub := subscribe(t, log)
		waiting, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = sub.Next(waiting)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		publish(t, log, events(1, 1, 0)...)
		assert.Equal(t, "1.1:0", read(t, sub), "an ended context has cost the subscription an event")
	})
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 1})
		publish(t, log, events(1, 1, 0)...)
		one, two := subscribe(t, log), subscribe(t, log)
		ends := make(chan error, 2)
		for _, sub := range []metadata.Subscription{one, two} {
			go func() {
				_, err := sub.Next(context.Background())
				ends <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, one.Close())
		require.NoError(t, one.Close())
		assert.ErrorIs(t, <-ends, metadata.ErrClosed)
		publish(t, log, events(1, 1, 1)...)
		assert.NoError(t, <-ends, "closing one subscription has closed the other")
		require.NoError(t, two.Close())
		three := subscribe(t, log) // polling begins again
		publish(t, log, events(1, 1, 2)...)
		assert.Equal(t, "1.1:2", read(t, three))

		require.NoError(t, log.Close())
		require.NoError(t, log.Close())
		_, err := three.Next(context.Background())
		assert.ErrorIs(t, err, metadata.ErrClosed)
		_, err = log.Publish(t.Context(), events(1, 1, 3)...)
		assert.ErrorIs(t, err, metadata.ErrClosed)
		_, err = log.Subscribe(t.Context(), metadata.Position{})
		assert.ErrorIs(t, err, metadata.ErrClosed)
	})
}

func TestConfigNamesTheField(t *testing.T) {
	type config = filelog.Config
	configtest.Run(t, configtest.Table[config]{
		Valid: config{Dir: t.TempDir()},
		Open: func(tb testing.TB, c config) error {
			log, err := filelog.New(tb.Context(), c)
			if err != nil {
				return err
			}
			return log.Close()
		},
		Wrong: map[string][]func(*config){
			"Dir":          {func(c *config) { c.Dir = "" }},
			"Broker":       {func(c *config) { c.Broker = -1 }},
			"BrokerEpoch":  {func(c *config) { c.BrokerEpoch = -1 }},
			"EventVersion": {func(c *config) { c.EventVersion = -1 }, func(c *config) { c.EventVersion = metadata.LatestVersion + 1 }},
			"PollInterval": {func(c *config) { c.PollInterval = -1 }, func(c *config) { c.PollInterval = time.Microsecond }},
			"RotateBytes":  {func(c *config) { c.RotateBytes = -1 }},
			"RotateAfter":  {func(c *config) { c.RotateAfter = -1 }, func(c *config) { c.Retention = 1 }},
			"Retention": {
				func(c *config) { c.Retention = -1 },
				func(c *config) { c.RotateAfter, c.Retention = time.Minute, time.Minute },
				func(c *config) { c.RotateAfter = math.MaxInt64 }, // twice as much does not overflow
			},
		},
		Any: map[string]string{
			"Now":    "nil is time.Now",
			"Hooks":  "every one of them may be nil",
			"Logger": "nil is none",
		},
	})
	dir := t.TempDir()
	for says, cfg := range map[string]filelog.Config{
		"no such file":         {Dir: filepath.Join(dir, "missing")},
		"Config.Dir: ":         {Dir: filepath.Join(dir, "missing")},
		"missing: no such":     {Dir: filepath.Join(dir, "missing")},
		"in the place of the ": {Dir: dir, Broker: 4},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "4"), nil, 0o644))
		_, err := filelog.New(t.Context(), cfg)
		assert.ErrorContains(t, err, says)
	}
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := filelog.New(t.Context(), filelog.Config{Dir: file})
	assert.ErrorContains(t, err, "Config.Dir")
	assert.Equal(t, []string{"4", "file"}, files(t, dir), "a refused configuration has left something behind")
}

// Everything at once, in real time, under -race: brokers that publish, rotate and restart, readers that come and go.
func TestConcurrently(t *testing.T) {
	dir := t.TempDir()
	const brokers, epochs, perEpoch = 3, 3, 60
	reader := open(t, filelog.Config{Dir: dir, Broker: 9, BrokerEpoch: 1})
	var group sync.WaitGroup
	for range 3 {
		sub := subscribe(t, reader)
		group.Go(func() {
			defer sub.Close()
			epoch, next := map[int32]int64{}, map[int32]int64{}
			for range brokers * epochs * perEpoch {
				item, err := sub.Next(t.Context())
				if !assert.NoError(t, err) || !assert.Nil(t, item.Gap) {
					return
				}
				id := item.Event.Segment.ID
				if id.BrokerEpoch > epoch[id.BrokerID] {
					epoch[id.BrokerID], next[id.BrokerID] = id.BrokerEpoch, 0
				}
				if !assert.Equal(t, next[id.BrokerID], item.Event.Sequence, "broker %d epoch %d", id.BrokerID, id.BrokerEpoch) {
					return
				}
				next[id.BrokerID]++
			}
		})
	}
	for broker := range int32(brokers) {
		group.Go(func() {
			for epoch := int64(1); epoch <= epochs; epoch++ {
				log, err := filelog.New(t.Context(), filelog.Config{Dir: dir, Broker: broker, BrokerEpoch: epoch, RotateBytes: 2000})
				if !assert.NoError(t, err) {
					return
				}
				for n := int64(0); n < perEpoch; n += 3 {
					stored, err := log.Publish(t.Context(), events(broker, epoch, n, n+1, n+2)...)
					if !assert.NoError(t, err) || !assert.Equal(t, 3, stored) {
						return
					}
				}
				assert.NoError(t, log.Close())
			}
		})
	}
	group.Wait()
}
