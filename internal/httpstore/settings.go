package httpstore

import (
	"fmt"
	"time"
)

// Settings are what the configuration of each driver says of its requests, under the same names.
type Settings struct {
	// Parallelism is the number of requests that are expected at once: twice as many idle connections are kept. Default
	// 64, at most 10,000.
	Parallelism int
	// DialTimeout limits the opening of a connection, and the TLS handshake again. Default 3 s.
	DialTimeout time.Duration
	// ResponseHeaderTimeout limits how long an answer may take to begin once the request has been sent. Default 10 s.
	ResponseHeaderTimeout time.Duration
	// StallTimeout limits how long a request or an answer may go without a byte moving. Default 10 s. It is the driver's
	// affair, and not the transport's.
	StallTimeout time.Duration
}

const (
	defaultParallelism           = 64
	maxParallelism               = 10_000
	defaultDialTimeout           = 3 * time.Second
	defaultResponseHeaderTimeout = 10 * time.Second
	defaultStallTimeout          = 10 * time.Second
)

// WithDefaults returns the settings with their zero values filled in, or else the name of a field and what is wrong with
// it; problem is "" if nothing is.
func (s Settings) WithDefaults() (filled Settings, field, problem string) {
	switch {
	case s.Parallelism < 0 || s.Parallelism > maxParallelism:
		return Settings{}, "Parallelism", fmt.Sprintf("%d is not between 0 and %d", s.Parallelism, maxParallelism)
	case s.Parallelism == 0:
		s.Parallelism = defaultParallelism
	}
	for _, d := range []struct {
		name     string
		field    *time.Duration
		standard time.Duration
	}{
		{"DialTimeout", &s.DialTimeout, defaultDialTimeout},
		{"ResponseHeaderTimeout", &s.ResponseHeaderTimeout, defaultResponseHeaderTimeout},
		{"StallTimeout", &s.StallTimeout, defaultStallTimeout},
	} {
		if *d.field < 0 {
			return Settings{}, d.name, fmt.Sprintf("%v is negative", *d.field)
		}
		if *d.field == 0 {
			*d.field = d.standard
		}
	}
	return s, "", ""
}
