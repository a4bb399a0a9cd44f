package kafkalog_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/kafkalog"
)

// wantRefused checks that Open ends with an error of the kind that says the words, within the bound, and leaves nothing
// behind.
func wantRefused(t *testing.T, cfg kafkalog.Config, kind error, words ...string) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	cfg.OpenTimeout = patience
	begun := time.Now()
	log, err := kafkalog.Open(t.Context(), cfg)
	took := time.Since(begun)
	require.Nil(t, log)
	require.ErrorIs(t, err, kind)
	for _, word := range words {
		require.ErrorContains(t, err, word)
	}
	require.NotContains(t, err.Error(), configtest.Secret)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "only the caller's own end is an error of the context")
	require.Less(t, took, patience+5*time.Second)
	goleak.VerifyNone(t, ignore)
}

// Q10, KAFKA-19425: a cluster that is not there is a clear error within a bounded time, and leaves nothing that half works.
func TestNoCluster(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	require.NoError(t, err)
	defer silent.Close()
	for name, address := range map[string]string{
		"nobody listens":  gone.Addr().String(),
		"nobody answers":  silent.Addr().String(),
		"no such machine": "broker.invalid:9092",
	} {
		t.Run(name, func(t *testing.T) {
			wantRefused(t, kafkalog.Config{Seeds: []string{address}}, kafkalog.ErrUnreachable)
		})
	}
}

// The end of the caller's context is told as such.
func TestOpenIsCancelled(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = kafkalog.Open(ctx, kafkalog.Config{Seeds: []string{silent.Addr().String()}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = kafkalog.Open(cancelled, kafkalog.Config{Seeds: []string{silent.Addr().String()}})
	require.ErrorIs(t, err, context.Canceled)
}

// Q10: a cluster that comes up while Open waits is found.
func TestClusterComesUp(t *testing.T) {
	cluster := newCluster(t)
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, net.ErrClosed, true })
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, net.ErrClosed, true })
	publish(t, open(t, config(cluster, 1, 0)), event(1, 0, 0))
}

func user(name, pass string) kgo.Opt {
	return kgo.SASL(plain.Auth{User: name, Pass: pass}.AsMechanism())
}

// Wrong credentials, or none where some are wanted, are a clear error that repeats none of them (W11).
func TestWrongCredentials(t *testing.T) {
	cluster := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "walhop", "right"))
	cfg := config(cluster, 1, 0)
	cfg.Opts = []kgo.Opt{user("walhop", "right")}
	require.NoError(t, openAndClose(t.Context(), cfg))

	// This cluster only closes the connection.
	cfg.Opts = []kgo.Opt{user("walhop", configtest.Secret)}
	wantRefused(t, cfg, kafkalog.ErrUnreachable, "other credentials")
	cfg.Opts = nil
	wantRefused(t, cfg, kafkalog.ErrUnreachable, "SASL")

	// Apache Kafka says what is wrong.
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.ErrorCode, answer.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("Authentication failed: Invalid username or password")
		return answer, nil, true
	})
	cfg.Opts = []kgo.Opt{user("walhop", configtest.Secret)}
	wantRefused(t, cfg, kafkalog.ErrAuthentication)
}

// The client's settings reach every connection: TLS too.
func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate, which is one of 127.0.0.1
	defer server.Close()
	cluster := newCluster(t, kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates}))
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	cfg := config(cluster, 1, 0)
	cfg.Opts = []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: trusted})}
	without, untrusting := cfg, cfg
	without.Opts, untrusting.Opts = nil, []kgo.Opt{kgo.DialTLSConfig(&tls.Config{})}
	wantRefused(t, without, kafkalog.ErrUnreachable)
	wantRefused(t, untrusting, kafkalog.ErrUnreachable, "certificate")

	log := open(t, cfg)
	sub := subscribe(t, log)
	publish(t, log, event(1, 0, 0))
	wantEvents(t, sub, event(1, 0, 0))
}

