package azure

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/corpus"
)

// W2, S5: any text as the checksum in a blob's metadata. Only eight hexadecimal digits are one.
func TestAnyTextAsAChecksum(t *testing.T) {
	crc := func(text string) (uint32, bool) {
		name := strings.ToUpper(metadataCRC32C[:1]) + metadataCRC32C[1:] // the service changes the case
		return crc32cOf(map[string]*string{"other": &text, name: &text})
	}
	got, ok := crc("00c0ffee")
	assert.True(t, ok)
	assert.Equal(t, uint32(0xc0ffee), got)
	for _, none := range []string{"", "0", "+0c0ffee", "-0c0ffee", "0x0c0ffe", "0_c0ffee", "00c0ffeg", "000c0ffee", " 0c0ffee"} {
		_, ok := crc(none)
		assert.False(t, ok, none)
	}
	_, ok = crc32cOf(map[string]*string{metadataCRC32C: nil})
	assert.False(t, ok)
	random := rand.New(rand.NewPCG(5, 8))
	for range 10_000 {
		text := string(corpus.Damage(random, fmt.Appendf(nil, "%08x", random.Uint32())))
		if got, ok := crc(text); ok {
			require.Equal(t, strings.ToLower(text), fmt.Sprintf("%08x", got))
		}
	}
}

// W11, S5: any bytes as an error document: one line of it is told, or nothing, and no more is allocated than a multiple of
// it.
func TestAnyBytesAsAnErrorDocument(t *testing.T) {
	const document = `<?xml version="1.0" encoding="utf-8"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to
authenticate.` + "\nRequestId:1</Message><AuthenticationErrorDetail>The MAC signature found in the HTTP request 'c2VjcmV0' is not" +
		` the same as any computed signature.</AuthenticationErrorDetail></Error>`
	assert.Equal(t, "Server failed to", messageOf([]byte(document)))
	for _, none := range []string{"", "{}", "<Error>", "<Error/>", "\x00", strings.Repeat("<a>", 10_000)} {
		assert.Empty(t, messageOf([]byte(none)))
	}
	random := rand.New(rand.NewPCG(5, 9))
	told := 0
	for range 1000 {
		b := corpus.Damage(random, []byte(document))
		message := messageOf(b)
		require.NotContains(t, message, "\n")
		require.LessOrEqual(t, corpus.Allocated(func() { messageOf(b) }), uint64(64*len(b)+16<<10))
		if message != "" {
			told++
		}
	}
	require.Positive(t, told)
}
