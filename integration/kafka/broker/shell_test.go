package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a command may take. kcat waits for ever on what it cannot have.
const patience = 40 * time.Second

// commands are the tools as somebody calls them who has installed them, and what the test bed has for it. Those of Kafka end
// in ".sh" where they are from its own download.
var commands = map[string]string{
	"kcat":                     `"$WALHOP_KCAT"`,
	"kafka-console-producer":   java + "org.apache.kafka.tools.ConsoleProducer",
	"kafka-console-consumer":   java + "org.apache.kafka.tools.consumer.ConsoleConsumer",
	"kafka-producer-perf-test": java + "org.apache.kafka.tools.ProducerPerformance",
	"kafka-topics":             java + "org.apache.kafka.tools.TopicCommand",
	"kafka-get-offsets":        java + "org.apache.kafka.tools.GetOffsetShell",
	"kafka-dump-log":           java + "org.apache.kafka.tools.DumpLogSegments",
}

const java = `java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$WALHOP_KAFKA/libs/*" `

// writeCommands makes a directory of the commands.
func writeCommands(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, command := range commands {
		script := "#!/bin/sh\nexec " + command + ` "$@"` + "\n"
		for _, name := range []string{name, name + ".sh"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
		}
	}
	return dir
}

// shell runs a line of a shell that has the tools, and what it starts, and returns what is printed. It fails if that takes
// too long.
func (b *brokers) shell(t *testing.T, line string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+b.commands+":"+os.Getenv("PATH"), "BROKERS="+b.bootstrap)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with what it has started
	cmd.WaitDelay = time.Second
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v, %v\n%s\n%s", line, err, ctx.Err(), out.String(), complaints.String())
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

// kcat runs kcat with a text as its input. It has to succeed.
func (b *brokers) kcat(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv("WALHOP_KCAT"), append([]string{"-b", b.bootstrap}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = time.Second
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	require.NoError(t, err, "%s, %v:\n%s", fmt.Sprint(cmd.Args), ctx.Err(), complaints.String())
	return out.String()
}
