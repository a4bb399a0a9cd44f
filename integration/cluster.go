package integration

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// clusterVariable names the program of examples/cluster, as .ci/integration has built it.
const clusterVariable = "WALHOP_CLUSTER"

// result is the last line that the program prints, latency the one that tells how long records took.
var (
	result  = regexp.MustCompile(`^replicated ([0-9]+) batches, ([0-9]+) through the store, ([0-9]+) differences$`)
	latency = regexp.MustCompile(`(?m)^append to follower +(p50 .*)$`)
)

// Cluster runs examples/cluster, three brokers, over the store of the URL, with the variables added to the environment.
// The test fails unless the program ends well, has replicated more than 1,000 batches, some of them through the store, and
// has found no difference between the logs.
func Cluster(t *testing.T, url string, variables ...string) {
	t.Helper()
	ClusterRun{Flags: []string{"-store", url}, Variables: variables}.Run(t)
}

// ClusterRun is a run of examples/cluster.
type ClusterRun struct {
	// Flags are those of the program, Variables are added to its environment.
	Flags, Variables []string
	// Meanwhile, if it is set, is called while the program runs.
	Meanwhile func()
}

// Run runs it. The test fails as that of [Cluster] does. How much came through the store is told and not judged: that is
// a matter of how fast the machine is.
func (r ClusterRun) Run(t *testing.T) {
	t.Helper()
	program := os.Getenv(clusterVariable)
	if program == "" {
		t.Fatalf("%s is not set: make integration builds the program and sets it", clusterVariable)
	}
	cmd := exec.CommandContext(t.Context(), program, r.Flags...)
	cmd.Env = append(os.Environ(), r.Variables...)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if r.Meanwhile != nil {
		r.Meanwhile()
	}
	err := <-ended
	out := printed.String()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	told := result.FindStringSubmatch(last)
	if told == nil {
		t.Fatalf("the last line is no result:\n%s", out)
	}
	t.Attr("cluster", last)
	if took := latency.FindStringSubmatch(out); took != nil {
		t.Attr("append-to-follower", took[1])
	}
	batches, through := number(t, told[1]), number(t, told[2])
	if batches <= 1000 || through == 0 || told[3] != "0" {
		t.Fatalf("too few batches, none through the store, or differences:\n%s", out)
	}
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
