package broker

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// block is a block of code: its language, and what is in it.
	block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	// used is a line that uses the brokers.
	used = regexp.MustCompile(`\b(kcat|curl|kafka-[a-z-]+(\.sh)?) `)
	// wrong is what the tools print when something goes wrong, some of them without a status that says so.
	wrong = regexp.MustCompile(`(?i)error|exception|fail|no such|usage:`)
)

// What the README of the example shows works as typed. In a block of the language "console" each line behind a "$" is run by a
// shell, one after the other, and prints what stands below it; in any other each line that uses the brokers ends well and
// complains of nothing. Only the ports are others: those of the README are shown to be the example's defaults.
func TestSessionsOfTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../examples/broker/README.md")
	require.NoError(t, err)

	b := start(t, "")
	usage, err := exec.CommandContext(t.Context(), os.Getenv(programVariable), "-help").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(usage), `(default "19092,19093,19094")`)
	require.Contains(t, string(usage), "(default 19099)")
	replace := []string{"http://127.0.0.1:19099", b.admin}
	for i, address := range strings.Split(b.bootstrap, ",") {
		replace = append(replace, loopback+[]string{"19092", "19093", "19094"}[i], address)
	}
	typed := strings.NewReplacer(replace...)

	seen := map[string]int{}
	run := func(line string) (out string, status int) {
		out, complaints, status := b.shell(t, "{ "+typed.Replace(line)+"\n} 2>&1")
		require.Empty(t, complaints)
		for name := range commands {
			if strings.Contains(line, name+" ") || strings.Contains(line, name+".sh ") {
				seen[name]++
			}
		}
		return out, status
	}
	for _, found := range block.FindAllStringSubmatch(string(readme), -1) {
		if found[1] == "console" {
			for step := range strings.SplitSeq("\n"+found[2], "\n$ ") {
				if line, shown, _ := strings.Cut(step, "\n"); line != "" {
					out, _ := run(line)
					require.Regexp(t, printed(shown), strings.TrimSuffix(out, "\n"), "what %q prints", line)
				}
			}
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(found[2], "\\\n", " ")) {
			if used.MatchString(line) {
				out, status := run(strings.TrimSpace(line))
				require.Zero(t, status, "%s%s", line, out)
				require.NotRegexp(t, wrong, out, "%s", line)
			}
		}
	}
	for _, name := range []string{"kcat", "kafka-console-producer", "kafka-console-consumer", "kafka-producer-perf-test"} {
		require.Positive(t, seen[name], "lines with %s: %v", name, seen)
	}
}

// printed matches what is shown, with "..." for any end of a line.
func printed(shown string) string {
	return `\A` + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(shown, "\n")), `\.\.\.`, ".*") + `\z`
}
