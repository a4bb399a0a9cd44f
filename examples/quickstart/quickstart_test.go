package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/examples/internal/threebrokers"
)

var (
	closingLine = regexp.MustCompile(`(?m)^replicated (\d+) batches, (\d+) through the store, (\d+) differences$`)
	small       = settings{load: threebrokers.Load{Duration: 300 * time.Millisecond, Rate: 4, Partitions: 5, Linger: 5 * time.Millisecond}}
)

// The whole program, in small: the real segments and what it produces reach both followers, and nothing is left behind.
func TestRun(t *testing.T) {
	s := small
	s.dir = t.TempDir()
	for range 2 { // a second run over the same directory is a new cluster's worth of brokers in it
		var out bytes.Buffer
		require.NoError(t, run(context.Background(), &out, s), out.String())
		closing := closingLine.FindStringSubmatch(out.String())
		require.NotNil(t, closing, out.String())
		n, err := strconv.Atoi(closing[1])
		require.NoError(t, err)
		require.Greater(t, n, 2*155, "more than the real batches, at two followers each")
		require.Contains(t, out.String(), "cost on S3 Express")
	}
}

// An interrupt ends production, lets what is on its way arrive, and ends with the table and the comparison.
func TestInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	interrupt()
	s := small
	s.load.Duration = time.Hour
	var out bytes.Buffer
	require.NoError(t, run(ctx, &out, s))
	require.Regexp(t, closingLine, out.String())
}

// Bad flags and bad directories are named.
func TestBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for says, change := range map[string]func(*settings){
		"-duration":       func(s *settings) { s.load.Duration = -1 },
		"-rate":           func(s *settings) { s.load.Rate = 0 },
		"-partitions":     func(s *settings) { s.load.Partitions = 0 },
		"-linger":         func(s *settings) { s.load.Linger = time.Second },
		"not a directory": func(s *settings) { s.dir = file },
	} {
		s := small
		change(&s)
		require.ErrorContains(t, run(context.Background(), &bytes.Buffer{}, s), says)
	}
}
