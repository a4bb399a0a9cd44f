package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A store that is right passes: here one that is no objectstore.Manager and reports no requests.
func TestModelPasses(t *testing.T) {
	t.Parallel()
	Run(t, modelConfig(flaws{}))
}

// A configuration that is wrong is refused by the name of the field.
func TestConfigIsChecked(t *testing.T) {
	good := modelConfig(flaws{})
	for field, spoil := range map[string]func(cfg *Config){
		"Open":               func(cfg *Config) { cfg.Open = nil },
		"MaxObjectSize":      func(cfg *Config) { cfg.MaxObjectSize = -1 },
		"ListLarge":          func(cfg *Config) { cfg.ListLarge = -1 },
		"Timeout":            func(cfg *Config) { cfg.Timeout = -1 },
		"Secrets":            func(cfg *Config) { cfg.Secrets = []string{""} },
		"Shared":             func(cfg *Config) { cfg.Shared = map[string]string{"net/http.(*persistConn)": ""} },
		`Skip["C1"]`:         func(cfg *Config) { cfg.Skip = map[string]string{"C1": " "} },
		`Skip["B1"]: a base`: func(cfg *Config) { cfg.Skip = map[string]string{"B1": "the store keeps no bytes"} },
		`Skip["C99"]`:        func(cfg *Config) { cfg.Skip = map[string]string{"C99": "no reason is good enough"} },
		`Skip["Q1"]: there`:  func(cfg *Config) { cfg.Skip = map[string]string{"Q1": "a case of the other suite"} },
	} {
		t.Run(field, func(t *testing.T) {
			cfg := good
			spoil(&cfg)
			_, err := cfg.check()
			require.ErrorContains(t, err, field)
		})
	}
	for field, cfg := range map[string]MetadataConfig{
		"Open": {},
	} {
		_, err := cfg.check()
		require.ErrorContains(t, err, field)
	}
	for field, spoil := range map[string]func(cfg *CrashConfig){
		"Open":              func(cfg *CrashConfig) { cfg.Open = nil },
		"TemporaryAge":      func(cfg *CrashConfig) { cfg.TemporaryAge = -1 },
		"Timeout":           func(cfg *CrashConfig) { cfg.Timeout = -1 },
		"Shared":            func(cfg *CrashConfig) { cfg.Shared = map[string]string{"": "a reason"} },
		`Skip["N1"]`:        func(cfg *CrashConfig) { cfg.Skip = map[string]string{"N1": ""} },
		`Skip["C1"]: there`: func(cfg *CrashConfig) { cfg.Skip = map[string]string{"C1": "a case of the other suite"} },
	} {
		cfg := fileConfig(fileFlaws{})
		spoil(&cfg)
		_, err := cfg.check()
		require.ErrorContains(t, err, field)
	}
}

// What a failure prints: the case, the rule, what breaking it means, then what was seen.
func TestFailureExplainsItself(t *testing.T) {
	out, tc := runOne(t, modelConfig(flaws{overwrites: true}), "C1")
	require.True(t, out.failed)
	text := tc.explain()
	require.Contains(t, text, "C1 failed: a second create with other bytes is ErrSegmentExists")
	require.Contains(t, text, "W2. Create only")
	require.Contains(t, text, "What breaking it means: Bytes that a follower has been told about could change under it")
	require.NotEmpty(t, out.failures)
	require.Contains(t, fmt.Sprint(out.failures), "other bytes over a segment of 2000")
}

// Every rule that a case names is there, with what it says and what breaking it costs.
func TestEveryRuleIsExplained(t *testing.T) {
	used := make(map[string]bool)
	for _, tc := range allCases() {
		require.Contains(t, rules, tc.rule, tc.id)
		require.NotEmpty(t, tc.title, tc.id)
		require.NotNil(t, tc.run, tc.id)
		used[tc.rule] = true
	}
	for name, rule := range rules {
		require.NotEmpty(t, rule.says, name)
		require.NotEmpty(t, rule.costs, name)
		require.True(t, used[name], "no case checks rule %s", name)
	}
}

// What is skipped is printed with its reason, and counted (P5).
func TestSkipsArePrinted(t *testing.T) {
	cmd := Reexecute(t, "TestReport")
	cmd.Args = append(cmd.Args, "-test.v")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "L10 is skipped: not what is tested here")
	require.Contains(t, string(out), "C9 is skipped: the configuration has no Config.Driver")
	require.Regexp(t, `(?m)^conformance: \d+ passed, 0 failed, \d+ skipped$`, string(out))
}

// A case that is skipped says why, whether the user wants it so or the configuration lacks something.
func TestSkipsHaveReasons(t *testing.T) {
	cfg := modelConfig(flaws{})
	cfg.Skip = map[string]string{"E10": "the store has no room for a long list"}
	out, _ := runOne(t, cfg, "E10")
	require.True(t, out.skipped)
	require.Equal(t, "the store has no room for a long list", out.reason)
	out, _ = runOne(t, cfg, "C4")
	require.True(t, out.skipped)
	require.Equal(t, "the configuration has no Config.Peer", out.reason)
}

// A case that hangs is ended by the watchdog, which prints the stacks; the panic of a store, on whatever goroutine, is a
// failure of the case; cleanups run last first, whatever happened before.
func TestRunnerSurvivesTheWorst(t *testing.T) {
	cfg, err := modelConfig(flaws{panics: true}).check()
	require.NoError(t, err)
	r := newStorageRunner(cfg)
	r.timeout = 50 * time.Millisecond

	hangs := testCase{id: "A1", rule: "W8", title: "hangs", run: func(c *T) { <-c.Context().Done() }}
	out := r.run(t, "hangs", hangs)
	require.True(t, out.failed)
	require.Contains(t, out.failures[0], "has not ended after 50ms")
	require.Contains(t, out.failures[0], "goroutine ")

	r.timeout = timeoutDefault
	panics := testCase{id: "A1", rule: "W7", title: "panics", run: func(c *T) {
		m := c.open()
		id := c.newID()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = m.StatSegment(c.Context(), id)
		}()
		<-done
	}}
	out = r.run(t, "panics", panics)
	require.True(t, out.failed)
	require.Contains(t, out.failures[0], "the manager panicked: no such segment")

	var order []string
	cleans := testCase{id: "A1", rule: "W7", title: "cleans up", run: func(c *T) {
		c.Cleanup(func() { order = append(order, "first") })
		c.Cleanup(func() { order = append(order, "second"); c.FailNow() })
		c.Cleanup(func() { order = append(order, "third"); panic("in a cleanup") })
		require.Fail(c, "ends the case")
	}}
	out = r.run(t, "cleans", cleans)
	require.True(t, out.failed)
	require.Equal(t, []string{"third", "second", "first"}, order)
}

// An error text that holds a secret of the configuration fails whatever case sees it (W11).
func TestSecretsAreFound(t *testing.T) {
	cfg := modelConfig(flaws{})
	cfg.Secrets = []string{"segment not found"} // a text that errors do hold
	out, _ := runOne(t, cfg, "I2")
	require.True(t, out.failed)
	require.Contains(t, out.failures[0], "an error text holds a secret of the configuration")
	require.NotContains(t, out.failures[0], "segment not found")
}

// runOne runs one case of a suite without failing t.
func runOne(t *testing.T, cfg Config, id string) (outcome, testCase) {
	t.Helper()
	cfg, err := cfg.check()
	require.NoError(t, err)
	for _, tc := range storageCases {
		if tc.id == id {
			return newStorageRunner(cfg).run(t, t.Name(), tc), tc
		}
	}
	t.Fatalf("no case %s", id)
	return outcome{}, testCase{}
}
