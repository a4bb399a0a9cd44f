package objectstore

import (
	"strconv"
	"strings"
	"time"
)

// RetryAfter is for drivers that speak HTTP: it reads the value of a Retry-After header, seconds or a date, which is
// compared with now. It is 0 where the value says nothing or lies in the past; the Manager caps it.
func RetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		const most = int64(24 * time.Hour / time.Second) // far above any cap, far below an overflow
		return time.Duration(max(0, min(seconds, most))) * time.Second
	}
	// The three date formats of HTTP; all are in UTC.
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if date, err := time.Parse(layout, value); err == nil {
			return max(0, date.Sub(now))
		}
	}
	return 0
}
