package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/walhop/walhop/internal/configtest"
	"github.com/walhop/walhop/metadata"
	"github.com/walhop/walhop/metadata/internal/testevent"
	"github.com/walhop/walhop/metadata/memlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTopic(t *testing.T, cfg memlog.Config) *memlog.Topic {
	topic, err := memlog.New(cfg)
	require.NoError(t, err)
	return topic
}

func open(t *testing.T, topic *memlog.Topic, options memlog.Options) *memlog.Log {
	log, err := topic.Open(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return log
}

func subscribe(t *testing.T, log *memlog.Log) metadata.Subscription {
	sub, err := log.Subscribe(t.Context(), metadata.Position{})
	require.NoError(t, err)
	return sub
}

// events returns events of the broker's epoch 1 with the sequences given.
func events(broker int32, sequences ...int64) (list []*metadata.Event) {
	for _, sequence := range sequences {
		list = append(list, testevent.New(broker, 1, sequence))
	}
	return list
}

func publish(t *testing.T, log *memlog.Log, events ...*metadata.Event) {
	stored, err := log.Publish(t.Context(), events...)
	require.NoError(t, err)
	require.Equal(t, len(events), stored)
}

// read returns what the subscription yields without waiting, as "broker:sequence" and "gap...".
func read(t *testing.T, sub metadata.Subscription) string {
	var out []string
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		item, err := sub.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return strings.Join(out, " ")
		}
		require.NoError(t, err)
		if item.Gap != nil {
			out = append(out, fmt.Sprintf("gap%d[%d,%d)%s", item.Gap.BrokerID, item.Gap.From, item.Gap.To, strings.ReplaceAll(string(item.Gap.Reason), " ", "-")))
			continue
		}
		out = append(out, fmt.Sprintf("%d:%d", item.Event.Segment.ID.BrokerID, item.Event.Sequence))
	}
}

func TestPublishReachesEverySubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{})
		one := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
		two := open(t, topic, memlog.Options{Broker: 2, BrokerEpoch: 1})
		publish(t, one, events(1, 0, 1)...)
		first, second := subscribe(t, one), subscribe(t, two)

		publish(t, one, events(1, 2, 3)...)
		publish(t, two, events(2, 0)...)

		assert.Equal(t, "1:2 1:3 2:0", read(t, first))
		assert.Equal(t, "1:2 1:3 2:0", read(t, second))
		assert.Len(t, topic.Events(), 5)
		assert.Equal(t, testevent.New(2, 1, 0), topic.Events()[4])
	})
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{})
		log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		got := make(chan int64)
		go func() {
			item, err := sub.Next(t.Context())
			require.NoError(t, err)
			got <- item.Event.Sequence
		}()
		synctest.Wait()
		publish(t, log, events(1, 7)...)
		assert.EqualValues(t, 7, <-got)
	})
}

// The event that Next yields is valid until the next call: who keeps it finds it scribbled over.
func TestEventIsValidUntilTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{})
		log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		published := testevent.New(1, 1, 0)
		publish(t, log, published)
		item, err := sub.Next(t.Context())
		require.NoError(t, err)
		assert.Equal(t, testevent.New(1, 1, 0), item.Event)
		assert.NotSame(t, published, item.Event)
		clone := item.Event.Clone()

		assert.Empty(t, read(t, sub))

		assert.NotEqual(t, testevent.New(1, 1, 0).Sequence, item.Event.Sequence)
		assert.Equal(t, testevent.New(1, 1, 0), clone)
	})
}

// M1: rejected is told apart from unknown.
func TestPublishRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{})
		log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		for name, bad := range map[string]*metadata.Event{
			"nil":               nil,
			"another broker":    testevent.New(2, 1, 1),
			"another epoch":     testevent.New(1, 2, 1),
			"negative sequence": testevent.New(1, 1, -1),
			"no segment":        {Sequence: 1},
		} {
			stored, err := log.Publish(t.Context(), bad)
			assert.ErrorIs(t, err, metadata.ErrInvalid, name)
			assert.Zero(t, stored, name)
		}
		stored, err := log.Publish(t.Context(), testevent.New(1, 1, 0), testevent.New(1, 1, -1), testevent.New(1, 1, 2))
		assert.ErrorIs(t, err, metadata.ErrInvalid)
		assert.Equal(t, 1, stored, "the events before the wrong one are stored, those after it are not")
		assert.Equal(t, "1:0", read(t, sub))

		stored, err = log.Publish(t.Context())
		assert.NoError(t, err)
		assert.Zero(t, stored)
	})
}

