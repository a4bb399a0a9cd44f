package azure

import (
	"net/http"
	"time"
)

// Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	// Delay is waited before anything else, Wait until it is closed or the client has gone or Close is called.
	Delay time.Duration
	Wait  <-chan struct{}

	// Status answers with this status, and Code and Message in an error document and Code in a header, once the body was
	// read, and does nothing else. Early answers before the body is read.
	Status  int
	Code    string
	Message string
	Early   bool
	// Detail is the AuthenticationErrorDetail of the error document.
	Detail string
	// RetryAfter and Location are the headers of these names of the answer.
	RetryAfter string
	Location   string
	// Document is sent under the status of success in place of the right answer.
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
	// EmptyRange answers a range that begins at the object's end with 206 and no bytes, as Azurite does.
	EmptyRange bool

	// Marker takes the place of the next marker of a list that has more, NoMarker leaves the element out.
	Marker   string
	NoMarker bool
	// Keys gives the code of the error for blobs of a batch, which are then not deleted.
	Keys map[string]string
	// Omit leaves the parts of those deleted out of the answer to a batch, NoContentID leaves the numbers out of all parts, and
	// ContentID takes the place of the first part's.
	Omit        bool
	NoContentID bool
	ContentID   string
}

// before runs before the body is read. closed ends its waits: net/http does not notice that the client has gone as long
// as there is a body to read.
func (f *Fault) before(w http.ResponseWriter, r *http.Request, closed <-chan struct{}) (done bool) {
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
	if f.Early {
		f.fail(w, r)
		return true
	}
	return false
}

func (f *Fault) afterBody(w http.ResponseWriter, r *http.Request, op string) (done bool) {
	switch {
	case f.After || f.DropAfter:
		return false
	case f.Status != 0:
		f.fail(w, r)
		return true
	case f.Document != "":
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(success[op])
		_, _ = w.Write([]byte(f.Document))
		return true
	}
	return false
}

// success is the status that an operation answers if all is well.
var success = map[string]int{
	"PutBlob": http.StatusCreated, "GetBlob": http.StatusPartialContent, "GetBlobProperties": http.StatusOK,
	"ListBlobs": http.StatusOK, "DeleteBlob": http.StatusAccepted, "BlobBatch": http.StatusAccepted, "Unknown": http.StatusOK,
}

func (f *Fault) after() bool { return f.DropAfter || f.After }

func (f *Fault) afterCommit(w http.ResponseWriter, r *http.Request) {
	if f.DropAfter {
		panic(http.ErrAbortHandler)
	}
	f.fail(w, r)
}

func (f *Fault) fail(w http.ResponseWriter, r *http.Request) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	if f.Location != "" {
		w.Header().Set("Location", f.Location)
	}
	(&problem{f.Status, f.Code, f.Message, f.Detail}).write(w, r.Method == http.MethodHead)
}
