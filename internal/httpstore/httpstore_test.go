package httpstore_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/httpstore"
	"github.com/walhop/walhop/walstorage"
)

// D13, D14 (W6): only the range that was asked for passes.
func TestCheckRange(t *testing.T) {
	tests := map[string]struct {
		status int
		header string
		length int64
		kind   error
	}{
		"exact":                {206, "bytes 100-199/300", 100, nil},
		"exact, no length":     {206, "bytes 100-199/300", -1, nil},
		"to the end":           {206, "bytes 100-199/200", 100, nil},
		"the whole object":     {200, "", 300, walstorage.ErrUnavailable},
		"the object ends":      {206, "bytes 100-149/150", 50, walstorage.ErrInvalidRange},
		"shorter than it says": {206, "bytes 100-149/300", 50, walstorage.ErrUnavailable},
		"elsewhere":            {206, "bytes 0-99/300", 100, walstorage.ErrUnavailable},
		"another length":       {206, "bytes 100-199/300", 99, walstorage.ErrUnavailable},
		"no range":             {206, "", 100, walstorage.ErrUnavailable},
		"no number":            {206, "bytes 100-x/300", 100, walstorage.ErrUnavailable},
		"an unknown total":     {206, "bytes 100-199/*", 100, walstorage.ErrUnavailable},
		"a line break":         {206, "bytes\n100-199/300", 100, walstorage.ErrUnavailable},
		"unit in upper case":   {206, "Bytes 100-199/300", 100, nil},

		// Found by FuzzCheckRange: each of these passed, the last as the end of the object, which is not retried.
		"more behind it":              {206, "bytes 100-199/300 and more", 100, walstorage.ErrUnavailable},
		"a total below the range":     {206, "bytes 100-199/150", 100, walstorage.ErrUnavailable},
		"a negative total":            {206, "bytes 100-199/-300", 100, walstorage.ErrUnavailable},
		"signs":                       {206, "bytes +100-+199/+300", 100, walstorage.ErrUnavailable},
		"spaces":                      {206, "bytes  100- 199/ 300", 100, walstorage.ErrUnavailable},
		"an end before the beginning": {206, "bytes 100--2/-1", 100, walstorage.ErrUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := httpstore.CheckRange(test.status, test.header, test.length, 100, 199)
			assert.Equal(t, test.kind, walstorage.KindOf(err), "%v", err)
			assert.Equal(t, test.kind == nil, err == nil)
		})
	}
	assert.ErrorIs(t, httpstore.CheckRange(206, "bytes 0--1/0", 0, 0, 9), walstorage.ErrInvalidRange, "an empty object, as Azurite says it")
	assert.ErrorIs(t, httpstore.CheckRange(206, "bytes 10-9/10", 0, 10, 19), walstorage.ErrInvalidRange, "nothing is left, as Azurite says it")
	assert.ErrorIs(t, httpstore.CheckRange(206, "bytes 0--1/0", 0, 1, 9), walstorage.ErrUnavailable)
	assert.ErrorIs(t, httpstore.CheckRange(206, "bytes 10-9/20", 0, 10, 19), walstorage.ErrUnavailable)
}

// W11: what is wrong with an endpoint is told without its text.
func TestWrongEndpoint(t *testing.T) {
	for _, right := range []string{"http://localhost:1", "https://storage.example/base/", "http://[::1]:80", "http://localhost:65535", "http://localhost:"} {
		assert.Empty(t, httpstore.WrongEndpoint(right), right)
	}
	const secret = "planted0123456789"
	for _, wrong := range []string{
		"", "localhost:9000", "ftp://localhost", "http://", "//localhost", "http://user:" + secret + "@localhost",
		"http://localhost?token=" + secret, "http://localhost?", "http://localhost/#" + secret, "http://local host:%" + secret,
		"http://localhost:0", "http://localhost:65536", "http://[::1]:99999/" + secret,
	} {
		problem := httpstore.WrongEndpoint(wrong)
		assert.NotEmpty(t, problem, wrong)
		assert.False(t, strings.Contains(problem, secret))
	}
}

// A2: zero values have their defaults, what is set stands, and what is wrong is named with its field.
func TestSettings(t *testing.T) {
	filled, _, problem := httpstore.Settings{}.WithDefaults()
	assert.Empty(t, problem)
	assert.Equal(t, httpstore.Settings{
		Parallelism: 64, DialTimeout: 3 * time.Second, ResponseHeaderTimeout: 10 * time.Second, StallTimeout: 10 * time.Second,
	}, filled)
	ours := httpstore.Settings{Parallelism: 10_000, DialTimeout: 1, ResponseHeaderTimeout: 2, StallTimeout: 3}
	filled, _, problem = ours.WithDefaults()
	assert.Empty(t, problem)
	assert.Equal(t, ours, filled)
	for wrong, field := range map[httpstore.Settings]string{
		{Parallelism: -1}:           "Parallelism",
		{Parallelism: 10_001}:       "Parallelism",
		{DialTimeout: -1}:           "DialTimeout",
		{ResponseHeaderTimeout: -1}: "ResponseHeaderTimeout",
		{StallTimeout: -1}:          "StallTimeout",
	} {
		_, named, problem := wrong.WithDefaults()
		assert.Equal(t, field, named)
		assert.NotEmpty(t, problem)
	}
}

// The transport keeps the proxy that it had, speaks HTTP/1.1 alone and has connections enough.
func TestConfigure(t *testing.T) {
	proxy := func(*http.Request) (*url.URL, error) { return nil, nil }
	transport := &http.Transport{Proxy: proxy, ForceAttemptHTTP2: true}
	httpstore.Configure(transport, httpstore.Settings{Parallelism: 64, DialTimeout: time.Second, ResponseHeaderTimeout: time.Minute})
	assert.NotNil(t, transport.Proxy)
	assert.True(t, transport.Protocols.HTTP1())
	assert.False(t, transport.Protocols.HTTP2())
	assert.Equal(t, []string{"http/1.1"}, transport.TLSClientConfig.NextProtos)
	assert.Equal(t, 128, transport.MaxIdleConnsPerHost)
	assert.Equal(t, time.Second, transport.TLSHandshakeTimeout)
	assert.Equal(t, time.Minute, transport.ResponseHeaderTimeout)
}
