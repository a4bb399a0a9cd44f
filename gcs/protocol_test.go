package gcs_test

import (
	"testing"

	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/walstorage"
)

// W8, J11: what no server of HTTP should send is an error, and ends the operation, whichever it is.
func TestAnswersThatAreHardlyHTTP(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	drivertest.HardlyHTTP(t, ours, config, operations, map[string]drivertest.Raw{
		"a chunk that is none":            {Bytes: chunked + "zz\r\n{}\r\n0\r\n\r\n", Keep: true, Kind: walstorage.ErrUnavailable},
		"cut in a chunk":                  {Bytes: chunked + "ff\r\n{\"kind\":", Kind: walstorage.ErrUnavailable},
		"cut between chunks":              {Bytes: chunked + "1\r\n{\r\n", Kind: walstorage.ErrUnavailable},
		"cut in the body":                 {Bytes: "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"name\":", Kind: walstorage.ErrUnavailable},
		"an error with a body that lasts": {Bytes: "HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\n\r\nx", Keep: true, Kind: walstorage.ErrUnavailable},
	})
}
