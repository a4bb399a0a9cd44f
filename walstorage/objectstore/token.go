package objectstore

import (
	"errors"

	"github.com/walhop/walhop/walstorage"
)

// NextToken is for drivers whose store says apart whether a page is the last one: more, and where the next begins:
// token. It returns what Driver.List returns as next, and an error where the store says that there is more and not
// where, which would otherwise look like the end of the list (W10). The error has no kind and is not retried.
func NextToken(more bool, token string) (next string, err error) {
	switch {
	case !more:
		return "", nil
	case token == "":
		return "", walstorage.NewError(nil, errors.New("the store has more objects and gave no continuation token"))
	}
	return token, nil
}
