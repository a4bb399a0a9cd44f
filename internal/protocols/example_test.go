package protocols_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/walhop/walhop/internal/protocols"
)

// What a HEAD of an object asks for in S3, and how a server there says that it is busy.
func ExampleS3() {
	words := protocols.S3()
	fmt.Println(words.Operation(httptest.NewRequest(http.MethodHead, "/segments/a/b.wal", nil)))
	fmt.Println(words.Answers.Throttled.Status, words.Answers.Throttled.Header.Get("Content-Type"))
	// Output:
	// stat
	// 503 application/xml
}
