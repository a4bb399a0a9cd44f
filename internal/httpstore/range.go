package httpstore

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/walhop/walhop/walstorage"
)

// Last is the last of length bytes from offset on, or walstorage.ErrInvalidRange where no object has them. length is at
// least 1.
func Last(offset int64, length int) (last int64, err error) {
	if offset < 0 || offset > math.MaxInt64-int64(length) {
		return 0, walstorage.NewError(walstorage.ErrInvalidRange, fmt.Errorf("no object has %d bytes from %d on", length, offset))
	}
	return offset + int64(length) - 1, nil
}

// CheckRange compares the head of an answer to a request for the bytes offset to last of an object with what was asked
// for (W6): it has to be 206 with exactly that range. A range that ends beyond the object is walstorage.ErrInvalidRange,
// everything else that is not right walstorage.ErrUnavailable. contentLength is -1 if it is not known. A Content-Range
// that contradicts itself is not right, nor is one of an object whose size is not told ("*").
func CheckRange(status int, contentRange string, contentLength, offset, last int64) error {
	if status != http.StatusPartialContent {
		return unavailable("status %d is not 206, to a request for a range", status)
	}
	first, end, total, ok := parseRange(contentRange)
	if !ok {
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

// parseRange reads "bytes first-end/total", digits and nothing else in place of the numbers (RFC 9110, section 14.4), or,
// as Azurite answers a range that begins where the object of 10 bytes ends, "bytes 10-9/10"; "bytes 0--1/0" where it is
// empty.
func parseRange(text string) (first, end, total int64, ok bool) {
	unit, rest, _ := strings.Cut(text, " ")
	from, rest, _ := strings.Cut(rest, "-")
	to, size, _ := strings.Cut(rest, "/")
	first, firstOK := number(from)
	end, endOK := number(to)
	if to == "-1" {
		end, endOK = -1, true
	}
	total, totalOK := number(size)
	ok = strings.EqualFold(unit, "bytes") && firstOK && endOK && totalOK &&
		(first <= end && end < total || first == total && end == total-1)
	return first, end, total, ok
}

// number reads decimal digits, without the signs and underscores that package strconv takes too.
func number(text string) (int64, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func unavailable(format string, args ...any) error {
	return walstorage.NewError(walstorage.ErrUnavailable, fmt.Errorf(format, args...))
}
