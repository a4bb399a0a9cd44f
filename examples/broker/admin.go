package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/walhop/walhop/walstorage/segment"
)

// admin is the HTTP endpoint on loopback with which a broker is stopped and started, and looked at:
//
//	GET  /                   the state of everything
//	POST /brokers/1/stop     ends broker 1 as kill -9 would
//	POST /brokers/1/start    starts it again
type admin struct {
	server   *http.Server
	listener net.Listener
	ended    chan struct{}
}

// serveAdmin starts the endpoint.
func serveAdmin(c *cluster, port int) (*admin, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(c.state())
	})
	change := func(do func(r *http.Request, id int32) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			id, err := strconv.ParseInt(r.PathValue("id"), 10, 32)
			if err == nil {
				err = do(r, int32(id))
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			fmt.Fprintln(w, "done")
		}
	}
	mux.HandleFunc("POST /brokers/{id}/stop", change(func(_ *http.Request, id int32) error { return c.kill(id) }))
	mux.HandleFunc("POST /brokers/{id}/start", change(func(r *http.Request, id int32) error { return c.start(r.Context(), id) }))
	a := &admin{listener: listener, ended: make(chan struct{})}
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(a.ended)
		_ = a.server.Serve(listener)
	}()
	return a, nil
}

func (a *admin) close() {
	_ = a.server.Close()
	<-a.ended
}

// state is what the endpoint shows.
type state struct {
	Cluster    string           `json:"cluster"`
	Brokers    []brokerState    `json:"brokers"`
	Partitions []partitionState `json:"partitions"`
}

type brokerState struct {
	ID          int32  `json:"id"`
	Zone        string `json:"zone"`
	Address     string `json:"address"`
	Running     bool   `json:"running"`
	Connections int    `json:"connections"`
	// BytesThroughStore were appended from the store, RecordBytesFetched came from other brokers by ordinary fetch, and
	// TrafficBytes is everything that this broker has sent to others and received in answer.
	BytesThroughStore  int64 `json:"bytesThroughStore"`
	RecordBytesFetched int64 `json:"recordBytesFetched"`
	TrafficBytes       int64 `json:"trafficBytes"`
}

type partitionState struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Leader    int32          `json:"leader"`
	Epoch     int32          `json:"epoch"`
	ISR       []int32        `json:"isr"`
	Replicas  []replicaState `json:"replicas"`
}

type replicaState struct {
	Broker        int32  `json:"broker"`
	Start         int64  `json:"start"`
	End           int64  `json:"end"`
	HighWatermark int64  `json:"highWatermark"`
	Following     string `json:"following,omitempty"` // what the replicator does
}

func (c *cluster) state() state {
	m := c.controller.current()
	s := state{Cluster: m.Cluster}
	for _, id := range c.ids {
		host, port := c.network.address(id)
		shown := brokerState{ID: id, Zone: zone(id), Address: net.JoinHostPort(host, strconv.Itoa(int(port)))}
		if b := c.broker(id); b != nil {
			shown.Running, shown.Connections = true, b.server.connections()
			if b.replicator != nil {
				shown.BytesThroughStore = b.replicator.Stats().Bytes
			}
			for _, p := range b.peers {
				shown.RecordBytesFetched += p.records.Load()
				shown.TrafficBytes += p.sent.Load() + p.received.Load()
			}
		}
		s.Brokers = append(s.Brokers, shown)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Topics)) {
		t := m.Topics[name]
		for n, a := range t.Partitions {
			shown := partitionState{Topic: name, Partition: int32(n), Leader: a.Leader, Epoch: a.Epoch, ISR: a.ISR}
			for _, id := range a.Replicas {
				if b := c.broker(id); b != nil {
					if p := b.partition(segment.PartitionKey{TopicID: t.ID, Partition: int32(n)}); p != nil {
						shown.Replicas = append(shown.Replicas, p.state())
					}
				}
			}
			s.Partitions = append(s.Partitions, shown)
		}
	}
	return s
}

func (p *partition) state() replicaState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := replicaState{Broker: p.broker.id, Start: p.log.Start(), HighWatermark: p.log.HighWatermark()}
	s.End, _ = p.log.End()
	if p.following != nil {
		s.Following = string(p.following.State().Kind)
	}
	return s
}
