package openurl_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/walhop/walhop/internal/openurl"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/filelog"
	"github.com/walhop/walhop/metadata/kafkalog"
	"github.com/walhop/walhop/walstorage"
	"github.com/walhop/walhop/walstorage/segment"
)

// publishAndRead publishes an event through one handle of the log at a URL and reads it through another.
func publishAndRead(t *testing.T, url string) {
	t.Helper()
	writer, err := openurl.Log(t.Context(), url, openurl.LogConfig{Broker: 1, BrokerEpoch: 7})
	require.NoError(t, err)
	defer func() { require.NoError(t, writer.Close()) }()
	reader, err := openurl.Log(t.Context(), url, openurl.LogConfig{Broker: 2, BrokerEpoch: 7})
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	sub, err := reader.Subscribe(t.Context(), metadata.Position{})
	require.NoError(t, err)
	event := oneSlice(t, 1, 7)
	_, err = writer.Publish(t.Context(), event)
	require.NoError(t, err)
	item, err := sub.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, event.Segment.ID, item.Event.Segment.ID)
}

// oneSlice returns the event of a new segment.
func oneSlice(t *testing.T, broker int32, epoch int64) *metadata.Event {
	id, err := walstorage.NewSegmentID(broker, epoch, time.Now(), rand.Reader)
	require.NoError(t, err)
	return &metadata.Event{ObjectSize: 5000, Segment: segment.Metadata{
		Cluster: "c", ID: id, Created: id.Created(),
		Topics: []segment.Topic{{ID: uuid.UUID{15: 1}, Name: "orders", Slices: []segment.Slice{{LastOffset: 9, Length: 4096}}}},
	}}
}

func TestLogInFiles(t *testing.T) {
	dir := t.TempDir()
	publishAndRead(t, "file://"+dir)
	log, err := openurl.Log(t.Context(), "file://"+dir, openurl.LogConfig{})
	require.NoError(t, err)
	require.IsType(t, (*filelog.Log)(nil), log)
	require.NoError(t, log.Close())
	log, err = openurl.Log(t.Context(), "file://"+dir+"/missing", openurl.LogConfig{})
	require.Error(t, err)
	require.Nil(t, log)
}

// The brokers, the topic, the parameters, and the credentials of the environment reach the cluster.
func TestLogOnKafka(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "walhop", "right"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	url := "kafka://" + strings.Join(cluster.ListenAddrs(), ",") + "/my.events?partitions=4&replication_factor=2&min_insync_replicas=2&rack=zone-a&sasl=scram-sha-512"

	t.Setenv("KAFKA_SASL_USERNAME", "")
	_, err = openurl.Log(t.Context(), url, openurl.LogConfig{})
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
	require.ErrorContains(t, err, "KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD is not set")
	t.Setenv("KAFKA_SASL_USERNAME", "walhop")
	t.Setenv("KAFKA_SASL_PASSWORD", "right")
	publishAndRead(t, url)

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.SASL(scram.Auth{User: "walhop", Pass: "right"}.AsSha512Mechanism()))
	require.NoError(t, err)
	defer client.Close()
	details, err := kadm.NewClient(client).ListTopics(t.Context(), "my.events")
	require.NoError(t, err)
	require.Len(t, details["my.events"].Partitions, 4)
	require.Len(t, details["my.events"].Partitions[0].Replicas, 2)
}

// Without a topic it is the default one.
func TestDefaultTopic(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	publishAndRead(t, "kafka://"+cluster.ListenAddrs()[0]+"?replication_factor=1")
	for _, brokers := range []string{"one:9092,other:9093", "one", "[::1]:9092"} {
		l, err := openurl.ParseLog("kafka://" + brokers)
		require.NoError(t, err)
		require.Equal(t, "kafka://"+brokers+"/"+kafkalog.DefaultTopic, l.String())
	}
}

// A cluster that is not there is an error, and no handle.
func TestNoKafka(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	log, err := openurl.Log(ctx, "kafka://127.0.0.1:1", openurl.LogConfig{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Nil(t, log)
}

// The zero location is none.
func TestNoLogLocation(t *testing.T) {
	_, err := openurl.LogLocation{}.Open(t.Context(), openurl.LogConfig{})
	require.ErrorIs(t, err, walstorage.ErrInvalidArgument)
}
