package threebrokers

import (
	"flag"
	"fmt"
	"time"
)

// Load is what is produced, and how it is collected into segments.
type Load struct {
	Duration   time.Duration // how long to produce, 0 to 1h
	Rate       float64       // MB/s over all partitions, above 0 and at most 1000
	Partitions int           // 1 to 1000
	Linger     time.Duration // of the leaders, above 0 and at most 500ms
}

// Flags adds a flag for each field, whose default is what the field holds.
func (l *Load) Flags(flags *flag.FlagSet) {
	flags.DurationVar(&l.Duration, "duration", l.Duration, "how long to produce, after the real segments")
	flags.Float64Var(&l.Rate, "rate", l.Rate, "MB of records to produce each second, over all partitions")
	flags.IntVar(&l.Partitions, "partitions", l.Partitions, "number of partitions to produce to")
	flags.DurationVar(&l.Linger, "linger", l.Linger, "how long a leader collects for one segment")
}

// Check names the flag that is wrong.
func (l Load) Check() error {
	switch {
	case l.Duration < 0 || l.Duration > time.Hour:
		return fmt.Errorf("-duration is %s, want 0 to 1h", l.Duration)
	case !(l.Rate > 0 && l.Rate <= 1000):
		return fmt.Errorf("-rate is %g, want above 0 and at most 1000 MB/s", l.Rate)
	case l.Partitions < 1 || l.Partitions > 1000:
		return fmt.Errorf("-partitions is %d, want 1 to 1000", l.Partitions)
	case l.Linger <= 0 || l.Linger > 500*time.Millisecond:
		return fmt.Errorf("-linger is %s, want above 0 and at most 500ms", l.Linger)
	}
	return nil
}
