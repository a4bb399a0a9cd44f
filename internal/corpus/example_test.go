package corpus_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/walhop/walhop/internal/corpus"
)

// A decoder is given damaged bytes, and what it allocates is measured (S5).
func Example() {
	decode := func(b []byte) bool { return string(b) == "good bytes" }

	random := rand.New(rand.NewPCG(1, 2))
	accepted, allocated := 0, uint64(0)
	for range 100 {
		b := corpus.Damage(random, []byte("good bytes"))
		allocated += corpus.Allocated(func() {
			if decode(b) {
				accepted++
			}
		})
	}
	fmt.Println(accepted < 100, allocated < 1<<16)
	// Output: true true
}
