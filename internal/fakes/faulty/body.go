package faulty

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Body is what goes wrong with the bytes of an object on their way out, as the fakes' own types of fault describe it.
type Body struct {
	Truncate     int
	Cut          bool
	StallAfter   int
	Flip         bool
	IgnoreRange  bool
	ContentRange string
	// EmptyRange answers a range that begins at the object's end with 206 and no bytes.
	EmptyRange bool
}

// Part is what an answer to a read has of an object.
type Part struct {
	data         []byte
	status       int
	contentRange string
}

// Of is the part of the object that the header Range asks for, "bytes=first-last", and the whole object if it asks for
// nothing else. It is not there if it begins beyond the object's end.
func (b Body) Of(object []byte, asked string) (part Part, there bool) {
	part = Part{object, http.StatusOK, ""}
	var first, last int64
	if n, _ := fmt.Sscanf(asked, "bytes=%d-%d", &first, &last); n == 2 && !b.IgnoreRange {
		size := int64(len(object))
		if first >= size && (!b.EmptyRange || first > size) {
			return Part{}, false
		}
		last = min(last, size-1)
		part = Part{object[first : last+1], http.StatusPartialContent, fmt.Sprintf("bytes %d-%d/%d", first, last, size)}
	}
	if b.ContentRange != "" {
		part.contentRange = b.ContentRange
	}
	return part, true
}

// Send sends the part with the headers that belong to it, beside those that are set already.
func (b Body) Send(w http.ResponseWriter, r *http.Request, part Part) {
	data, length := part.data, len(part.data)
	if b.Flip && length > 0 {
		data = slices.Clone(data)
		data[0] ^= 1
	}
	if b.Truncate > 0 {
		data = data[:max(0, len(data)-b.Truncate)]
		if b.Cut {
			length = len(data)
		}
	}
	if part.contentRange != "" {
		w.Header().Set("Content-Range", part.contentRange)
	}
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(part.status)
	if b.StallAfter > 0 {
		_, _ = w.Write(data[:min(b.StallAfter, len(data))])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(data)
	if len(data) < length {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