// Each permission that is missing is named.
func TestMissingPermission(t *testing.T) {
	all := []kmsg.ACLOperation{
		kmsg.ACLOperationCreate, kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationRead, kmsg.ACLOperationWrite,
	}
	for _, missing := range []struct {
		operation kmsg.ACLOperation
		says      string
	}{
		{kmsg.ACLOperationUnknown, ""},
		{kmsg.ACLOperationCreate, "CREATE on topic __remote_wal_log_metadata"},
		{kmsg.ACLOperationDescribeConfigs, "DESCRIBE_CONFIGS on topic __remote_wal_log_metadata"},
		{kmsg.ACLOperationRead, "READ on topic __remote_wal_log_metadata"},
		{kmsg.ACLOperationWrite, "WRITE on topic __remote_wal_log_metadata"},
	} {
		t.Run(missing.operation.String(), func(t *testing.T) {
			var acls []kfake.ACL
			for _, operation := range all {
				if operation != missing.operation {
					acls = append(acls, kfake.ACL{
						Resource: kmsg.ACLResourceTypeTopic, Name: kafkalog.DefaultTopic, Pattern: kmsg.ACLResourcePatternTypeLiteral,
						Operation: operation, Allow: true,
					})
				}
			}
			cluster := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "walhop", "right", acls...))
			cfg := config(cluster, 1, 0)
			cfg.Opts = []kgo.Opt{user("walhop", "right")}
			switch missing.operation {
			case kmsg.ACLOperationUnknown:
				log := open(t, cfg)
				sub := subscribe(t, log)
				publish(t, log, event(1, 0, 0))
				wantEvents(t, sub, event(1, 0, 0))
			case kmsg.ACLOperationWrite: // a handle that only reads needs none
				log := open(t, cfg)
				subscribe(t, log)
				_, err := log.Publish(t.Context(), event(1, 0, 0))
				require.ErrorIs(t, err, kafkalog.ErrAuthorization)
				require.ErrorContains(t, err, missing.says)
			default:
				wantRefused(t, cfg, kafkalog.ErrAuthorization, missing.says)
			}
		})
	}
}

// A permission that is taken away while a log is open is told by each call, and given back it works again.
func TestPermissionIsTakenAway(t *testing.T) {
	cluster := newCluster(t)
	log := open(t, config(cluster, 1, 0))
	publish(t, log, event(1, 0, 0))
	sub := subscribe(t, log)

	denied := fault(cluster, kmsg.Produce, kerr.TopicAuthorizationFailed, -1)
	_, err := log.Publish(t.Context(), event(1, 0, 1))
	require.ErrorIs(t, err, kafkalog.ErrAuthorization)
	require.NotErrorIs(t, err, metadata.ErrUnknownOutcome)
	denied.Remove()
	publish(t, log, event(1, 0, 1))
	wantEvents(t, sub, event(1, 0, 1))

	denied = fault(cluster, kmsg.Fetch, kerr.TopicAuthorizationFailed, -1)
	publish(t, log, event(1, 0, 2))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.Eventually(t, func() bool { // what was fetched before comes first
		item, err := sub.Next(ctx)
		require.Nil(t, item.Gap)
		return err != nil
	}, 10*time.Second, time.Millisecond)
	denied.Remove()
}

// create creates the topic as an operator might have.
func create(tb testing.TB, cluster *kfake.Cluster, partitions int32, settings map[string]string) {
	tb.Helper()
	configs := make(map[string]*string)
	for name, value := range settings {
		configs[name] = kadm.StringPtr(value)
	}
	_, err := admin(tb, cluster).CreateTopic(tb.Context(), partitions, 1, configs, kafkalog.DefaultTopic)
	require.NoError(tb, err)
}

// KAFKA-15632: a topic with which events would be lost is refused, in words that say what to change.
func TestTopicThatDoesNotFit(t *testing.T) {
	for name, test := range map[string]struct {
		partitions int32
		settings   map[string]string
		change     func(c *kafkalog.Config)
		says       []string
	}{
		"compacted":           {3, map[string]string{"cleanup.policy": "compact"}, nil, []string{"cleanup.policy=compact", "set it to delete"}},
		"compacted, too":      {3, map[string]string{"cleanup.policy": "compact,delete"}, nil, []string{"cleanup.policy=compact,delete"}},
		"retention too short": {3, map[string]string{"retention.ms": "60000"}, nil, []string{"retention.ms=60000", "3600000", "set it to 3900000 or more"}},
		"events too large":    {3, map[string]string{"max.message.bytes": "1000"}, nil, []string{"max.message.bytes=1000", "leader.Config.MaxEventBytes"}},
		"larger events": {
			3, nil, func(c *kafkalog.Config) { c.MaxEventBytes = metadata.MaxEventBytes },
			nil,
		},
		"too few partitions": {2, nil, nil, []string{"has 2 partitions and Config.Partitions is 3", "set Partitions to 2 or less"}},
		"too many in sync":   {3, map[string]string{"min.insync.replicas": "2"}, nil, []string{"min.insync.replicas=2 and 1 replicas"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			create(t, cluster, test.partitions, test.settings)
			cfg := config(cluster, 1, 0)
			if test.change != nil {
				test.change(&cfg)
			}
			if test.says == nil {
				require.NoError(t, openAndClose(t.Context(), cfg))
				return
			}
			wantRefused(t, cfg, kafkalog.ErrTopic, append(test.says, kafkalog.DefaultTopic)...)
		})
	}
}

