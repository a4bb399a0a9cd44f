package faulty_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/fakes/faulty"
)

// noting is an exchange that notes what it was asked for. It has something to answer instead if instead is set.
type noting struct {
	instead bool
	noted   []string
}

func (x *noting) Instead(w http.ResponseWriter) (done bool) {
	if x.instead {
		x.noted = append(x.noted, "instead")
		_, _ = io.WriteString(w, "instead")
	}
	return x.instead
}

func (x *noting) Broken(http.ResponseWriter) { x.noted = append(x.noted, "broken") }

func (x *noting) Answer(w http.ResponseWriter, body []byte) {
	x.noted = append(x.noted, "answer to "+string(body))
	_, _ = io.WriteString(w, "answer")
}

// Each course of a request: what is carried out, what the client gets, and whether the body was read.
func TestServe(t *testing.T) {
	tests := map[string]struct {
		course  faulty.Course
		instead bool
		broken  bool
		noted   []string
		got     string
		read    bool
		dropped bool
	}{
		"nothing wrong":         {faulty.Course{}, false, false, []string{"answer to data"}, "answer", true, false},
		"an error":              {faulty.Course{}, true, false, []string{"instead"}, "instead", true, false},
		"an early error":        {faulty.Course{Early: true}, true, false, []string{"instead"}, "instead", false, false},
		"early, and reads on":   {faulty.Course{Early: true, ReadOn: true}, true, false, []string{"instead"}, "instead", true, false},
		"early with no error":   {faulty.Course{Early: true}, false, false, []string{"answer to data"}, "answer", true, false},
		"dropped":               {faulty.Course{Drop: true}, false, false, nil, "", false, true},
		"dropped after":         {faulty.Course{DropAfter: true}, false, false, []string{"answer to data"}, "", true, true},
		"an error after":        {faulty.Course{After: true}, true, false, []string{"answer to data", "instead"}, "instead", true, false},
		"a body that broke off": {faulty.Course{}, true, true, []string{"broken"}, "", true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := &noting{instead: test.instead}
			w := httptest.NewRecorder()
			body := io.Reader(strings.NewReader("data"))
			if test.broken {
				body = io.MultiReader(body, iotest.ErrReader(errors.New("cut")))
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", body)
			var recorded string
			serve := func() {
				faulty.Serve(w, r, test.course, x, func(body []byte) { recorded = string(body) }, nil)
			}
			if test.dropped {
				assert.PanicsWithValue(t, http.ErrAbortHandler, serve)
			} else {
				serve()
			}
			assert.Equal(t, test.noted, x.noted)
			assert.Equal(t, test.got, w.Body.String())
			assert.Equal(t, test.read, recorded == "data")
		})
	}
}

// Waits end when they are over, and at once when the fake is closed: a delay with the answer, a wait without one.
func TestWaits(t *testing.T) {
	tests := map[string]struct {
		course  faulty.Course
		closed  bool
		takes   time.Duration
		dropped bool
	}{
		"delay":         {faulty.Course{Delay: time.Minute}, false, time.Minute, false},
		"delay, closed": {faulty.Course{Delay: time.Minute}, true, time.Second, false},
		"wait, closed":  {faulty.Course{Wait: make(chan struct{})}, true, time.Second, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.course.Wait != nil {
					test.course.Wait = make(chan struct{}) // of this bubble
				}
				closed := make(chan struct{})
				if test.closed {
					time.AfterFunc(time.Second, func() { close(closed) })
				}
				began := time.Now()
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				serve := func() { faulty.Serve(w, r, test.course, &noting{}, func([]byte) {}, closed) }
				if test.dropped {
					assert.PanicsWithValue(t, http.ErrAbortHandler, serve)
				} else {
					serve()
					assert.Equal(t, "answer", w.Body.String())
				}
				assert.Equal(t, test.takes, time.Since(began))
			})
		})
	}
}

// What of an object is sent, and with which head.
func TestBody(t *testing.T) {
	tests := map[string]struct {
		body         faulty.Body
		asked        string
		status       int // 0 is no part at all
		contentRange string
		length, sent string
		dropped      bool
	}{
		"whole":                 {faulty.Body{}, "", 200, "", "10", "0123456789", false},
		"range":                 {faulty.Body{}, "bytes=2-4", 206, "bytes 2-4/10", "3", "234", false},
		"over the end":          {faulty.Body{}, "bytes=8-100", 206, "bytes 8-9/10", "2", "89", false},
		"beyond the end":        {faulty.Body{}, "bytes=10-11", 0, "", "", "", false},
		"beyond the end, empty": {faulty.Body{EmptyRange: true}, "bytes=10-11", 206, "bytes 10-9/10", "0", "", false},
		"far beyond the end":    {faulty.Body{EmptyRange: true}, "bytes=11-12", 0, "", "", "", false},
		"range ignored":         {faulty.Body{IgnoreRange: true}, "bytes=2-4", 200, "", "10", "0123456789", false},
		"another range":         {faulty.Body{ContentRange: "bytes 0-2/9"}, "bytes=2-4", 206, "bytes 0-2/9", "3", "234", false},
		"flipped":               {faulty.Body{Flip: true}, "bytes=2-4", 206, "bytes 2-4/10", "3", "334", false},
		"truncated":             {faulty.Body{Truncate: 2}, "", 200, "", "10", "01234567", true},
		"truncated to nothing":  {faulty.Body{Truncate: 20}, "", 200, "", "10", "", true},
		"cut":                   {faulty.Body{Truncate: 2, Cut: true}, "", 200, "", "8", "01234567", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := []byte("0123456789")
			part, there := test.body.Of(object, test.asked)
			assert.Equal(t, test.status != 0, there)
			if !there {
				return
			}
			w := httptest.NewRecorder()
			send := func() { test.body.Send(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), part) }
			if test.dropped {
				assert.PanicsWithValue(t, http.ErrAbortHandler, send)
			} else {
				send()
			}
			assert.Equal(t, test.status, w.Code)
			assert.Equal(t, test.contentRange, w.Header().Get("Content-Range"))
			assert.Equal(t, test.length, w.Header().Get("Content-Length"))
			assert.Equal(t, test.sent, w.Body.String())
			assert.Equal(t, "0123456789", string(object))
		})
	}
}

// A stall sends what it says and then nothing until the client has gone.
func TestStall(t *testing.T) {
	body := faulty.Body{StallAfter: 3}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part, _ := body.Of([]byte("0123456789"), "")
		body.Send(w, r, part)
	}))
	defer server.Close()
	answer, err := server.Client().Get(server.URL)
	if !assert.NoError(t, err) {
		return
	}
	got := make([]byte, 3)
	_, err = io.ReadFull(answer.Body, got)
	assert.NoError(t, err)
	assert.Equal(t, "012", string(got))
	assert.NoError(t, answer.Body.Close())
}
