package httpstore

import (
	"net/http"
	"time"

	"github.com/walhop/walhop/walstorage/objectstore"
)

// RetryAfter is the time that an answer asks to wait, 0 if it asks for none. A date is compared with the time of whoever has
// named it, which is in the same answer (J22): this machine's clock may be another.
func RetryAfter(header http.Header) time.Duration {
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return objectstore.RetryAfter(header.Get("Retry-After"), now)
}
