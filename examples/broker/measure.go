package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walhop/walhop/internal/batch"
	"github.com/walhop/walhop/internal/openurl"
	"github.com/walhop/walhop/walstorage"
)

// What is measured, in broker -measure.
const (
	measuredPartitions = 3 // a leader on each broker
	measuredRate       = 6e6
	measuredWarmUp     = 2 * time.Second
	measuredFor        = 5 * time.Second

	comparedRate   = 2e6
	comparedBlocks = 20
	comparedFor    = 150 * time.Millisecond // and four times that in each block

	maxShare = 0.01 // of the record bytes produced, in fetch answers between brokers
	maxRatio = 1.10 // of acks=1 with walhop to acks=1 without replication
)

// measured is one way to replicate, and what it costs.
type measured struct {
	name      string
	replicate replication
	store     string // URL, empty for files
	express   bool   // with the latencies of S3 Express added
}

// opener opens the store for one broker.
type opener = func(ctx context.Context, broker int32, cluster string) (walstorage.WalStorageManager, error)

// withExpress adds the latencies of S3 Express One Zone to a store.
func withExpress(open opener) opener {
	return func(ctx context.Context, broker int32, cluster string) (walstorage.WalStorageManager, error) {
		m, err := open(ctx, broker, cluster)
		if err != nil {
			return nil, err
		}
		return slowStore{WalStorageManager: m, put: s3ExpressPut.from(uint64(broker)), get: s3ExpressGet.from(uint64(broker) + 100)}, nil
	}
}

// measure prints what the README shows, and returns an error if a figure is not what it should be.
func (s *settings) measure(ctx context.Context, out io.Writer, dir string) error {
	ways := []measured{
		{"ordinary fetch", byFetch, "", false},
		{"walhop, local store", byStore, "", false},
		{"walhop, local store as slow as S3 Express", byStore, "", true},
	}
	if s.store != "" {
		place, err := openurl.Parse(s.store)
		if err != nil {
			return fmt.Errorf("-store: %w", err)
		}
		ways = append(ways, measured{fmt.Sprintf("walhop, %s as slow as S3 Express", place), byStore, s.store, true})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%.0f MB/s, 3 partitions, 3 replicas\tacks=1 p50\tp99\tacks=all p50\tp99\trecords in fetch answers\tall bytes between brokers\n", measuredRate/1e6)
	var wrong error
	for i, way := range ways {
		cfg, err := s.measuredCluster(filepath.Join(dir, fmt.Sprintf("way-%d", i)), way.store)
		if err != nil {
			return err
		}
		cfg.replicate = way.replicate
		if way.express {
			cfg.storage = withExpress(cfg.storage)
		}
		figures, err := measureOne(ctx, cfg)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		share := float64(figures.records) / float64(figures.produced)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.2f %% of those produced\t%.2f MB of %.1f produced\n", way.name,
			figures.one.at(0.5), figures.one.at(0.99), figures.all.at(0.5), figures.all.at(0.99),
			100*share, float64(figures.traffic)/1e6, float64(figures.produced)/1e6)
		if way.replicate == byStore && share >= maxShare {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %.2f %% of the record bytes went between the brokers, want less than %.0f %%", way.name, 100*share, 100*maxShare))
		}
	}
	_ = table.Flush()
	return errors.Join(wrong, s.compare(ctx, out, dir))
}

// measuredCluster is a cluster in a directory of its own, over the store given, or over files.
func (s *settings) measuredCluster(dir, store string) (clusterConfig, error) {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return clusterConfig{}, err
	}
	own := *s
	own.ports, own.store, own.metadata = "0", store, ""
	cfg, _, err := own.cluster(dir)
	cfg.logger = slog.New(slog.DiscardHandler)
	return cfg, err
}

// figures are what one way costs, after the warm-up.
type figures struct {
	one, all                   latencies
	produced, records, traffic int64 // bytes
}

func measureOne(ctx context.Context, cfg clusterConfig) (f figures, err error) {
	c, err := newCluster(ctx, cfg)
	if err != nil {
		return f, err
	}
	defer c.close()
	load, err := newLoad(ctx, c, measuredPartitions, brokers)
	if err != nil {
		return f, err
	}
	defer load.close()
	if _, err := load.run(ctx, acksAll, measuredRate, measuredWarmUp); err != nil {
		return f, err
	}
	records, traffic := c.traffic()
	produced := load.produced.Load()
	if f.one, err = load.run(ctx, acksOne, measuredRate, measuredFor); err != nil {
		return f, err
	}
	if f.all, err = load.run(ctx, acksAll, measuredRate, measuredFor); err != nil {
		return f, err
	}
	f.records, f.traffic = c.traffic()
	f.records, f.traffic = f.records-records, f.traffic-traffic
	f.produced = load.produced.Load() - produced
	return f, nil
}

// traffic is the bytes of records that brokers have fetched from each other, and all bytes that went between them.
func (c *cluster) traffic() (records, all int64) {
	for _, b := range c.state().Brokers {
		records, all = records+b.RecordBytesFetched, all+b.TrafficBytes
	}
	return records, all
}

