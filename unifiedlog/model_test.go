package unifiedlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/leader"
	"github.com/walhop/walhop/unifiedlog"
	"github.com/walhop/walhop/unifiedlog/memory"
)

// pair is a log on disk beside the log in memory, which is the model.
type pair struct {
	t      *testing.T
	random *rand.Rand
	disk   *crashFS
	cfg    unifiedlog.Config
	log    *unifiedlog.Log
	model  *memory.Log
	epoch  int32
	gaps   bool
	done   []string

	restarted bool
}

// Whatever is done to a log, the log on disk answers as the one in memory does: appends of both kinds, truncations,
// deletions, elections, syncs, power cuts and restarts, in any order.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		p := &pair{t: t, random: rand.New(rand.NewPCG(seed, 11)), disk: newCrashFS(), gaps: seed%3 == 0, model: memory.New(memory.Config{})}
		p.cfg = unifiedlog.Config{
			SegmentBytes: 100 + int64(p.random.IntN(600)), IndexIntervalBytes: 1 + int64(p.random.IntN(200)),
			SegmentAge: forever, RollFlush: unifiedlog.RollFlushNone,
		}
		p.open(p.disk, false, 0)
		for range 80 {
			p.step()
			p.compare()
		}
		require.NoError(t, p.log.Close())
	}
}

func (p *pair) open(disk *crashFS, clean bool, start int64) {
	p.disk = disk
	cfg := p.cfg
	cfg.FS, cfg.CleanShutdown, cfg.LogStart = disk, clean, start
	var err error
	p.log, err = unifiedlog.Open(p.t.Context(), cfg)
	require.NoError(p.t, err, p.what())
	p.restarted = len(p.done) > 0
}

func (p *pair) what() string { return fmt.Sprint(p.done) }

func (p *pair) did(format string, args ...any) { p.done = append(p.done, fmt.Sprintf(format, args...)) }

// offset returns an offset in the log or near it.
func (p *pair) offset() int64 {
	end, _ := p.model.End()
	start := p.model.Start()
	return max(0, start-2+int64(p.random.IntN(int(end-start)+5)))
}

// same fails the test if one log refuses what the other does.
func (p *pair) same(got, want error) {
	p.t.Helper()
	require.Equal(p.t, want == nil, got == nil, "%s: %v, the model: %v", p.what(), got, want)
}

