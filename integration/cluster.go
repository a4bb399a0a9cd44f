package integration

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// clusterVariable names the program of examples/cluster, as .ci/integration has built it.
const clusterVariable = "WALHOP_CLUSTER"

// result is the last line that the program prints.
var result = regexp.MustCompile(`^replicated ([0-9]+) batches, ([0-9]+) through the store, ([0-9]+) differences$`)

// Cluster runs examples/cluster, three brokers, over the store of the URL, with the variables added to the environment.
// The test fails unless the program ends well, has replicated more than 1,000 batches, some of them through the store, and
// has found no difference between the logs.
func Cluster(t *testing.T, url string, variables ...string) {
	t.Helper()
	program := os.Getenv(clusterVariable)
	if program == "" {
		t.Fatalf("%s is not set: make integration builds the program and sets it", clusterVariable)
	}
	cmd := exec.CommandContext(t.Context(), program, "-store", url)
	cmd.Env = append(os.Environ(), variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s -store %s: %v\n%s", program, url, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := lines[len(lines)-1]
	told := result.FindStringSubmatch(last)
	if told == nil {
		t.Fatalf("the last line is no result:\n%s", out)
	}
	t.Attr("cluster", last)
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
