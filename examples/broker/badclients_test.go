package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/internal/batch/batchtest"
	"github.com/walhop/walhop/internal/corpus"
)

// raw opens a connection to broker 0.
func raw(t *testing.T, c *cluster) net.Conn {
	t.Helper()
	conn, err := c.network.dial(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// stillWorks tells that a good client is served.
func stillWorks(t *testing.T, c *cluster) {
	t.Helper()
	client := newPlainClient(t, c)
	defer client.close()
	require.NotEmpty(t, ask[*kmsg.MetadataResponse](client, 0, kmsg.NewPtrMetadataRequest()).Brokers)
}

// closes tells that the broker closes the connection without an answer.
func closes(t *testing.T, conn net.Conn, says string) {
	t.Helper()
	n, err := conn.Read(make([]byte, 1))
	require.Zero(t, n, says)
	require.Error(t, err, says)
	timeout, ok := err.(net.Error)
	require.False(t, ok && timeout.Timeout(), "%s: the connection is not closed", says)
}

// header is a request up to its client id.
func header(size int32, key, version int16) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(b, 0, 0, 0, 7, 0xff, 0xff)
}

// Given clients that send what is no request of this broker, when they do, then their connections are closed, and others are
// served.
func TestBadRequests(t *testing.T) {
	c := start(t, overFiles(t))
	for says, sent := range map[string][]byte{
		"2 GiB":                      header(1<<31-1, kmsg.Produce.Int16(), 9),
		"just too large":             header(maxProduce+1, kmsg.Produce.Int16(), 9),
		"too large for its kind":     header(maxOther+1, kmsg.Metadata.Int16(), 9),
		"a negative size":            header(-1, kmsg.Metadata.Int16(), 9),
		"no room for a header":       {0, 0, 0, 9},
		"an unknown request":         header(10, 999, 0),
		"a negative key":             header(10, -1, 0),
		"a version that is too new":  header(10, kmsg.Metadata.Int16(), 99),
		"a version that is too old":  header(10, kmsg.Produce.Int16(), 2),
		"a negative version":         header(10, kmsg.Fetch.Int16(), -1),
		"a request we do not have":   header(10, kmsg.JoinGroup.Int16(), 5),
		"a client id beyond the end": append(header(10, kmsg.Metadata.Int16(), 1)[:12], 0x10, 0),
		"HTTP":                       []byte("GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
		"TLS":                        {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
	} {
		conn := raw(t, c)
		_, err := conn.Write(sent)
		require.NoError(t, err)
		closes(t, conn, says)
	}
	stillWorks(t, c)
}

// Given a client that knows a newer ApiVersions than this broker, when it asks, then it gets an answer of version 0 that
// says so and lists what there is, and goes on on the same connection.
func TestNewerAPIVersions(t *testing.T) {
	c := start(t, overFiles(t))
	conn := raw(t, c)
	_, err := conn.Write(append(header(10+3, apiVersionsKey, 99), 0, 1, 1))
	require.NoError(t, err)
	request := kmsg.NewPtrApiVersionsRequest()
	r := bufio.NewReader(conn)
	response, _, err := readResponse(r, 7, request)
	require.NoError(t, err)
	answer := response.(*kmsg.ApiVersionsResponse)
	require.Equal(t, codeUnsupportedVersion, answer.ErrorCode)
	require.Equal(t, len(supported()), len(answer.ApiKeys))

	request.SetVersion(3)
	_, err = conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 8))
	require.NoError(t, err)
	response, _, err = readResponse(r, 8, request)
	require.NoError(t, err)
	require.Zero(t, response.(*kmsg.ApiVersionsResponse).ErrorCode)
}

// sample is a request as a client sends it.
type sample struct {
	name string
	sent []byte
}

// goodRequests is one of each request and version that is supported, with something in it.
func goodRequests() (all []sample) {
	name := kmsg.StringPtr("t")
	produce := produceRequest("t", 0, acksOne, batchtest.Make(0, -1, "x"))
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes = 1 << 20
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}}}
	list := kmsg.NewPtrListOffsetsRequest()
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{kmsg.NewListOffsetsRequestTopicPartition()}}}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: name}}
	coordinator := kmsg.NewPtrFindCoordinatorRequest()
	coordinator.CoordinatorKey, coordinator.CoordinatorKeys = "g", []string{"g"}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "/", NumPartitions: 1, ReplicationFactor: 1}}
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames, remove.Topics = []string{"no"}, []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr("no")}}
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{kmsg.NewOffsetForLeaderEpochRequestTopicPartition()}}}
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}}
	for _, request := range []kmsg.Request{
		produce, fetch, list, metadata, coordinator, kmsg.NewPtrApiVersionsRequest(), create, remove,
		kmsg.NewPtrInitProducerIDRequest(), epochs, configs, kmsg.NewPtrDescribeClusterRequest(),
	} {
		for _, v := range supported() {
			if v.ApiKey != request.Key() {
				continue
			}
			for version := v.MinVersion; version <= v.MaxVersion; version++ {
				request.SetVersion(version)
				name := fmt.Sprintf("%s-v%d", strings.ToLower(kmsg.NameForKey(request.Key())), version)
				all = append(all, sample{name, kmsg.NewRequestFormatter().AppendRequest(nil, request, 7)})
			}
		}
	}
	return all
}

