package drivertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// CreatesAtOnce proves of a fake that of creates of one name at once one wins, and that its bytes are those that stay. create
// asks it to create a name in the bucket "b" and gives the status, which for the winner is success.
func CreatesAtOnce[F any](t *testing.T, fake Fake[F], success int, create func(name, body string) (status int)) {
	for round := range 100 {
		name := fmt.Sprint(round)
		var all sync.WaitGroup
		status := make([]int, 16)
		for i := range status {
			all.Go(func() { status[i] = create(name, fmt.Sprint(i)) })
		}
		all.Wait()
		winner := slices.Index(status, success)
		require.GreaterOrEqual(t, winner, 0)
		require.Equal(t, -1, slices.Index(status[winner+1:], success), "two winners")
		data, _ := fake.Object("b", name)
		require.Equal(t, fmt.Sprint(winner), string(data))
	}
}
