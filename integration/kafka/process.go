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
)

// process is a child that ends when the test binary does, whatever that dies of.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	// keeper waits for the end of its input, and kills the child unless it was told before that there is none any more.
	keeper *exec.Cmd
	life   io.WriteCloser
}

// launch starts the command with its output in the file.
func launch(output *os.File, command string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(command, args...), ended: make(chan struct{})}
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

// running tells whether the child has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal, which an ended child does not get.
func (p *process) signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && p.running() {
		tb.Fatalf("%v to %s: %v", signal, p.cmd.Path, err)
	}
}

// kill ends the child at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// stop asks the child to end, and kills it if it has not done so in time. It tells whether it has.
func (p *process) stop(patience time.Duration) bool {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // one that was paused does not get the other
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		p.kill()
		return false
	}
}
