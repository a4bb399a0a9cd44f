package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What .ci/integration tells.
const (
	kafkaVariable = "WALHOP_KAFKA" // the folder that has the jars in libs
	kcatVariable  = "WALHOP_KCAT"  // the command
)

// Tools runs Kafka's own command line tools, each a Java program of a second or more, and kcat. They take any broker that
// speaks the protocol, by its "host:port", several of them with commas between.
type Tools struct{ folder, kcat string }

// NewTools finds the tools.
func NewTools(tb testing.TB) Tools {
	tb.Helper()
	t := Tools{folder: os.Getenv(kafkaVariable), kcat: os.Getenv(kcatVariable)}
	if t.folder == "" || t.kcat == "" {
		tb.Fatalf("%s or %s is not set: make integration installs Kafka and kcat and sets them", kafkaVariable, kcatVariable)
	}
	if _, err := exec.LookPath("java"); err != nil {
		tb.Fatalf("Kafka needs Java, 17 or later: %v", err)
	}
	return t
}

func (t Tools) classpath() string { return filepath.Join(t.folder, "libs", "*") }

// Java runs a class of Kafka's with the text as its standard input, and returns what it prints.
func (t Tools) Java(tb testing.TB, stdin, class string, args ...string) string {
	tb.Helper()
	out, _, err := t.java(tb.Context(), stdin, class, args...)
	require.NoError(tb, err)
	return out
}

func (t Tools) java(ctx context.Context, stdin, class string, args ...string) (stdout, stderr string, err error) {
	return run(ctx, stdin, "java", append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", t.classpath(), class,
	}, args...)...)
}

// Kcat runs kcat on a broker, and returns what it prints.
func (t Tools) Kcat(tb testing.TB, bootstrap, stdin string, args ...string) string {
	tb.Helper()
	out, _, err := run(tb.Context(), stdin, t.kcat, append([]string{"-b", bootstrap}, args...)...)
	require.NoError(tb, err)
	return out
}

// Produce sends lines as records with the console producer, which takes what stands before a tab for the key. Options
// are its own, such as "--command-property", "acks=1".
func (t Tools) Produce(tb testing.TB, bootstrap, topic string, lines []string, options ...string) {
	tb.Helper()
	t.Java(tb, strings.Join(lines, "\n")+"\n", "org.apache.kafka.tools.ConsoleProducer",
		append([]string{"--bootstrap-server", bootstrap, "--topic", topic, "--reader-property", "parse.key=true"}, options...)...)
}

// Consume reads n records of a partition from an offset on with the console consumer, without a group: the key, a tab and
// the value of each. It returns fewer if no more come for 30 s. Options are its own, such as "--isolation-level",
// "read_committed".
func (t Tools) Consume(tb testing.TB, bootstrap, topic string, partition int, offset int64, n int, options ...string) []string {
	tb.Helper()
	out := t.Java(tb, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", append([]string{
		"--bootstrap-server", bootstrap, "--topic", topic, "--partition", strconv.Itoa(partition), "--offset", strconv.FormatInt(offset, 10),
		"--max-messages", strconv.Itoa(n), "--timeout-ms", "30000", "--formatter-property", "print.key=true",
	}, options...)...)
	return lines(out)
}

// Perform sends n records of a size with the producer performance tool, as fast as it can, and returns the line with its
// result. Properties are those of a producer, such as "acks=1".
func (t Tools) Perform(tb testing.TB, bootstrap, topic string, n, size int, properties ...string) string {
	tb.Helper()
	args := []string{"--bootstrap-server", bootstrap, "--topic", topic, "--num-records", strconv.Itoa(n), "--record-size", strconv.Itoa(size), "--throughput", "-1"}
	for _, property := range properties {
		args = append(args, "--command-property", property)
	}
	told := lines(t.Java(tb, "", "org.apache.kafka.tools.ProducerPerformance", args...))
	require.NotEmpty(tb, told)
	return told[len(told)-1]
}

// run runs a command for 2 minutes at most. The error has the end of what it has printed.
func run(ctx context.Context, stdin, command string, args ...string) (stdout, stderr string, err error) {
	limited, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	cmd := exec.CommandContext(limited, command, args...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = strings.NewReader(stdin)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err = cmd.Run(); err == nil {
		return out.String(), complaints.String(), nil
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = errors.Join(err, fmt.Errorf("it has not ended in %v", Patience))
	}
	return out.String(), complaints.String(), fmt.Errorf("%s: %w\n%s\n%s", strings.Join(cmd.Args, " "), err, end(out.Bytes()), end(complaints.Bytes()))
}

// end returns what stands at the end of a text.
func end(text []byte) []byte { return text[max(0, len(text)-4000):] }

// lines returns the lines of a text.
func lines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
