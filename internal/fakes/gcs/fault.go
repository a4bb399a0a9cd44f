package gcs

import (
	"net/http"
	"time"
)

// Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	// Delay is waited before anything else, Wait until it is closed or the client has gone or Close is called.
	Delay time.Duration
	Wait  <-chan struct{}

	// Status answers with this status, and Reason and Message in an error document, once the body was read, and does
	// nothing else. Plain sends the message as it is instead, as what stands between client and service may. Early
	// answers before the body is read, also with Document; ReadOn reads it after such an answer all the same, so that
	// Requests shows what a client goes on sending.
	Status  int
	Reason  string
	Message string
	Plain   bool
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

	// CRC32C takes the place of the checksum in the metadata that is answered, in base64; "none" leaves it out.
	CRC32C string

	// Token takes the place of the next page token of a list, also of one that has no more. Empty sends a page without
	// objects, whose token asks for the page again that should have come.
	Token string
	Empty bool
}

// before runs before the body is read. closed ends its waits: net/http does not notice that the client has gone as long
// as there is a body to read.
func (f *Fault) before(w http.ResponseWriter, r *http.Request, request Request, closed <-chan struct{}) (done bool) {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		case <-closed:
		}
	}
	if f.Wait != nil {
		select {
		case <-f.Wait:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-closed:
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
	if !f.Early {
		return false
	}
	if f.ReadOn {
		_ = http.NewResponseController(w).EnableFullDuplex() // else net/http reads the body before it answers
		w.Header().Set("Connection", "close")                // and after it, it would not know where the next request begins
	}
	done = f.instead(w, request)
	if f.ReadOn {
		_ = http.NewResponseController(w).Flush()
	}
	return done
}

func (f *Fault) afterBody(w http.ResponseWriter, request Request) (done bool) {
	return !f.after() && f.instead(w, request)
}

// instead answers what was asked for in place of the right answer, if anything was.
func (f *Fault) instead(w http.ResponseWriter, request Request) (done bool) {
	switch {
	case f.Status != 0:
		f.fail(w, request)
		return true
	case f.Document != "":
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = w.Write([]byte(f.Document))
		return true
	}
	return false
}

func (f *Fault) after() bool { return f.DropAfter || f.After }

func (f *Fault) afterCommit(w http.ResponseWriter, request Request) {
	if f.DropAfter {
		panic(http.ErrAbortHandler)
	}
	f.fail(w, request)
}

func (f *Fault) fail(w http.ResponseWriter, request Request) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	p := &problem{f.Status, f.Reason, f.Message}
	if f.Plain {
		p.writePlain(w)
		return
	}
	p.answer(w, request)
}
