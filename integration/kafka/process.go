package kafka

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Process is a child that ends when the test binary does, whatever that dies of.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	// keeper waits for the end of its input, and kills the child unless it was told before that there is none any more.
	keeper *exec.Cmd
	life   io.WriteCloser
}

// Launch starts a command whose output goes to the end of the file named. It ends with the test.
func Launch(tb testing.TB, output, command string, args ...string) *Process {
	tb.Helper()
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(tb, err)
	defer file.Close()
	p, err := launch(file, command, args...)
	require.NoError(tb, err)
	tb.Cleanup(p.Kill)
	return p
}

// launch starts the command with its output in the file.
func launch(output *os.File, command string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(command, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.keeper = exec.Command("sh", "-c", `read -r line || kill -KILL "$1"`, "keeper", strconv.Itoa(p.cmd.Process.Pid))
	var err error
	if p.life, err = p.keeper.StdinPipe(); err == nil {
		err = p.keeper.Start()
	}
	if err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		return nil, fmt.Errorf("the keeper of %s: %w", command, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // how it has ended is for its log to say
		_, _ = io.WriteString(p.life, "ended\n")
		_ = p.keeper.Wait()
	}()
	return p, nil
}

// Running tells whether the child has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal, which an ended child does not get.
func (p *Process) signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && p.Running() {
		tb.Fatalf("%v to %s: %v", signal, p.cmd.Path, err)
	}
}

// Kill ends the child at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Stop asks the child to end, with SIGTERM, and fails the test if it has to be killed.
func (p *Process) Stop(tb testing.TB) {
	tb.Helper()
	require.True(tb, p.stop(Patience), "%s had to be killed", p.cmd.Path)
}

// stop asks the child to end, and kills it if it has not done so in time. It tells whether it has.
func (p *Process) stop(limit time.Duration) bool {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // one that was paused does not get the other
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		p.Kill()
		return false
	}
}
