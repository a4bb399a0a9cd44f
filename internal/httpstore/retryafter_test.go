package httpstore_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/httpstore"
)

// J3, J22: seconds are seconds, and a date is so far off as it is by the clock of what names it, if it tells the time.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) string { return time.Now().UTC().Add(d).Format(http.TimeFormat) }
		tests := map[string]struct {
			date, after string
			want        time.Duration
		}{
			"nothing":            {in(0), "", 0},
			"seconds":            {in(0), "7", 7 * time.Second},
			"a date":             {in(0), in(7 * time.Second), 7 * time.Second},
			"an hour ahead":      {in(time.Hour), in(time.Hour + 7*time.Second), 7 * time.Second},
			"an hour behind":     {in(-time.Hour), in(7*time.Second - time.Hour), 7 * time.Second},
			"no clock":           {"", in(7 * time.Second), 7 * time.Second},
			"a clock of nothing": {"noon", in(7 * time.Second), 7 * time.Second},
			"over":               {in(0), in(-time.Second), 0},
		}
		for name, test := range tests {
			header := http.Header{"Date": {test.date}, "Retry-After": {test.after}}
			assert.Equal(t, test.want, httpstore.RetryAfter(header), name)
		}
	})
}
