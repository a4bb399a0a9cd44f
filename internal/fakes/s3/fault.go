package s3

import (
	"net/http"
	"time"

	"github.com/walhop/walhop/internal/fakes/faulty"
)

// Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	// Delay is waited before anything else, Wait until it is closed or the client has gone or Close is called.
	Delay time.Duration
	Wait  <-chan struct{}

	// Status answers with this status, and Code and Message in an error document, once the body was read, and does
	// nothing else. Early answers before the body is read; ReadOn reads it after such an answer all the same, so that
	// Requests shows what a client goes on sending.
	Status  int
	Code    string
	Message string
	Early   bool
	ReadOn  bool
	// RetryAfter is the header of that name of the answer.
	RetryAfter string
	// Document is sent under status 200 in place of the right answer.
	Document string

	// Drop closes the connection before the body is read, DropAfter once the request was carried out. With Status,
	// After says that the request is carried out before the error is answered.
	Drop, DropAfter, After bool

	// Truncate sends so many bytes less of the object, and then ends the connection; Cut ends the answer well formed,
	// with the shorter length in its head.
	Truncate int
	Cut      bool
	// StallAfter sends so many bytes of the object and then nothing until the client has gone. 0 is no stall.
	StallAfter int
	// Flip changes one bit of the object's byte 0 on its way out.
	Flip bool
	// IgnoreRange answers 200 with the whole object. ContentRange takes the place of the header of that name.
	IgnoreRange  bool
	ContentRange string

	// Token takes the place of the next continuation token of a list that has more, NoToken leaves it out.
	Token   string
	NoToken bool
	// Keys gives the code of the error for keys of a DeleteObjects, which are then not deleted.
	Keys map[string]string
	// Omit leaves the keys out of the answer to a DeleteObjects.
	Omit bool
}

// course is what goes wrong on the way of the request.
func (f *Fault) course() faulty.Course {
	return faulty.Course{
		Delay: f.Delay, Wait: f.Wait, Early: f.Early, ReadOn: f.ReadOn, Drop: f.Drop, DropAfter: f.DropAfter, After: f.After,
	}
}

// body is what goes wrong with the bytes of an object.
func (f *Fault) body() faulty.Body {
	return faulty.Body{
		Truncate: f.Truncate, Cut: f.Cut, StallAfter: f.StallAfter, Flip: f.Flip,
		IgnoreRange: f.IgnoreRange, ContentRange: f.ContentRange,
	}
}

// Instead implements faulty.Exchange.
func (x *exchange) Instead(w http.ResponseWriter) (done bool) {
	switch f := x.fault; {
	case f.Status != 0:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		(&problem{f.Status, f.Code, f.Message}).write(w, x.r.Method == http.MethodHead)
		return true
	case f.Document != "":
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write([]byte(f.Document))
		return true
	}
	return false
}
