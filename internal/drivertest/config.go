package drivertest

import (
	"math"
	"net/http"
	"time"

	"github.com/walhop/walhop/internal/configtest"
)

// Wrong are the changes that have to be refused, by the field that has to be named, for the table of configtest.Run (A2):
// those to the fields that every configuration has, which it adds to the driver's own. They are values out of range, and
// endpoints that are malformed or have in them what has to be kept secret (W11). beside makes a change to a configuration
// that has a ready client of the SDK, to which neither endpoint nor HTTP client can be added.
func (Driver[C, D]) Wrong(beside func(change func(config *C)) func(config *C), own map[string][]func(config *C)) map[string][]func(config *C) {
	endpoint := func(text string) func(*C) { return func(c *C) { *fieldsOf(c).Endpoint = text } }
	parallelism := func(n int) func(*C) { return func(c *C) { *fieldsOf(c).Parallelism = n } }
	negative := func(field func(fields) *time.Duration) []func(*C) {
		least := func(c *C) { *field(fieldsOf(c)) = -1 }
		return []func(*C){least, func(c *C) { *field(fieldsOf(c)) = math.MinInt64 }, beside(least)}
	}
	wrong := map[string][]func(*C){
		"Endpoint": {
			endpoint("localhost:9000"),
			endpoint("ftp://localhost"),
			beside(endpoint("https://localhost")),
		},
		"HTTPClient":            {beside(func(c *C) { *fieldsOf(c).HTTPClient = http.DefaultClient })},
		"Parallelism":           {parallelism(-1), parallelism(10_001), beside(parallelism(-1))},
		"DialTimeout":           negative(func(f fields) *time.Duration { return f.DialTimeout }),
		"ResponseHeaderTimeout": negative(func(f fields) *time.Duration { return f.ResponseHeaderTimeout }),
		"StallTimeout":          negative(func(f fields) *time.Duration { return f.StallTimeout }),
		"Store.Cluster": {
			func(c *C) { fieldsOf(c).Store.Cluster = "" },
			func(c *C) { fieldsOf(c).Store.Cluster = "a/b" },
		},
		"Store.Prefix":         {func(c *C) { fieldsOf(c).Store.Prefix = "../up" }},
		"Store.AttemptTimeout": negative(func(f fields) *time.Duration { return &f.Store.AttemptTimeout }),
	}
	for _, scheme := range []string{"http://", "https://"} {
		for _, rest := range []string{
			"", "user:" + configtest.Secret + "@localhost", "localhost?token=" + configtest.Secret,
			"localhost/#" + configtest.Secret, "local host:%" + configtest.Secret,
		} {
			wrong["Endpoint"] = append(wrong["Endpoint"], endpoint(scheme+rest))
		}
	}
	for field, changes := range own {
		wrong[field] = append(wrong[field], changes...)
	}
	return wrong
}
