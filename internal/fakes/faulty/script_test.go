package faulty_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/fakes/faulty"
)

// Requests are numbered by operation, get the fault that is theirs, and can be looked at afterwards.
func TestScript(t *testing.T) {
	script := faulty.NewScript[request, fault]()
	begin := func(op string) (status int) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://host.invalid/", strings.NewReader("data"))
		came := request{faulty.Came(r)}
		came.Op = op
		fault, record := script.Begin(&came)
		record([]byte("data"))
		return fault.Status
	}
	assert.Zero(t, begin("A"))

	script.Faults("A", fault{1}, fault{2})
	assert.Equal(t, []int{2, 0, 0}, []int{begin("A"), begin("B"), begin("A")})
	script.Always("B", fault{3})
	assert.Equal(t, []int{3, 0, 3}, []int{begin("B"), begin("A"), begin("B")})
	script.Fault(nil)
	assert.Zero(t, begin("B"))

	assert.Equal(t, 4, script.Count("A"))
	assert.Equal(t, 4, script.Count("B"))
	var numbers []int
	for i, r := range script.Came() {
		numbers = append(numbers, r.Number)
		assert.Equal(t, "data", string(r.Body))
		assert.Equal(t, "host.invalid", r.Header.Get("Host"))
		assert.Equal(t, int64(4), r.ContentLength)
		assert.Equal(t, r, script.Requests()[i].Request)
	}
	assert.Equal(t, []int{1, 2, 1, 3, 2, 4, 3, 4}, numbers)
}
