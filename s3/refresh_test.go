package s3_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/walhop/walhop/internal/fakes/s3"
	"github.com/walhop/walhop/walstorage"
)

// J21, cockroachdb/cockroach#169763: new credentials have worked when the store has answered with them, whatever it has
// answered: an object that is missing, or one that is there already, is told to nobody who is not let in. When they expire
// in their turn, they too are refreshed.
func TestRefreshedCredentialsWorkWithoutASuccess(t *testing.T) {
	for name, test := range map[string]struct {
		op    string
		fault fake.Fault
		kind  error
	}{
		"a missing object":            {"GetObject", fake.Fault{Status: 404, Code: "NoSuchKey"}, walstorage.ErrSegmentNotFound},
		"a range beyond the end":      {"GetObject", fake.Fault{Status: 416, Code: "InvalidRange"}, walstorage.ErrInvalidRange},
		"an object that is there":     {"PutObject", fake.Fault{Status: 412, Code: "PreconditionFailed"}, walstorage.ErrSegmentExists},
		"... told by its status only": {"PutObject", fake.Fault{Status: 412}, walstorage.ErrSegmentExists},
	} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, fake.Config{})
			keys := &provider{}
			c := config(url)
			c.Credentials = keys
			driver := open(t, c)
			call := func() error { return operations[test.op](t.Context(), driver) }
			for n := range 3 {
				expired := []string{"KEY1", "KEY2", "KEY3"}[n]
				server.Fault(refusing("ExpiredToken", func(key string) bool { return key == expired }))
				err := call()
				require.Equal(t, walstorage.ErrUnavailable, walstorage.KindOf(err), "worth another attempt: %v", err)
				server.Always(test.op, test.fault)
				require.Equal(t, test.kind, walstorage.KindOf(call()))
			}
			assert.Equal(t, int64(4), keys.asked.Load())
		})
	}
}
