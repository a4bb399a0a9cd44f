package search

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	base := Config{Brokers: 2, Partitions: 1, Epochs: 3, Records: 3, Crashes: 1, MaxStates: 400000}
	for name, c := range map[string]func(c *Config){
		"report": func(c *Config) { c.Break = Break{NoReportCheck: true} },
		"expected": func(c *Config) { c.Break = Break{NoExpectedOffset: true} },
		"expectedjoined": func(c *Config) { c.Break = Break{NoExpectedOffset: true}; c.Joined = true },
		"epoch": func(c *Config) { c.Break = Break{NoAppendEpoch: true} },
		"epochjoined": func(c *Config) { c.Break = Break{NoAppendEpoch: true}; c.Joined = true },
		"L4": func(c *Config) { c.Break = Break{EpochAtSealing: true} },
		"L4any": func(c *Config) { c.Break = Break{EpochAtSealing: true, AnyEpochInSlice: true} },
		"asks": func(c *Config) { c.Break = Break{AsksNothing: true} },
		"ends": func(c *Config) { c.Break = Break{EndsDiverged: true} },
		"anyepoch": func(c *Config) { c.Break = Break{AnyEpoch: true} },
	} {
		cfg := base
		c(&cfg)
		begun := time.Now()
		r, err := Run(cfg)
		fmt.Println(name, r, err, r.Steps, time.Since(begun), r.Problem)
		fmt.Println(strings.Join(r.History, "\n"))
	}
}