// compare runs acks=1 in blocks, with walhop and without replication by turns, and again with the store stopped.
func (s *settings) compare(ctx context.Context, out io.Writer, dir string) error {
	var stopped atomic.Bool
	var loads [2]*load // with, without
	for i, replicas := range []int{brokers, 1} {
		cfg, err := s.measuredCluster(filepath.Join(dir, fmt.Sprintf("compared-%d", i)), "")
		if err != nil {
			return err
		}
		open := cfg.storage
		cfg.storage = func(ctx context.Context, broker int32, cluster string) (walstorage.WalStorageManager, error) {
			m, err := open(ctx, broker, cluster)
			return slowStore{WalStorageManager: m, stopped: &stopped}, err
		}
		c, err := newCluster(ctx, cfg)
		if err != nil {
			return err
		}
		defer c.close()
		if loads[i], err = newLoad(ctx, c, 1, replicas); err != nil {
			return err
		}
		defer loads[i].close()
		if _, err := loads[i].run(ctx, acksOne, comparedRate, measuredWarmUp); err != nil {
			return err
		}
	}
	var wrong error
	for _, when := range []string{"", ", the store stopped"} {
		stopped.Store(when != "")
		var ratios []float64
		for range comparedBlocks {
			var samples [2]latencies
			for _, which := range []int{0, 1, 1, 0, 1, 0, 0, 1} { // by turns: what the machine does meanwhile hits both
				part, err := loads[which].run(ctx, acksOne, comparedRate, comparedFor)
				if err != nil {
					return err
				}
				samples[which] = append(samples[which], part...)
			}
			ratios = append(ratios, samples[0].median()/samples[1].median())
		}
		slices.Sort(ratios)
		median := (ratios[comparedBlocks/2-1] + ratios[comparedBlocks/2]) / 2
		// The 6th and the 15th of 20 hold the median between them with 95.9 %.
		fmt.Fprintf(out, "acks=1 at %.0f MB/s, walhop to no replication%s: median ratio of %d blocks %.3f, 95 %% interval %.3f to %.3f\n",
			comparedRate/1e6, when, comparedBlocks, median, ratios[5], ratios[14])
		if median > maxRatio {
			wrong = errors.Join(wrong, fmt.Errorf("acks=1 takes %.3f times as long as without replication%s, want %.2f at most", median, when, maxRatio))
		}
	}
	return wrong
}

// load produces to one topic, at a rate that does not wait for answers.
type load struct {
	cluster  *cluster
	leaders  []*peer // by partition
	batch    []byte
	produced atomic.Int64 // bytes
}

const loadTopic = "measured"

func newLoad(ctx context.Context, c *cluster, partitions, replicas int) (*load, error) {
	t, err := c.controller.createTopic(loadTopic, partitions, replicas)
	if err != nil {
		return nil, err
	}
	l := &load{cluster: c, batch: newBatch(16, 1000)}
	for _, a := range t.Partitions {
		l.leaders = append(l.leaders, newPeer(a.Leader, c.network))
	}
	for n := range l.leaders { // until they lead
		for l.send(ctx, int32(n), acksOne) != nil {
			if !pause(ctx, soon) {
				return nil, ctx.Err()
			}
		}
	}
	return l, nil
}

func (l *load) close() {
	for _, leader := range l.leaders {
		leader.close()
	}
}

// run produces for a while, and returns how long each batch took until it was acknowledged.
func (l *load) run(ctx context.Context, acks int16, rate float64, d time.Duration) (samples latencies, err error) {
	perSecond := rate / float64(len(l.batch))
	var mu sync.Mutex
	var sending sync.WaitGroup
	ticker := time.NewTicker(time.Duration(1e9 / perSecond))
	defer ticker.Stop()
	begun := time.Now()
	for n := 0; time.Since(begun) < d; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
		for ; float64(n) < time.Since(begun).Seconds()*perSecond; n++ { // also what the machine was late with
			sending.Go(func() {
				sent := time.Now()
				failed := l.send(ctx, int32(n%len(l.leaders)), acks)
				took := time.Since(sent)
				mu.Lock()
				defer mu.Unlock()
				samples = append(samples, took)
				err = cmp.Or(err, failed)
			})
		}
	}
	sending.Wait()
	slices.Sort(samples)
	return samples, err
}

func (l *load) send(ctx context.Context, n int32, acks int16) error {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(9)
	request.Acks, request.TimeoutMillis = acks, 30_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = n, l.batch
	request.Topics = []kmsg.ProduceRequestTopic{{Topic: loadTopic, Partitions: []kmsg.ProduceRequestTopicPartition{part}}}
	response, err := l.leaders[n].ask(ctx, request)
	if err != nil {
		return err
	}
	if code := response.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != codeNone {
		return fmt.Errorf("produce: error code %d", code)
	}
	l.produced.Add(int64(len(l.batch)))
	return nil
}

// latencies are samples in order.
type latencies []time.Duration

// at is a quantile.
func (l latencies) at(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[int(q*float64(len(l)-1))].Round(10 * time.Microsecond)
}

// median is the median, of samples in any order.
func (l latencies) median() float64 {
	slices.Sort(l)
	return float64(l[len(l)/2])
}

// newBatch makes a batch of records without keys, whose values have size bytes each.
func newBatch(records, size int) []byte {
	var body []byte
	value := make([]byte, size)
	for i := range records {
		r := kmsg.Record{OffsetDelta: int32(i), Value: value}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // the length itself takes a byte while it is 0
		body = r.AppendTo(body)
	}
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		Length: int32(batch.HeaderLength - 12 + len(body)), Magic: 2, LastOffsetDelta: int32(records - 1),
		FirstTimestamp: now, MaxTimestamp: now, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(records), Records: body,
	}
	whole := b.AppendTo(nil)
	batch.SetCRC(whole)
	return whole
}
