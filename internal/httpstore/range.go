package httpstore

import (
	"fmt"
	"net/http"

	"github.com/walhop/walhop/walstorage"
)

// CheckRange compares the head of an answer to a request for the bytes offset to last of an object with what was asked
// for (W6): it has to be 206 with exactly that range. A range that ends beyond the object is walstorage.ErrInvalidRange,
// everything else that is not right walstorage.ErrUnavailable. contentLength is -1 if it is not known.
func CheckRange(status int, contentRange string, contentLength, offset, last int64) error {
	if status != http.StatusPartialContent {
		return unavailable("status %d is not 206, to a request for a range", status)
	}
	var first, end, total int64
	if _, err := fmt.Sscanf(contentRange, "bytes %d-%d/%d", &first, &end, &total); err != nil {
		return unavailable("Content-Range %q", contentRange)
	}
	switch {
	case first == offset && last >= total && end == total-1:
		return walstorage.NewError(walstorage.ErrInvalidRange, fmt.Errorf("bytes %d to %d of an object of %d", offset, last, total))
	case first != offset || end != last:
		return unavailable("Content-Range %q for bytes %d to %d", contentRange, offset, last)
	case contentLength >= 0 && contentLength != last-offset+1:
		return unavailable("Content-Length %d for %d bytes", contentLength, last-offset+1)
	}
	return nil
}

func unavailable(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf(format, args...))
}
