package azure_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/drivertest"
	fake "github.com/walhop/walhop/internal/fakes/azure"
)

// texts are what else can be had of an error than what it wraps.
func texts(err error) (found []string) {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		found = append(found, answer.Error())
		if raw := answer.RawResponse; raw != nil {
			found = append(found, fmt.Sprint(raw.Header))
			if raw.Request != nil {
				found = append(found, raw.Request.URL.String(), fmt.Sprint(raw.Request.Header))
			}
		}
	}
	var request *url.Error
	if errors.As(err, &request) {
		found = append(found, request.Error(), request.Err.Error())
	}
	var network net.Error
	if errors.As(err, &network) {
		found = append(found, network.Error())
	}
	return found
}

// W11, I8, apache/opendal#6599, milvus-io/talon#116: whatever goes wrong, no error of the driver, and none that errors.As
// finds behind it, holds the signature, the key, the token or a query; and it still says what went wrong.
func TestNoSecretInAnyError(t *testing.T) {
	echo := func(r fake.Request) string {
		return "You have sent ?" + r.Query + " with " + r.Header.Get("Authorization") + " to https://account.blob.core.windows.net/segments/k?" + r.Query + "."
	}
	answers := map[string]func(r fake.Request) fake.Fault{
		"refused": func(r fake.Request) fake.Fault {
			return fake.Fault{Status: 403, Code: "AuthenticationFailed", Message: "Server failed to authenticate the request.", Detail: "Signature did not match. String to sign used was " + echo(r)}
		},
		"echoed": func(r fake.Request) fake.Fault {
			return fake.Fault{Status: 400, Code: "InvalidInput", Message: echo(r)}
		},
		"no code":    func(r fake.Request) fake.Fault { return fake.Fault{Status: 500, Message: echo(r)} },
		"redirected": func(r fake.Request) fake.Fault { return fake.Fault{Status: 307, Location: "/elsewhere?" + r.Query} },
		"dropped":    func(fake.Request) fake.Fault { return fake.Fault{Drop: true} },
		"no answer to read": func(r fake.Request) fake.Fault {
			return fake.Fault{Document: "<Error><Code>" + echo(r) + "</Code></Error>"}
		},
	}
	who := map[string]func(c *azure.Config){
		"key":   func(*azure.Config) {},
		"SAS":   func(c *azure.Config) { c.AccountKey, c.SAS = "", sas },
		"token": func(c *azure.Config) { c.AccountKey, c.Credential = "", &credential{} },
		"client": func(c *azure.Config) {
			client, err := container.NewClientWithNoCredential(c.Endpoint+"/"+bucket+"?"+sas, &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: c.HTTPClient}})
			if err == nil {
				*c = azure.Config{Client: client, Store: c.Store}
			}
		},
	}
	server, secure := serveTLS(t, fake.Config{})
	for name, change := range who {
		c := secure
		change(&c)
		driver, manager := open(t, c), manage(t, c)
		for situation, answer := range answers {
			t.Run(name+" "+situation, func(t *testing.T) {
				server.Fault(answer)
				checked := 0
				for op, call := range operations {
					err := call(t.Context(), driver)
					if err != nil { // of a broken answer a batch makes deletes of its own
						checked++
						quiet(t, op, err)
					}
				}
				assert.Greater(t, checked, 3)
				if situation == "refused" {
					quiet(t, "the manager", manager.UploadSegment(t.Context(), drivertest.Segment(t), []byte("data")))
				}
			})
		}
	}
}

// The same of the Manager, and of servers and networks that repeat what they were sent.
func TestNoSecretIsRepeated(t *testing.T) { drivertest.NoSecrets(t, subject(), secrets()...) }

func quiet(t *testing.T, what string, err error) {
	t.Helper()
	require.Error(t, err, what)
	more := texts(err)
	drivertest.Quiet(t, what, err, append(secrets(), "sig=", "comp="), more...)
	for _, text := range append(more, err.Error()) {
		assert.NotContains(t, strings.ReplaceAll(text, "SharedKey account:REDACTED", ""), "SharedKey account:", what)
	}
}

// The same where no answer comes: net/http puts the whole URL into its errors, and so may whoever sits below it.
func TestNoSecretInErrorsOfTheNetwork(t *testing.T) {
	tests := map[string]http.RoundTripper{
		"refused": &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}},
		"a transport that tells": drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("%s: proxy refused, signature %s", r.URL, r.URL.Query().Get("sig"))
		}),
		"a transport that quotes": drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("lookup %q: no such host", r.URL.String())
		}),
	}
	for name, transport := range tests {
		t.Run(name, func(t *testing.T) {
			c := withSAS("http://account.invalid")
			c.HTTPClient = &http.Client{Transport: transport}
			driver := open(t, c)
			for op, call := range operations {
				err := call(t.Context(), driver)
				quiet(t, op, err)
				assert.True(t, strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "no such host"), "%v", err)
				assert.ErrorAs(t, err, new(*url.Error))
			}
		})
	}
}

// A token that a credential's own error repeats is no text of ours.
func TestNoSecretInErrorsOfCredentials(t *testing.T) {
	source := &credential{give: func(context.Context, int) (azcore.AccessToken, error) {
		return azcore.AccessToken{}, errors.New("GET https://login.invalid/token?client_secret=" + token + ": 401")
	}}
	c := config("https://account.invalid")
	c.AccountKey, c.Credential = "", source
	quiet(t, "a credential", operations["PutBlob"](t.Context(), open(t, c)))
}
