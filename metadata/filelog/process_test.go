package filelog_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
)

// The test binary runs itself as a broker: with childDir set it publishes until it is killed.
const (
	childDir   = "WALHOP_FILELOG_CHILD_DIR"
	childEpoch = "WALHOP_FILELOG_CHILD_EPOCH"
	childTear  = "WALHOP_FILELOG_CHILD_TEAR"
)

func contextFor(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// child publishes event after event of broker 1 and prints the sequence of each one that is stored. With childTear set
// it writes half of the event with that sequence and then waits to be killed.
func child(dir string) {
	epoch, _ := strconv.ParseInt(os.Getenv(childEpoch), 10, 64)
	tear, err := strconv.ParseInt(os.Getenv(childTear), 10, 64)
	if err != nil {
		tear = -1
	}
	log, err := filelog.New(context.Background(), filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: epoch, RotateBytes: 4000})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for sequence := int64(0); ; sequence++ {
		if sequence == tear {
			filelog.StopInsideWrites(log)
		}
		if _, err := log.Publish(context.Background(), events(1, epoch, sequence)...); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(sequence)
	}
}

// startChild starts a broker in a process of its own, and returns how to kill it and what it prints.
func startChild(t *testing.T, dir string, epoch, tear int64) (cmd *exec.Cmd, lines *bufio.Scanner) {
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.Command(binary)
	cmd.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprintf("%s=%d", childEpoch, epoch), fmt.Sprintf("%s=%d", childTear, tear))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// Events cross processes in order, and a leader killed inside Publish loses nothing that it was told is stored: the
// torn tail is recognised, and the next epoch goes on.
func TestKilledInsidePublish(t *testing.T) {
	dir := t.TempDir()
	var damage damages
	reader := open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 1, Hooks: damage.hooks(), PollInterval: time.Millisecond})
	sub := subscribe(t, reader)
	const kills, tear = 4, 25
	for epoch := int64(1); epoch <= kills; epoch++ {
		cmd, lines := startChild(t, dir, epoch, tear)
		acknowledged := 0
		for lines.Scan() && lines.Text() != "torn" {
			require.Equal(t, strconv.Itoa(acknowledged), lines.Text())
			acknowledged++
		}
		for n := range int64(tear) {
			item, err := sub.Next(t.Context())
			require.NoError(t, err)
			require.Nil(t, item.Gap, "epoch %d", epoch)
			require.Equal(t, epoch, item.Event.Segment.ID.BrokerEpoch)
			require.Equal(t, n, item.Event.Sequence)
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		assert.Error(t, cmd.Wait())
		assert.Equal(t, tear, acknowledged)
	}
	log := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: kills + 1})
	publish(t, log, events(1, kills+1, 0)...)
	item, err := sub.Next(t.Context())
	require.NoError(t, err)
	require.NotNil(t, item.Event, "%v", item.Gap)
	assert.EqualValues(t, kills+1, item.Event.Segment.ID.BrokerEpoch)
	assert.Len(t, damage.all(), kills, "each torn tail is reported")
	for _, d := range damage.all() {
		assert.True(t, strings.HasPrefix(d, "torn 1/"), d)
	}
}

// L6 across processes: a process that goes on with an overtaken epoch is told so.
func TestFencedAcrossProcesses(t *testing.T) {
	dir := t.TempDir()
	cmd, lines := startChild(t, dir, 1, -1)
	require.True(t, lines.Scan())
	newer := open(t, filelog.Config{Dir: dir, Broker: 1, BrokerEpoch: 2})
	publish(t, newer, events(1, 2, 0)...)
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	assert.Contains(t, last, metadata.ErrFenced.Error())
	assert.Error(t, cmd.Wait())
}

// A directory that cannot be written says so on start, with its name. Nobody is kept from writing as root, so the test
// runs itself as another user.
func TestUnwritableDirectory(t *testing.T) {
	if os.Getuid() == 0 && os.Getenv("WALHOP_FILELOG_UNWRITABLE") == "" {
		dir, err := os.MkdirTemp("", "filelog-unwritable")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		require.NoError(t, os.Chmod(dir, 0o755))
		binary := filepath.Join(dir, "test")
		self, err := os.Executable()
		require.NoError(t, err)
		b, err := os.ReadFile(self)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(binary, b, 0o755))
		require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o777))
		require.NoError(t, os.Chmod(filepath.Join(dir, "tmp"), 0o777))
		cmd := exec.Command(binary, "-test.run=^TestUnwritableDirectory$", "-test.v")
		cmd.Env = append(os.Environ(), "WALHOP_FILELOG_UNWRITABLE=1", "TMPDIR="+filepath.Join(dir, "tmp"))
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestUnwritableDirectory")
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o555))
	_, err := filelog.New(t.Context(), filelog.Config{Dir: dir, Broker: 1})
	require.ErrorIs(t, err, os.ErrPermission)
	assert.ErrorContains(t, err, dir)
	assert.ErrorContains(t, err, "Config.Dir")

	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1"), 0o555))
	_, err = filelog.New(t.Context(), filelog.Config{Dir: dir, Broker: 1})
	require.ErrorIs(t, err, os.ErrPermission)

	// A file of another broker that cannot be read holds up nobody else, and nothing is lost once it can be.
	log := open(t, filelog.Config{Dir: dir, Broker: 2, BrokerEpoch: 1})
	var damage damages
	reader := open(t, filelog.Config{Dir: dir, Broker: 3, BrokerEpoch: 1, Hooks: damage.hooks(), PollInterval: time.Millisecond})
	sub := subscribe(t, reader)
	hidden := open(t, filelog.Config{Dir: dir, Broker: 4, BrokerEpoch: 1})
	publish(t, hidden, events(4, 1, 0)...)
	name := filepath.Join(dir, files(t, dir)[0])
	require.NoError(t, os.Chmod(name, 0))
	publish(t, log, events(2, 1, 0)...)
	next := func() int32 {
		for {
			item, err := sub.Next(t.Context())
			require.NoError(t, err)
			if item.Gap == nil {
				return item.Event.Segment.ID.BrokerID
			}
			assert.EqualValues(t, 4, item.Gap.BrokerID, "M3: what cannot be read is a gap")
		}
	}
	if next() == 2 { // the other may have been read before it was hidden
		require.NoError(t, os.Chmod(name, 0o644))
		assert.EqualValues(t, 4, next())
	}
}
