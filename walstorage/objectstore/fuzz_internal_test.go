package objectstore

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/walhop/walhop/internal/corpus"
)

// plantedSecret is what no text may show, in each of the forms in which secrets come.
const plantedSecret = "PLANTED0123456789abcdefSECRET"

var secretForms = []string{
	"https://host/bucket/key?sig=SECRET",
	"https://host/bucket/key?se=2026&sig=SECRET&sp=rw",
	"https://user:SECRET@host:9000/bucket/key",
	"PUT /bucket/key?X-Amz-Signature=SECRET",
	"Authorization: Bearer SECRET",
	"authorization=SECRET",
	"Bearer SECRET",
	"SharedKey account:SECRET",
	"AccountKey=SECRET;EndpointSuffix=x",
	"X-Amz-Security-Token: SECRET",
	"client_secret=SECRET",
	"aws_secret_access_key = SECRET",
}

// textSeeds are what may stand in a header or in the text of an error, and what it says as Retry-After at textNow.
var (
	textNow   = time.Date(2026, 7, 4, 12, 0, 0, 0, time.UTC)
	textSeeds = []struct {
		name, text string
		after      time.Duration
	}{
		{"empty", "", 0},
		{"seconds", "7", 7 * time.Second},
		{"seconds-in-spaces", " 7\t", 7 * time.Second},
		{"seconds-negative", "-7", 0},
		{"seconds-largest", "9223372036854775807", 24 * time.Hour},
		{"seconds-beyond-64-bits", "9223372036854775808", 0},
		{"seconds-with-fraction", "1.5", 0},
		{"seconds-hexadecimal", "0x10", 0},
		{"date", "Sat, 04 Jul 2026 12:00:30 GMT", 30 * time.Second},
		{"date-of-rfc-850", "Saturday, 04-Jul-26 12:01:00 GMT", time.Minute},
		{"date-of-asctime", "Sat Jul  4 12:00:02 2026", 2 * time.Second},
		{"date-in-the-past", "Thu, 01 Jan 1970 00:00:00 GMT", 0},
		{"date-of-no-day", "Sat, 31 Feb 2026 12:00:30 GMT", 0},
		{"date-in-another-zone", "Sat, 04 Jul 2026 12:00:30 CET", 0},
		{"signed-url", "Get \"https://b.s3.amazonaws.com/k?X-Amz-Signature=abc&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE\": 403", 0},
		{"user-in-url", "proxyconnect https://user:p@ss?word@proxy:3128/x", 0},
		{"open-url", "https://", 0},
		{"question-marks", "a?b=c?d=e??f=", 0},
		{"json", `{"Authorization":"Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.AAAA"}`, 0},
		{"xml", "<Error><Code>X</Code><StringToSign>sig=x</StringToSign></Error>", 0},
		{"no-utf8", "\xff\xfe?sig=\xff", 0},
		{"lines", "Authorization:\r\n x\nsig=\n", 0},
	}
)

func TestTextCorpus(t *testing.T) {
	var files []corpus.Seed
	for _, seed := range textSeeds {
		assert.Equal(t, seed.after, RetryAfter(seed.text, textNow), seed.name)
		files = append(files, corpus.Seed{Name: seed.name, Args: []any{seed.text}})
	}
	corpus.Check(t, "FuzzText", files...)
}

// W11: every form of a secret behind and before every seed.
func TestPlantedSecrets(t *testing.T) {
	for _, seed := range textSeeds {
		for _, form := range secretForms {
			whole := seed.text + " " + strings.ReplaceAll(form, "SECRET", plantedSecret) + " " + seed.text
			assert.NotContains(t, redactText(whole), plantedSecret, whole)
		}
	}
}

// Any text as the value of a Retry-After header, and around a secret in the text of an error (W11).
func FuzzText(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		after := RetryAfter(text, textNow)
		if after < 0 {
			t.Fatalf("%q is %s", text, after)
		}
		if n, err := strconv.ParseUint(text, 10, 31); err == nil && after != min(24*time.Hour, time.Duration(n)*time.Second) {
			t.Fatalf("%q is %s", text, after)
		}
		if later := RetryAfter(text, textNow.Add(-time.Hour)); later < after {
			t.Fatalf("%q is %s an hour before it is %s", text, later, after)
		}

		// A secret that text stands before and behind, each a word of its own, never shows. One form at a time is fast.
		form := secretForms[len(text)%len(secretForms)]
		whole := text + " " + strings.ReplaceAll(form, "SECRET", plantedSecret) + " " + text
		if !strings.Contains(text, plantedSecret) && strings.Contains(redactText(whole), plantedSecret) {
			t.Fatalf("%q is redacted to %q", whole, redactText(whole))
		}
		if once := redactText(text); len(once) > 8*len(text)+len(removed) {
			t.Fatalf("%d bytes become %d", len(text), len(once))
		}
	})
}
