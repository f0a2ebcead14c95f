package transport

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

const (
	recordBytes     = 100
	recordsPerBatch = (32 << 10) / recordBytes
	// window is how many batches are on their way, as by the credits of eight channels,
	// and creditEvery how many a credit stands for.
	window, creditEvery = 64, 4
	// pingEvery is how many batches lie between two messages of the control lane.
	pingEvery = 50
)

// pool is like that of the tasks.
type pool struct{ batches sync.Pool }

func (p *pool) get(int) *messages.RecordBatch {
	if b, ok := p.batches.Get().(*messages.RecordBatch); ok {
		return b
	}
	return &messages.RecordBatch{}
}

func (p *pool) release(b *messages.RecordBatch) { p.batches.Put(b) }

// BenchmarkExchange sends batches from one node to another one in the same process,
// against credits, while a message of the control lane goes back and forth.
func BenchmarkExchange(b *testing.B) {
	for name, change := range map[string]func(*Options){"plain": func(*Options) {}, "tls": withSecret(b)} {
		b.Run(name, func(b *testing.B) {
			c := newCluster(b)
			s := newSource(c, change)
			var n *node
			n = c.open(nodeB, Location{}, func(o *Options) {
				answer(o, func(from, to protocol.Address, m proto.Message) { n.Send(from, to, m) })
				change(o)
			})
			s.exchange(b)
			n.noLoss()
		})
	}
}

// answer makes a node take in batches and give credit for them, and return messages of
// the control lane.
func answer(o *Options, send func(from, to protocol.Address, m proto.Message)) {
	var pool pool
	arrived := 0
	o.Release, o.Batch = pool.release, pool.get
	o.Deliver = func(_ protocol.Address, m proto.Message) {
		switch m := m.(type) {
		case *messages.RecordBatch:
			pool.release(m)
			if arrived++; arrived%creditEvery == 0 {
				send(to(nodeB), to(nodeA), &messages.Credit{Messages: creditEvery})
			}
		case *messages.Heartbeat:
			send(to(nodeB), to(nodeA), m)
		}
	}
}

// source is a node that sends batches for which it has credit.
type source struct {
	*node
	pool    pool
	credits chan struct{}
	pongs   chan time.Time
}

func newSource(c *cluster, change func(*Options)) *source {
	s := &source{credits: make(chan struct{}, window), pongs: make(chan time.Time, 1)}
	for range window {
		s.credits <- struct{}{}
	}
	s.node = c.open(nodeA, Location{}, func(o *Options) {
		o.Release, o.Batch = s.pool.release, s.pool.get
		o.Deliver = func(_ protocol.Address, m proto.Message) {
			switch m := m.(type) {
			case *messages.Credit:
				for range m.Messages {
					s.credits <- struct{}{}
				}
			case *messages.Heartbeat:
				s.pongs <- time.Now()
			}
		}
		change(o)
	})
	return s
}

// exchange sends b.N batches and reports how fast that was, and what this process used
// for it.
func (s *source) exchange(b *testing.B) {
	var roundTrips []time.Duration
	var began time.Time
	ping := func() { began = time.Now(); s.Send(to(nodeA), to(nodeB), heartbeat(0)) }
	ping() // connects
	<-s.pongs
	waiting := false
	before := cpu(b)
	b.ResetTimer()
	for i := range (b.N + creditEvery - 1) / creditEvery * creditEvery {
		<-s.credits
		select {
		case at := <-s.pongs:
			roundTrips = append(roundTrips, at.Sub(began))
			waiting = false
		default:
		}
		if i%pingEvery == 0 && !waiting {
			waiting = true
			ping()
		}
		m := s.pool.get(0)
		m.Seq, m.Count, m.FixedWidth = uint64(i), recordsPerBatch, recordBytes
		m.Data = slices.Grow(m.Data[:0], recordsPerBatch*recordBytes)[:recordsPerBatch*recordBytes]
		s.Send(to(nodeA), to(nodeB), m)
	}
	for range window { // the last batch has arrived when all credit is back
		<-s.credits
	}
	b.StopTimer()
	records := float64(b.N) * recordsPerBatch
	b.ReportMetric(records/b.Elapsed().Seconds()/1e6, "Mrecords/s")
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/records, "cpu-ns/record")
	if waiting {
		roundTrips = append(roundTrips, (<-s.pongs).Sub(began))
	}
	if len(roundTrips) > 0 {
		slices.Sort(roundTrips)
		b.ReportMetric(float64(roundTrips[len(roundTrips)/2].Microseconds()), "control-p50-us")
		b.ReportMetric(float64(roundTrips[len(roundTrips)*99/100].Microseconds()), "control-p99-us")
	}
	s.noLoss()
}

// cpu is the time of the processors that this process has taken.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
