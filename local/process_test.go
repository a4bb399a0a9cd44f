//go:build unix

package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/walstorage"
)

// A test that needs a second process runs this test binary again, with a role in its environment. The child writes a
// line when it has come somewhere, and reads one when it may go on.
const (
	roleVariable = "WALHOP_LOCAL_TEST_ROLE"
	rootVariable = "WALHOP_LOCAL_TEST_ROOT"
	stepVariable = "WALHOP_LOCAL_TEST_STEP"

	raceKeys    = 500
	raceWorkers = 3
	raceBytes   = 3000
)

func raceKey(i int) string { return fmt.Sprintf("wal/c/1/2026010203/%02d/%d.wal", i%7, i) }

// race creates every key with the bytes of writer from several goroutines at once, each from a start of its own, and
// returns how often each key was created.
func race(d *Driver, writer byte) (created [raceKeys]int, err error) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	for w := range raceWorkers {
		workers.Go(func() {
			for n := range raceKeys {
				i := (n + w*raceKeys/raceWorkers) % raceKeys
				putErr := put(context.Background(), d, raceKey(i), content(writer, raceBytes))
				mu.Lock()
				if putErr == nil {
					created[i]++
				} else if !errors.Is(putErr, walstorage.ErrSegmentExists) {
					err = putErr
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return created, err
}

// playRole is the life of the child.
func playRole(role string) int {
	fail := func(err error) int {
		fmt.Println("failed:", err)
		return 1
	}
	ctx := context.Background()
	root, at := os.Getenv(rootVariable), os.Getenv(stepVariable)
	real, err := NewFS(root)
	if err != nil {
		return fail(err)
	}
	fsys := &stepFS{FS: unsyncedFS{real}}
	d, err := NewDriver(ctx, Config{Root: root, FS: fsys, SweepInterval: -1})
	if err != nil {
		return fail(err)
	}
	fmt.Println("ready")
	commands := bufio.NewScanner(os.Stdin)
	if !commands.Scan() {
		return 1
	}
	switch role {
	case "race":
		created, err := race(d, 'c')
		if err != nil {
			return fail(err)
		}
		for i, times := range created {
			for range times {
				fmt.Println(i)
			}
		}
	case "delete":
		// Deletes all that it sees, and the directories too, as soon as they are empty, until its input ends.
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for commands.Scan() {
			}
		}()
		deleted := 0
		for {
			select {
			case <-ended:
				fmt.Println("deleted", deleted)
				return 0
			default:
			}
			page, _, err := d.List(ctx, "", "")
			if err != nil {
				return fail(err)
			}
			for _, object := range page {
				if err := d.Delete(ctx, []string{object.Key}); err != nil {
					return fail(err)
				}
				deleted++
			}
			for minute := range 3 {
				// Not by Sweep, which would never remove one so young.
				_ = fsys.Remove(fmt.Sprintf("wal/c/1/2026010203/%02d", minute))
			}
			_ = fsys.Remove("wal/c/1/2026010203")
		}
	case "hold":
		fsys.intercept(func(s step) error {
			if s.call == at {
				fmt.Println("reached")
				select {} // until it is killed
			}
			return nil
		}, nil)
		return fail(put(ctx, d, faultNew, content('k', writeBytes+5)))
	}
	return 0
}

// child is the other process.
type child struct {
	t       *testing.T
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

func startChild(t *testing.T, role, root, at string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(self)
	command.Env = append(os.Environ(), roleVariable+"="+role, rootVariable+"="+root, stepVariable+"="+at)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	c := &child{t: t, command: command, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(c.kill)
	c.expect("ready")
	return c
}

func (c *child) goOn() {
	c.t.Helper()
	_, err := fmt.Fprintln(c.in, "go")
	require.NoError(c.t, err)
}

func (c *child) expect(line string) {
	c.t.Helper()
	require.True(c.t, c.out.Scan(), "the child has ended")
	require.Equal(c.t, line, c.out.Text())
}

// kill is SIGKILL. It waits until the child is gone, and so are its locks.
func (c *child) kill() {
	if c.command.ProcessState == nil {
		_ = c.command.Process.Kill()
		_ = c.command.Wait()
	}
}

// C4, N10: two processes create the same 500 keys. Each has exactly one winner, whose bytes are stored.
func TestCreateRaceOfTwoProcesses(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root})
	c := startChild(t, "race", root, "")
	c.goOn()
	created, err := race(d, 'p')
	require.NoError(t, err)
	won := make([]string, raceKeys)
	for i, times := range created {
		won[i] = strings.Repeat("p", times)
	}
	for c.out.Scan() {
		var i int
		_, err := fmt.Sscan(c.out.Text(), &i)
		require.NoError(t, err, c.out.Text())
		won[i] += "c"
	}
	require.NoError(t, c.command.Wait())

	winners := map[string]int{}
	for i, winner := range won {
		require.Len(t, winner, 1, "key %d has the winners %q", i, winner)
		winners[winner]++
		requireStored(t, d, raceKey(i), content(winner[0], raceBytes))
	}
	require.Len(t, listed(t, d, ""), raceKeys)
	require.Empty(t, temporaries(t, root))
	t.Logf("wins: %v", winners)
}

// F9, N10: while another process deletes in the same directories, and the directories with them, no upload fails.
func TestUploadBesideDeletesOfAnotherProcess(t *testing.T) {
	root := t.TempDir()
	d := newDriver(t, Config{Root: root})
	c := startChild(t, "delete", root, "")
	c.goOn()
	const uploads = 300
	for i := range uploads {
		key := fmt.Sprintf("wal/c/1/2026010203/%02d/%d.wal", i%3, i)
		var err error
		// The child removes directories however young they are, so an upload can find its own gone after it has linked
		// its file, or lose all its tries to make one. That is worth a retry, and no other error comes.
		for range 100 {
			if err = put(t.Context(), d, key, content('u', 100)); walstorage.KindOf(err) != walstorage.ErrUnavailable {
				break
			}
		}
		require.NoError(t, err)
	}
	require.NoError(t, c.in.Close())
	require.True(t, c.out.Scan())
	require.True(t, strings.HasPrefix(c.out.Text(), "deleted "), c.out.Text())
	require.NoError(t, c.command.Wait())
	require.Empty(t, temporaries(t, root))
	for _, key := range listed(t, d, "") {
		requireStored(t, d, key, content('u', 100))
	}
}

// N7, N8, loonfs/loonfs#377, kopia/kopia#5157: SIGKILL in the middle of an upload. While the process lives its temporary
// is not touched, however old; after its death it is invisible, is swept when it is old, and the segment is whole or
// absent.
func TestKillDuringUpload(t *testing.T) {
	for _, variant := range []struct {
		step   string // the child is stopped before this call
		linked bool
	}{
		{"write", false},
		{"sync", false},
		{"link", false},
		{"remove", true},
		{"close", true},
	} {
		t.Run(variant.step, func(t *testing.T) {
			// given another process in the middle of an upload
			root := t.TempDir()
			d := newDriver(t, Config{Root: root})
			c := startChild(t, "hold", root, variant.step)
			c.goOn()
			c.expect("reached")
			left := temporaries(t, root)
			for _, name := range left {
				makeOld(t, filepath.Join(root, name), 1000*time.Hour)
			}

			// then a sweep leaves it alone while it lives
			swept, err := d.Sweep(t.Context())
			require.NoError(t, err)
			require.Zero(t, swept)
			require.Equal(t, left, temporaries(t, root))

			// and when it has been killed nothing but a whole segment can be seen
			c.kill()
			if variant.linked {
				require.Equal(t, []string{faultNew}, listed(t, d, ""))
				requireStored(t, d, faultNew, content('k', writeBytes+5))
			} else {
				require.Empty(t, listed(t, d, ""))
				requireNothingStored(t, d, faultNew)
			}

			// and what it left is swept
			swept, err = d.Sweep(t.Context())
			require.NoError(t, err)
			require.Equal(t, len(left), swept.Temporaries)
			require.Empty(t, temporaries(t, root))
			if variant.linked {
				require.ErrorIs(t, put(t.Context(), d, faultNew, "again"), walstorage.ErrSegmentExists)
				requireStored(t, d, faultNew, content('k', writeBytes+5))
			} else {
				require.NoError(t, put(t.Context(), d, faultNew, "again"))
			}
		})
	}
}