// Given every request and version that is supported, when it is sent whole, then it is answered; when it is cut off
// anywhere, with a size that says so, then it is answered or the connection is closed, and nothing worse happens.
func TestTruncatedFrames(t *testing.T) {
	c := start(t, overFiles(t))
	_, err := c.controller.createTopic("t", 1, 3)
	require.NoError(t, err)
	b := c.broker(0)
	requests := goodRequests()
	require.Greater(t, len(requests), 80)
	for _, request := range requests {
		request := request.sent
		for cut := range len(request) {
			if cut < 14 {
				continue // readFrame refuses it
			}
			var f frame
			if err := f.parse(request[4:cut]); err != nil {
				continue
			}
			f.budget = b.server.budget
			reply, err := b.answer(t.Context(), &f)
			if err == nil && reply.response != nil {
				appendResponse(nil, 7, reply.response)
			}
		}
		conn := raw(t, c)
		_, err := conn.Write(request)
		require.NoError(t, err)
		head := make([]byte, 8)
		_, err = io.ReadFull(conn, head)
		require.NoError(t, err, "request %d version %d", request[5], request[7])
		require.EqualValues(t, 7, head[7])
		require.NoError(t, conn.Close())
	}
	stillWorks(t, c)
}

// Given a thousand clients that connect and say nothing, and some that announce a large request and send none of it, then
// they cost little memory, and others are served.
func TestIdleConnections(t *testing.T) {
	c := start(t, overFiles(t))
	before := heap()
	const idle, loud = 1000, 20
	for range idle {
		raw(t, c)
	}
	for range loud {
		_, err := raw(t, c).Write(header(maxProduce, kmsg.Produce.Int16(), 9))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return c.broker(0).server.connections() >= idle+loud }, 10*time.Second, 5*time.Millisecond)
	stillWorks(t, c)
	used := heap() - before
	require.Less(t, used, int64(64<<20))
	require.NoError(t, c.kill(0), "which closes them all")
	require.Less(t, heap()-before, int64(32<<20))
}

// heap is what is allocated, stacks included.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestFrameCorpus keeps the seeds of FuzzFrame, one of each request and version, and says what becomes of them.
func TestFrameCorpus(t *testing.T) {
	var seeds []corpus.Seed
	for _, request := range goodRequests() {
		data := request.sent[4:]
		var f frame
		require.NoError(t, f.parse(data))
		_, err := f.request()
		require.NoError(t, err, request.name)
		seeds = append(seeds, corpus.Seed{Name: request.name, Args: []any{data}})
	}
	corpus.Check(t, "FuzzFrame", seeds...)
}

// Given any bytes as a request, then decoding it gives an error or a request, and allocates no more than a small multiple of
// the bytes (S5).
func FuzzFrame(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		var fr frame
		if len(data) < 10 || fr.parse(data) != nil {
			return
		}
		for _, v := range supported() {
			if v.ApiKey == fr.key && v.MinVersion <= fr.version && fr.version <= v.MaxVersion {
				used := corpus.Allocated(func() {
					if request, err := fr.request(); err == nil {
						require.Equal(t, fr.key, request.Key())
					}
				})
				require.Less(t, used, uint64(64*len(data)+16<<10))
			}
		}
	})
}
