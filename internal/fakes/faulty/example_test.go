package faulty_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/walhop/walhop/internal/fakes/faulty"
)

// request adds nothing to what every fake tells.
type request struct{ faulty.Request }

// fault is a fault of the one kind that echo knows.
type fault struct{ Status int }

// echo is a fake whose only operation answers with what it was sent.
type echo struct {
	*faulty.Script[request, fault, *request]
}

type exchange struct{ fault fault }

func (x *exchange) Instead(w http.ResponseWriter) (done bool) {
	if x.fault.Status != 0 {
		w.WriteHeader(x.fault.Status)
	}
	return x.fault.Status != 0
}

func (x *exchange) Broken(w http.ResponseWriter)              { w.WriteHeader(http.StatusBadRequest) }
func (x *exchange) Answer(w http.ResponseWriter, body []byte) { _, _ = w.Write(body) }

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	came := request{faulty.Came(r)}
	came.Op = "Echo"
	fault, record := e.Begin(&came)
	faulty.Serve(w, r, faulty.Course{}, &exchange{fault}, record, e.Closed())
}

// A fake of one operation, whose first request fails.
func Example() {
	server := &echo{faulty.NewScript[request, fault]()}
	defer server.Close()
	server.Fault(func(r request) fault {
		if r.Number == 1 {
			return fault{Status: http.StatusServiceUnavailable}
		}
		return fault{}
	})
	for range 2 {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello")))
		text, _ := io.ReadAll(w.Body)
		fmt.Printf("%d %q\n", w.Code, text)
	}
	fmt.Printf("%d requests, the first with %q\n", server.Count("Echo"), server.Requests()[0].Body)
	// Output:
	// 503 ""
	// 200 "hello"
	// 2 requests, the first with "hello"
}