// L6: a newer broker epoch of the same id that has published fences.
func TestFencing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{})
		older := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 7})
		newer := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 8})
		other := open(t, topic, memlog.Options{Broker: 2, BrokerEpoch: 1})
		sub := subscribe(t, other)

		publish(t, older, testevent.New(1, 7, 0))
		publish(t, newer, testevent.New(1, 8, 0))
		stored, err := older.Publish(t.Context(), testevent.New(1, 7, 1))

		assert.ErrorIs(t, err, metadata.ErrFenced)
		assert.Zero(t, stored)
		publish(t, other, testevent.New(2, 1, 0))
		assert.Equal(t, "1:0 1:0 2:0", read(t, sub))
	})
}

// Every fault of a publication, and what a reader sees of it.
func TestPublishFaults(t *testing.T) {
	unknown := fmt.Errorf("scripted: %w", metadata.ErrUnknownOutcome)
	for _, tt := range []struct {
		name   string
		fault  memlog.PublishFault // of the second of three calls
		stored int                 // what that call returns
		err    error
		took   time.Duration
		want   string
	}{
		{name: "none", stored: 2, want: "1:0 1:1 1:2 1:3"},
		{name: "delay", fault: memlog.PublishFault{Delay: time.Second, AckDelay: time.Second}, stored: 2, took: 2 * time.Second, want: "1:0 1:1 1:2 1:3"},
		{name: "M1: unknown, not stored", fault: memlog.PublishFault{Err: unknown}, err: metadata.ErrUnknownOutcome, want: "1:0 gap1[1,3)missing 1:3"},
		{name: "M1: unknown, stored", fault: memlog.PublishFault{Err: unknown, Stored: 2}, err: metadata.ErrUnknownOutcome, want: "1:0 1:1 1:2 1:3"},
		{name: "M1: unknown, a part stored and told", fault: memlog.PublishFault{Err: unknown, Stored: 1, Told: 1}, stored: 1, err: metadata.ErrUnknownOutcome, want: "1:0 1:1 gap1[2,3)missing 1:3"},
		{name: "R12: unknown, and lands late", fault: memlog.PublishFault{Err: unknown, Stored: 2, Late: time.Minute}, err: metadata.ErrUnknownOutcome, want: "1:0 gap1[1,3)missing 1:3 1:1 1:2"},
		{name: "M1: rejected", fault: memlog.PublishFault{Err: metadata.ErrFenced}, err: metadata.ErrFenced, want: "1:0 gap1[1,3)missing 1:3"},
		{name: "M3: lost", fault: memlog.PublishFault{Lose: true}, stored: 2, want: "1:0 gap1[1,3)missing 1:3"},
		{name: "M3: repeated", fault: memlog.PublishFault{Repeat: 2}, stored: 2, want: "1:0 1:1 1:2 1:3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				topic := newTopic(t, memlog.Config{})
				duplicates, failed := 0, 0
				log := open(t, topic, memlog.Options{
					Broker: 1, BrokerEpoch: 1,
					Faults: memlog.Faults{Publish: func(call memlog.PublishCall) memlog.PublishFault {
						if call.Number != 1 {
							return memlog.PublishFault{}
						}
						assert.Equal(t, memlog.PublishCall{Number: 1, Events: 2, Sequence: 1, Segment: testevent.ID(1, 1, 1)}, call)
						return tt.fault
					}},
					Hooks: metadata.Hooks{
						Duplicate: func(*metadata.Event) { duplicates++ },
						Published: func(p metadata.Publication) {
							if p.Err != nil {
								failed++
							}
						},
					},
				})
				sub := subscribe(t, log)
				publish(t, log, events(1, 0)...)
				begun := time.Now()
				stored, err := log.Publish(t.Context(), events(1, 1, 2)...)
				assert.Equal(t, tt.took, time.Since(begun))
				assert.Equal(t, tt.stored, stored)
				assert.ErrorIs(t, err, tt.err)
				publish(t, log, events(1, 3)...)
				time.Sleep(time.Hour)

				assert.Equal(t, tt.want, read(t, sub))
				assert.Equal(t, 2*tt.fault.Repeat, duplicates)
				assert.Equal(t, tt.err != nil, failed == 1)
			})
		})
	}
}