// A topic that is less than what was asked for, and good enough, is warned of.
func TestTopicThatIsWarnedOf(t *testing.T) {
	cluster := newCluster(t)
	create(t, cluster, 5, map[string]string{
		"retention.ms": "3600000", "retention.bytes": "1000000", "message.timestamp.type": "CreateTime", "max.message.bytes": "600000",
	})
	cfg := config(cluster, 1, 0)
	cfg.ReplicationFactor, cfg.MinInSyncReplicas = 3, 2
	var lines lockedBuffer
	cfg.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	log := open(t, cfg)
	for _, setting := range []string{
		"setting=retention.ms is=3600000 want=3900000", "setting=retention.bytes", "setting=message.timestamp.type is=CreateTime want=LogAppendTime",
		"setting=min.insync.replicas is=1 want=2", `setting="replication factor" is=1 want=3`,
	} {
		require.Contains(t, lines.String(), setting)
	}
	require.Less(t, log.MaxEventBytes(), 600_000)
	require.Greater(t, log.MaxEventBytes(), 599_000)
	publish(t, log, event(1, 0, 0))
}

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// M6: the topic that Open creates is what the documentation says, whoever creates it first.
func TestTopicIsCreated(t *testing.T) {
	cluster := newCluster(t)
	var brokers sync.WaitGroup
	for broker := range int32(5) {
		brokers.Go(func() {
			cfg := kafkalog.Config{Seeds: cluster.ListenAddrs(), Broker: broker, SegmentRetention: 10 * time.Minute, RetentionMargin: time.Minute}
			if err := openAndClose(t.Context(), cfg); err != nil {
				t.Errorf("broker %d: %v", broker, err)
			}
		})
	}
	brokers.Wait()

	details, err := admin(t, cluster).ListTopicsWithInternal(t.Context(), "__remote_wal_log_metadata")
	require.NoError(t, err)
	require.Len(t, details["__remote_wal_log_metadata"].Partitions, 50)
	require.Len(t, details["__remote_wal_log_metadata"].Partitions[0].Replicas, 3)
	resources, err := admin(t, cluster).DescribeTopicConfigs(t.Context(), "__remote_wal_log_metadata")
	require.NoError(t, err)
	settings := map[string]string{}
	for _, c := range resources[0].Configs {
		settings[c.Key] = c.MaybeValue()
	}
	require.Equal(t, "delete", settings["cleanup.policy"])
	require.Equal(t, "660000", settings["retention.ms"])
	require.Equal(t, "LogAppendTime", settings["message.timestamp.type"])
	require.Equal(t, "2", settings["min.insync.replicas"])
}

// What the cluster does not allow is told.
func TestTopicCannotBeCreated(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.InvalidReplicationFactor, kerr.PolicyViolation} {
		cluster := newCluster(t)
		fault(cluster, kmsg.CreateTopics, refusal, -1)
		wantRefused(t, config(cluster, 1, 0), kafkalog.ErrTopic, "cannot be created")
	}
}

// A topic just created is not known everywhere at once.
func TestTopicIsSlowToAppear(t *testing.T) {
	cluster := newCluster(t)
	create(t, cluster, 3, nil)
	fault(cluster, kmsg.DescribeConfigs, kerr.UnknownTopicOrPartition, 2)
	fault(cluster, kmsg.ListOffsets, kerr.UnknownTopicOrPartition, 2)
	fault(cluster, kmsg.Fetch, kerr.UnknownTopicOrPartition, 2)
	log := open(t, config(cluster, 1, 0))
	sub := subscribe(t, log)
	publish(t, log, event(1, 0, 0))
	wantEvents(t, sub, event(1, 0, 0))
}
