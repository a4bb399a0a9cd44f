package faultproxy_test

import (
	"fmt"
	"net/http"

	"github.com/walhop/walhop/internal/faultproxy"
)

// The first request is answered by the proxy, the second one by the server.
func Example() {
	server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	proxy, err := faultproxy.New(faultproxy.Config{Handler: server})
	if err != nil {
		fmt.Println(err)
		return
	}
	proxy.Script(func(r faultproxy.Request) faultproxy.Fault {
		if r.Number == 1 {
			return faultproxy.Fault{Answer: &faultproxy.Answer{Status: http.StatusServiceUnavailable}}
		}
		return faultproxy.Fault{}
	})
	listening := faultproxy.Pipe(proxy)
	defer listening.Close()
	for range 2 {
		answer, err := listening.Client.Get(listening.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = answer.Body.Close()
		fmt.Println(answer.Status)
	}
	// Output:
	// 503 Service Unavailable
	// 204 No Content
}
