package broker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Given brokers that have no consumer groups and no transactions, when a client wants one, then it is told so and ends,
// and does not wait for what never comes.
func TestNoGroupsAndNoTransactions(t *testing.T) {
	t.Parallel()
	b := start(t, "orders:1")
	b.kcat(t, "one\n", "-P", "-t", "orders")

	for _, attempt := range []struct{ name, line, says string }{
		{"kcat", `kcat -b $BROKERS -G readers orders`, "this broker has no consumer groups and no transactions"},
		{"console-consumer", `kafka-console-consumer --bootstrap-server $BROKERS --topic orders --group readers --timeout-ms 15000`, "InvalidRequestException"},
		{
			"producer-performance", `kafka-producer-perf-test --bootstrap-server $BROKERS --topic orders --num-records 1 --record-size 10 --throughput -1 --transactional-id t`,
			"this broker has no consumer groups and no transactions",
		},
	} {
		t.Run(attempt.name, func(t *testing.T) {
			out, complaints, _ := b.shell(t, attempt.line)
			require.Contains(t, out+complaints, attempt.says)
			require.NotContains(t, out, "one\n")
		})
	}

	t.Run("franz-go", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		told := make(chan error, 1)
		client := b.client(t, kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"), kgo.HeartbeatInterval(patience),
			kgo.WithHooks(groupErrors(told)))
		defer client.CloseAllowingRebalance()
		go client.PollFetches(ctx)
		select {
		case err := <-told:
			require.ErrorIs(t, err, kerr.InvalidRequest)
		case <-ctx.Done():
			t.Fatal("it has been told nothing")
		}
	})

	// And it still works for those who want neither.
	require.Equal(t, "one\n", b.kcat(t, "", "-C", "-t", "orders", "-p", "0", "-o", "beginning", "-e", "-q"))
	t.Attr("no-groups", "four clients that want a group or a transaction are told that there are none")
}

// groupErrors gets what ends a client's session in a group.
type groupErrors chan error

func (g groupErrors) OnGroupManageError(err error) {
	select {
	case g <- err:
	default:
	}
}
