package azure_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/azure"
	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/internal/drivertest"
	"github.com/walhop/walhop/walstorage"
)

// A2, W11: what people paste in place of a signature or a key is refused, by the name of the field and without its text.
func TestPastedSecrets(t *testing.T) {
	blank := func(c *azure.Config) { c.AccountKey = "" }
	tests := map[string]struct {
		change func(*azure.Config)
		field  string
	}{
		"the URL of the container":       {func(c *azure.Config) { c.SAS = "https://account.blob.core.windows.net/segments?" + sas }, "SAS"},
		"two question marks":             {func(c *azure.Config) { c.SAS = "??" + sas }, "SAS"},
		"a part of a connection string":  {func(c *azure.Config) { c.SAS = "SharedAccessSignature=" + sas }, "SAS"},
		"a whole connection string":      {func(c *azure.Config) { c.SAS = "BlobEndpoint=https://a/;SharedAccessSignature=" + sas }, "SAS"},
		"an assignment":                  {func(c *azure.Config) { c.SAS = "AZURE_STORAGE_SAS=" + sas }, "SAS"},
		"a parameter with no name":       {func(c *azure.Config) { c.SAS = "=" + configtest.Secret + "&" + sas }, "SAS"},
		"a name that is percent-encoded": {func(c *azure.Config) { c.SAS = "%3f" + sas }, "SAS"},
		"a key of line breaks":           {func(c *azure.Config) { c.AccountKey = "\r\n" }, "AccountKey"},
		"a key of padding":               {func(c *azure.Config) { c.AccountKey = "====" }, "AccountKey"},
		"a key in quotes":                {func(c *azure.Config) { c.AccountKey = `"` + accountKey + `"` }, "AccountKey"},
		"an assignment of a key":         {func(c *azure.Config) { c.AccountKey = "AccountKey=" + accountKey }, "AccountKey"},
		"a port that is none":            {func(c *azure.Config) { c.AccountKey, c.Endpoint = accountKey, "https://localhost:99999" }, "Endpoint"},
		"port 0":                         {func(c *azure.Config) { c.AccountKey, c.Endpoint = accountKey, "https://localhost:0" }, "Endpoint"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := config("http://localhost:1")
			blank(&c)
			test.change(&c)
			_, err := azure.NewDriver(t.Context(), c)
			assert.Equal(t, walstorage.ErrInvalidArgument, walstorage.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "azure.Config: "+test.field+": ")
			quiet(t, test.field, err)
			assert.NotContains(t, err.Error(), configtest.Secret)
		})
	}
	for name, good := range map[string]string{"as it is": sas, "with a question mark": "?" + sas, "with a name percent-encoded": strings.Replace(sas, "sig=", "%73ig=", 1)} {
		c := config("http://localhost:1")
		c.AccountKey, c.SAS = "", good
		open(t, c)
		assert.NotEmpty(t, name)
	}
}

// W11: a server that repeats a signature, in whatever spelling and place, has it repeated by no error of ours, nor by the
// answer that errors.As finds in it.
func TestSpellingsOfASignature(t *testing.T) {
	plain := "planted+signature/0123456789="
	for name, given := range map[string]string{
		"as usual": sas, "the name percent-encoded": strings.Replace(sas, "sig=", "s%69g=", 1),
		"in small letters": strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(sas, "%2B", "%2b"), "%2F", "%2f"), "%3D", "%3d"),
		"not encoded":      strings.ReplaceAll(strings.ReplaceAll(sas, "%2F", "/"), "%3D", "="),
	} {
		t.Run(name, func(t *testing.T) {
			_, sig, _ := strings.Cut(given[strings.Index(given, "=planted"):], "=")
			c := withSAS("http://fake.invalid")
			c.SAS = given
			c.HTTPClient = &http.Client{Transport: drivertest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				told := strings.Join([]string{r.URL.String(), r.URL.RawQuery, r.URL.Query().Get("sig"), plain, sig}, " and ")
				answer := &http.Response{
					StatusCode: 400, Request: r, Header: http.Header{
						"X-Ms-Error-Code": {"InvalidInput"}, "X-Ms-Request-Id": {told}, "Location": {r.URL.String()},
						"Content-Location": {r.URL.String()}, "Refresh": {"0; " + sig}, "Www-Authenticate": {told},
					},
				}
				answer.Body = http.NoBody
				return answer, nil
			})}
			driver := open(t, c)
			for op, call := range operations {
				err := call(t.Context(), driver)
				quiet(t, op, err)
				for _, text := range texts(err) {
					assert.NotContains(t, text, sig, op)
				}
			}
		})
	}
}
