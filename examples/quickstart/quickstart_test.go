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
)

var (
	closingLine = regexp.MustCompile(`(?m)^replicated (\d+) batches, (\d+) through the store, (\d+) differences$`)
	small       = settings{duration: 300 * time.Millisecond, rate: 4, partitions: 5, linger: 5 * time.Millisecond}
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
	s.duration = time.Hour
	var out bytes.Buffer
	require.NoError(t, run(ctx, &out, s))
	require.Regexp(t, closingLine, out.String())
}

// compare can fail: a follower with another log is a difference.
func TestCompareSeesDifferences(t *testing.T) {
	c, err := newCluster(t.TempDir(), 5*time.Millisecond)
	require.NoError(t, err)
	defer c.close()
	require.NoError(t, c.replay(context.Background(), &bytes.Buffer{}))
	require.NoError(t, c.compare(&bytes.Buffer{}).err())
	victim := c.all()[0].replicas[1]
	victim.stop()
	end, _ := victim.log.End()
	victim.log.TruncateTo(end - 1)
	require.Equal(t, 1, c.compare(&bytes.Buffer{}).differences)
	require.Error(t, c.compare(&bytes.Buffer{}).err())
	require.Error(t, result{batches: 100, through: 94}.err(), "too little came through the store")
	require.NoError(t, result{batches: 100, through: 95}.err())
}

// Bad flags and bad directories are named.
func TestBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for says, change := range map[string]func(*settings){
		"-duration":       func(s *settings) { s.duration = -1 },
		"-rate":           func(s *settings) { s.rate = 0 },
		"-partitions":     func(s *settings) { s.partitions = 0 },
		"-linger":         func(s *settings) { s.linger = time.Second },
		"not a directory": func(s *settings) { s.dir = file },
	} {
		s := small
		change(&s)
		require.ErrorContains(t, run(context.Background(), &bytes.Buffer{}, s), says)
	}
}