// L5: what a publication of unknown outcome left behind is settled by repeating it unchanged.
func TestUnknownOutcomeIsSettledByRepeating(t *testing.T) {
	for stored := range 4 {
		synctest.Test(t, func(t *testing.T) {
			topic := newTopic(t, memlog.Config{})
			log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
			sub := subscribe(t, log)
			log.SetFaults(memlog.Faults{Publish: func(memlog.PublishCall) memlog.PublishFault {
				return memlog.PublishFault{Err: metadata.ErrUnknownOutcome, Stored: stored}
			}})
			_, err := log.Publish(t.Context(), events(1, 0, 1, 2)...)
			require.ErrorIs(t, err, metadata.ErrUnknownOutcome)
			log.SetFaults(memlog.Faults{})
			publish(t, log, events(1, 0, 1, 2)...)
			assert.Equal(t, "1:0 1:1 1:2", read(t, sub))
		})
	}
}

// Every fault of a delivery. They concern one subscription and no other.
func TestDeliveryFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault memlog.DeliveryFault // of broker 1's event 1
		want  string
		later string // after an hour
	}{
		{"none", memlog.DeliveryFault{}, "1:0 1:1 2:0 1:2", ""},
		{"delay, and broker 2 is not held up", memlog.DeliveryFault{Delay: time.Minute}, "1:0 2:0", "1:1 1:2"},
		{"M3: lost", memlog.DeliveryFault{Lose: true}, "1:0 2:0 gap1[1,2)missing 1:2", ""},
		{"M3: repeated", memlog.DeliveryFault{Repeat: 3}, "1:0 1:1 2:0 1:2", ""},
		{"M4: corrupt", memlog.DeliveryFault{Corrupt: true}, "1:0 gap1[-1,-1)corrupt 2:0 1:2", ""},
		{"M4: unknown version", memlog.DeliveryFault{UnknownVersion: true}, "1:0 gap1[1,2)unknown-version 2:0 1:2", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				topic := newTopic(t, memlog.Config{})
				one := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
				var gaps []metadata.Gap
				two := open(t, topic, memlog.Options{
					Broker: 2, BrokerEpoch: 1,
					Faults: memlog.Faults{Deliver: func(d memlog.Delivery) memlog.DeliveryFault {
						if d.Segment != testevent.ID(1, 1, 1) {
							return memlog.DeliveryFault{}
						}
						assert.Equal(t, memlog.Delivery{Number: 1, Sequence: 1, Segment: d.Segment}, d)
						return tt.fault
					}},
					Hooks: metadata.Hooks{Gap: func(g metadata.Gap) { gaps = append(gaps, g) }},
				})
				healthy, faulty := subscribe(t, one), subscribe(t, two)
				publish(t, one, events(1, 0, 1)...)
				publish(t, two, events(2, 0)...)
				publish(t, one, events(1, 2)...)

				assert.Equal(t, "1:0 1:1 2:0 1:2", read(t, healthy))
				assert.Equal(t, tt.want, read(t, faulty))
				time.Sleep(time.Hour)
				assert.Equal(t, tt.later, read(t, faulty))
				assert.Equal(t, strings.Count(tt.want, "gap"), len(gaps))
			})
		})
	}
}

