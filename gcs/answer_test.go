package gcs

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/walhop/walhop/internal/corpus"
	"github.com/walhop/walhop/walstorage"
)

func answerOf(b []byte) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(b))}
}

// W10: any bytes as a list. A document of another kind is no empty list, and what passes is left to be read, whole.
func TestAnyBytesAsAList(t *testing.T) {
	const list = `{"kind":"storage#objects","items":[{"name":"a/b.wal","size":"5"}],"prefixes":["a/"],"nextPageToken":"x=="}`
	for _, good := range []string{list, "{}", `{"kind":"storage#objects"}`} {
		assert.NoError(t, checkList(answerOf([]byte(good))), good)
	}
	for _, bad := range []string{
		"", "null", "[]", "5", `"x"`, list[:len(list)-1], list + "x", `{"error":{"code":503}}`, `{"Items":[]}`, "<html></html>", "\xff",
	} {
		err := checkList(answerOf([]byte(bad)))
		assert.ErrorIs(t, err, walstorage.ErrUnavailable, bad)
	}
	random := rand.New(rand.NewPCG(5, 10))
	passed := 0
	for range 5000 {
		b := corpus.Damage(random, []byte(list))
		answer := answerOf(b)
		err := checkList(answer)
		if err == nil {
			passed++
			var fields map[string]any
			require.NoError(t, json.Unmarshal(b, &fields))
			left, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.Equal(t, b, left)
			continue
		}
		require.ErrorIs(t, err, walstorage.ErrUnavailable)
	}
	require.Positive(t, passed)
}

// W9: only an answer that says nothing is a delete that was done.
func TestAnyBytesAsTheAnswerToADelete(t *testing.T) {
	for _, good := range []string{"", " \r\n", "null", "{}"} {
		assert.NoError(t, checkNothing(answerOf([]byte(good))))
	}
	random := rand.New(rand.NewPCG(5, 11))
	for range 2000 {
		b := corpus.Damage(random, []byte(`{"error":{"code":503,"message":"backend"}}`))
		if trimmed := string(bytes.TrimSpace(b)); trimmed != "" && trimmed != "{}" && trimmed != "null" {
			require.ErrorIs(t, checkNothing(answerOf(b)), walstorage.ErrUnavailable)
		}
	}
}
