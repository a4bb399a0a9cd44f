package faulty

import (
	"io"
	"net/http"
	"time"
)

// Course is what goes wrong on the way of one request, as the fakes' own types of fault describe it.
type Course struct {
	Delay                  time.Duration
	Wait                   <-chan struct{}
	Early, ReadOn          bool
	Drop, DropAfter, After bool
}

// Exchange is one request in the protocol of a fake.
type Exchange interface {
	// Instead answers what the fault has in place of the right answer, if anything, and tells whether it did.
	Instead(w http.ResponseWriter) (done bool)
	// Broken answers a request whose body broke off.
	Broken(w http.ResponseWriter)
	// Answer carries the request out and answers it.
	Answer(w http.ResponseWriter, body []byte)
}

// Serve takes one request its course. closed ends its waits: net/http does not notice that the client has gone as long as
// there is a body to read. record is called with the body.
func Serve(w http.ResponseWriter, r *http.Request, course Course, x Exchange, record func([]byte), closed <-chan struct{}) {
	course.wait(r, closed)
	if course.Drop {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
	answered := course.Early && course.early(w, x)
	if answered && !course.ReadOn {
		return
	}
	body, err := io.ReadAll(r.Body)
	record(body)
	switch after := course.DropAfter || course.After; {
	case answered:
	case err != nil:
		x.Broken(w)
	case after:
		x.Answer(&discarded{header: http.Header{}}, body)
		if course.DropAfter {
			panic(http.ErrAbortHandler)
		}
		x.Instead(w)
	case !x.Instead(w):
		x.Answer(w, body)
	}
}

func (c *Course) wait(r *http.Request, closed <-chan struct{}) {
	if c.Delay > 0 {
		timer := time.NewTimer(c.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		case <-closed:
		}
	}
	if c.Wait != nil {
		select {
		case <-c.Wait:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-closed:
			panic(http.ErrAbortHandler)
		}
	}
}

// early answers before the body is read.
func (c *Course) early(w http.ResponseWriter, x Exchange) (done bool) {
	if c.ReadOn {
		_ = http.NewResponseController(w).EnableFullDuplex() // else net/http reads the body before it answers
		w.Header().Set("Connection", "close")                // and after it, it would not know where the next request begins
	}
	done = x.Instead(w)
	if c.ReadOn {
		_ = http.NewResponseController(w).Flush()
	}
	return done
}

// discarded is where the answer goes that a fault takes away.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(int)             {}