// An hour-old event that is held back comes when the script lets it, in its order.
func TestHeldDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{})
		hold := true
		log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1, Faults: memlog.Faults{
			Deliver: func(d memlog.Delivery) memlog.DeliveryFault {
				return memlog.DeliveryFault{Hold: hold && d.Sequence >= 1}
			},
		}})
		sub := subscribe(t, log)
		publish(t, log, events(1, 0, 1, 2)...)
		assert.Equal(t, "1:0", read(t, sub))
		time.Sleep(time.Hour)
		assert.Empty(t, read(t, sub))

		got := make(chan int64, 1)
		go func() {
			item, err := sub.Next(t.Context())
			require.NoError(t, err)
			got <- item.Event.Sequence
		}()
		synctest.Wait()
		hold = false
		topic.Recheck()
		assert.EqualValues(t, 1, <-got)
		assert.Equal(t, "1:2", read(t, sub))
	})
}

// Brokers overtake each other as the delays say; a broker never overtakes itself.
func TestReorderedBetweenBrokers(t *testing.T) {
	run := func() string {
		var out strings.Builder
		synctest.Test(t, func(t *testing.T) {
			topic := newTopic(t, memlog.Config{})
			logs := make([]*memlog.Log, 3)
			for i := range logs {
				logs[i] = open(t, topic, memlog.Options{Broker: int32(i), BrokerEpoch: 1, Faults: memlog.Faults{
					Deliver: func(d memlog.Delivery) memlog.DeliveryFault {
						n := int(d.Segment.BrokerID)*7 + d.Number*13 + i
						return memlog.DeliveryFault{Delay: time.Duration(n*n%50) * time.Millisecond}
					},
				}})
			}
			sub := subscribe(t, logs[0])
			for n := range int64(50) {
				for i, log := range logs {
					publish(t, log, testevent.New(int32(i), 1, n))
				}
				time.Sleep(time.Millisecond)
			}
			var next [3]int64
			for range 150 {
				item, err := sub.Next(t.Context())
				require.NoError(t, err)
				broker := item.Event.Segment.ID.BrokerID
				require.Equal(t, next[broker], item.Event.Sequence, "broker %d", broker)
				next[broker]++
				fmt.Fprint(&out, broker)
			}
		})
		return out.String()
	}
	first := run()
	assert.NotEqual(t, strings.Repeat("012", 50), first)
	for range 5 {
		assert.Equal(t, first, run(), "D3: another run is another order")
	}
}

// N4, M3: a position in time picks where to start and filters nothing afterwards.
func TestSubscribeFromTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skew := time.Duration(0)
		topic := newTopic(t, memlog.Config{Now: func() time.Time { return time.Now().Add(skew) }})
		log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
		publish(t, log, events(1, 0)...)
		time.Sleep(time.Minute)
		from := time.Now()
		publish(t, log, events(1, 1)...)
		time.Sleep(time.Minute)
		skew = -time.Hour
		publish(t, log, events(1, 2)...)

		sub, err := log.Subscribe(t.Context(), metadata.Position{Time: from})
		require.NoError(t, err)
		publish(t, log, events(1, 3)...)
		assert.Equal(t, "1:1 1:2 1:3", read(t, sub))

		sub, err = log.Subscribe(t.Context(), metadata.Position{Time: time.Unix(0, 0)})
		require.NoError(t, err)
		assert.Equal(t, "1:0 1:1 1:2 1:3", read(t, sub))
	})
}

// M6, KAFKA-15632: events are dropped by age, the first ones of a broker too; a subscription that had not read them
// learns it and goes on.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{Retention: time.Hour})
		log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
		sub := subscribe(t, log)
		publish(t, log, events(1, 0, 1)...)
		time.Sleep(2 * time.Hour)
		publish(t, log, events(1, 2)...)
		assert.Len(t, topic.Events(), 1)
		assert.Equal(t, "gap1[-1,-1)missing 1:2", read(t, sub))
		publish(t, log, events(1, 3)...)
		assert.Equal(t, "1:3", read(t, sub))
	})
}

func TestContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{})
		gate := make(chan struct{})
		log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1, Faults: memlog.Faults{
			Publish:   func(memlog.PublishCall) memlog.PublishFault { return memlog.PublishFault{Wait: gate} },
			Subscribe: func(memlog.SubscribeCall) memlog.SubscribeFault { return memlog.SubscribeFault{Wait: gate} },
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := log.Publish(ctx, events(1, 0)...)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = log.Subscribe(ctx, metadata.Position{})
		assert.ErrorIs(t, err, context.DeadlineExceeded)

		close(gate)
		sub := subscribe(t, log)
		_, err = sub.Next(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		publish(t, log, events(1, 0)...)
		assert.Equal(t, "1:0", read(t, sub), "an ended context has cost the subscription an event")
	})
}

func TestSubscribeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("scripted")
		log := open(t, newTopic(t, memlog.Config{}), memlog.Options{Faults: memlog.Faults{
			Subscribe: func(call memlog.SubscribeCall) memlog.SubscribeFault {
				if call.Number == 0 {
					return memlog.SubscribeFault{Err: broken, Delay: time.Second}
				}
				return memlog.SubscribeFault{}
			},
		}})
		_, err := log.Subscribe(t.Context(), metadata.Position{})
		assert.ErrorIs(t, err, broken)
		assert.NoError(t, subscribe(t, log).Close())
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topic := newTopic(t, memlog.Config{})
		log := open(t, topic, memlog.Options{Broker: 1, BrokerEpoch: 1})
		other := open(t, topic, memlog.Options{Broker: 2, BrokerEpoch: 1})
		ends := make(chan error, 3)
		one, two := subscribe(t, log), subscribe(t, log)
		for _, sub := range []metadata.Subscription{one, two} {
			go func() {
				_, err := sub.Next(context.Background())
				ends <- err
			}()
		}
		log.SetFaults(memlog.Faults{Publish: func(memlog.PublishCall) memlog.PublishFault {
			return memlog.PublishFault{Delay: time.Hour}
		}})
		go func() {
			_, err := log.Publish(context.Background(), events(1, 0)...)
			ends <- err
		}()
		synctest.Wait()

		require.NoError(t, one.Close())
		require.NoError(t, one.Close())
		assert.ErrorIs(t, <-ends, metadata.ErrClosed)
		require.NoError(t, log.Close())
		require.NoError(t, log.Close())
		assert.ErrorIs(t, <-ends, metadata.ErrClosed)
		assert.ErrorIs(t, <-ends, metadata.ErrClosed)

		_, err := log.Publish(t.Context(), events(1, 0)...)
		assert.ErrorIs(t, err, metadata.ErrClosed)
		_, err = log.Publish(t.Context())
		assert.ErrorIs(t, err, metadata.ErrClosed)
		_, err = log.Subscribe(t.Context(), metadata.Position{})
		assert.ErrorIs(t, err, metadata.ErrClosed)
		publish(t, other, events(2, 0)...)
		assert.Len(t, topic.Events(), 1, "closing one handle has closed the topic")
	})
}

func TestConfigNamesTheField(t *testing.T) {
	type config = memlog.Config
	t.Run("topic", func(t *testing.T) {
		configtest.Run(t, configtest.Table[config]{
			Open: func(_ testing.TB, c config) error {
				_, err := memlog.New(c)
				return err
			},
			Wrong: map[string][]func(*config){"Retention": {func(c *config) { c.Retention = -1 }}},
			Any:   map[string]string{"Now": "nil is time.Now"},
		})
	})
	type options = memlog.Options
	t.Run("log", func(t *testing.T) {
		configtest.Run(t, configtest.Table[options]{
			Open: func(_ testing.TB, o options) error {
				topic, err := memlog.New(memlog.Config{})
				require.NoError(t, err)
				log, err := topic.Open(o)
				if err != nil {
					return err
				}
				return log.Close()
			},
			Wrong: map[string][]func(*options){
				"Broker":       {func(o *options) { o.Broker = -1 }},
				"BrokerEpoch":  {func(o *options) { o.BrokerEpoch = -1 }},
				"EventVersion": {func(o *options) { o.EventVersion = -1 }, func(o *options) { o.EventVersion = metadata.LatestVersion + 1 }},
			},
			Any: map[string]string{
				"Faults": "they are a script",
				"Hooks":  "every one of them may be nil",
			},
		})
	})
}