func (p *pair) step() {
	ctx := p.t.Context()
	switch n := p.random.IntN(20); {
	case n < 6:
		if p.random.IntN(6) == 0 {
			p.epoch += int32(p.random.IntN(3))
		}
		raw := batchtest.Make(0, 0, make([]string, 1+p.random.IntN(4))...)
		p.did("lead %d", p.epoch)
		got, err := p.log.AppendAsLeader(ctx, p.epoch, raw)
		first, last, want := p.model.Append(ctx, p.epoch, raw)
		p.same(err, want)
		require.Equal(p.t, [2]int64{first, last}, [2]int64{got.First, got.Last}, p.what())
	case n < 11:
		end, epoch := p.model.End()
		var raw []byte
		for base := end; p.random.IntN(4) > 0 && len(raw) < 600; {
			if p.gaps && p.random.IntN(5) == 0 {
				base += int64(p.random.IntN(4))
			}
			if p.random.IntN(5) == 0 {
				epoch++
			}
			b := batchtest.Make(base, max(epoch, 0), make([]string, 1+p.random.IntN(3))...)
			raw, base = append(raw, b...), base+1+int64(b[26])
		}
		expected := end - int64(p.random.IntN(8)/7)
		p.did("follow %d", p.epoch)
		p.same(p.log.Follow(p.epoch), p.model.Follow(p.epoch))
		p.did("append %d bytes at %d", len(raw), expected)
		p.same(p.log.AppendAsFollower(ctx, p.epoch, expected, raw), p.model.AppendAsFollower(ctx, p.epoch, expected, raw))
	case n < 13:
		to := p.offset()
		p.did("truncate %d", to)
		end, err := p.log.TruncateTo(to)
		require.NoError(p.t, err, p.what())
		require.Equal(p.t, p.model.TruncateTo(to), end, p.what())
	case n < 14:
		_, epoch := p.log.End()
		if _, want := p.model.End(); epoch != want {
			return // see compare
		}
		leader := memory.EpochEnd{Epoch: int32(p.random.IntN(int(p.epoch) + 2)), End: p.offset()}
		p.did("diverge %v", leader)
		end, err := p.log.TruncateDiverging(unifiedlog.EpochEnd(leader))
		require.NoError(p.t, err, p.what())
		require.Equal(p.t, p.model.TruncateDiverging(leader), end, p.what())
	case n < 15:
		to := p.offset()
		p.did("delete %d", to)
		p.same(p.log.DeleteRecords(to), p.model.DeleteRecords(to))
		p.log.SetHighWatermark(1 << 62)
		_, err := p.log.Retain()
		require.NoError(p.t, err, p.what())
	case n < 16:
		p.epoch++
		p.did("elect %d", p.epoch)
		got, err := p.log.Lead(p.epoch)
		want, wantErr := p.model.Lead(p.epoch)
		p.same(err, wantErr)
		require.Equal(p.t, want, got, p.what())
	case n < 17:
		p.did("flush")
		got, err := p.log.Flush()
		require.NoError(p.t, err, p.what())
		require.Equal(p.t, p.model.Flush(), got, p.what())
	case n < 18 && p.random.IntN(10) == 0:
		to := p.offset()
		p.did("start at %d", to)
		require.NoError(p.t, p.log.TruncateFullyAndStartAt(to))
		p.model.TruncateFullyAndStartAt(to)
	case n < 19 && !p.gaps:
		p.did("power cut")
		disk := p.disk.crash(loseUnsynced, 0)
		if p.random.IntN(2) == 0 {
			p.cfg.RecoveryPoint = p.log.RecoveryPoint()
		}
		_ = p.log.Close()
		before := p.model.Bytes(0)
		left := p.model.Crash()
		p.open(disk, false, p.model.Start())
		p.cfg.RecoveryPoint = 0
		// A truncation syncs more than it must: what is left then is more than the model's, of the same batches.
		if end, _ := p.log.End(); end > left {
			start := p.model.Start()
			h, err := batch.ParseHeader(before)
			require.NoError(p.t, err)
			p.model = memory.New(memory.Config{Start: h.BaseOffset})
			require.NoError(p.t, p.model.AppendRaw(ctx, upTo(before, end)), p.what())
			require.NoError(p.t, p.model.DeleteRecords(start))
		}
		p.epoch++ // B6
		p.same(p.log.Follow(p.epoch), p.model.Follow(p.epoch))
	default:
		clean := p.random.IntN(2) == 0
		if p.gaps {
			return // of a gap at the beginning or the end the files tell less
		}
		p.did("restart, clean %v", clean)
		require.NoError(p.t, p.log.Close(), p.what())
		p.model.Flush()
		p.model.Crash()
		p.cfg.RecoveryPoint, _ = p.model.End()
		p.open(p.disk, clean, p.model.Start())
		p.cfg.RecoveryPoint = 0
		p.epoch++
		p.same(p.log.Follow(p.epoch), p.model.Follow(p.epoch))
	}
}

// compare asks both logs the same questions.
func (p *pair) compare() {
	end, epoch := p.log.End()
	wantEnd, wantEpoch := p.model.End()
	if end == p.log.Start() && epoch > wantEpoch && p.restarted {
		wantEpoch = epoch // an empty log may tell an epoch that it led without a record
	}
	require.Equal(p.t, fmt.Sprint(wantEnd, wantEpoch, p.model.Start()), fmt.Sprint(end, epoch, p.log.Start()), p.what())
	require.Equal(p.t, fmt.Sprint(p.model.Epochs()), fmt.Sprint(p.log.Epochs()), p.what())

	buf, want := make([]byte, 1+p.random.IntN(1500)), make([]byte, 1500)
	for range 3 {
		offset := p.offset()
		n, err := p.log.Read(p.t.Context(), offset, buf)
		wantN, wantErr := p.model.Read(p.t.Context(), offset, want[:len(buf)])
		var short, wantShort *leader.ShortBufferError
		require.Equal(p.t, errors.As(wantErr, &wantShort), errors.As(err, &short), p.what())
		if short != nil {
			require.Equal(p.t, *wantShort, *short, p.what())
			continue
		}
		p.same(err, wantErr)
		require.Equal(p.t, errors.Is(wantErr, leader.ErrInsideBatch), errors.Is(err, leader.ErrInsideBatch), p.what())
		require.Equal(p.t, errors.Is(wantErr, leader.ErrBelowLogStart), errors.Is(err, leader.ErrBelowLogStart), p.what())
		require.Equal(p.t, string(want[:wantN]), string(buf[:n]), "%s: read %d", p.what(), offset)

		last := int32(p.random.IntN(int(p.epoch)+3)) - 1
		got, err := p.log.CheckFetch(offset, last)
		diverging, wantErr := p.model.CheckFetch(offset, last)
		p.same(err, wantErr)
		require.Equal(p.t, diverging == nil, got == nil, p.what())
		if got != nil {
			require.Equal(p.t, *diverging, memory.EpochEnd(*got), p.what())
		}
	}
}
