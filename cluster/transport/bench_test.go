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
	// window is how many batches are on their way, as by the credits of eight channels.
	window = 64
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
	b.Run("plain", func(b *testing.B) { exchange(b, func(*Options) {}) })
	b.Run("tls", func(b *testing.B) { exchange(b, withSecret(b)) })
}

func exchange(b *testing.B, change func(*Options)) {
	c := newCluster(b)
	var pool pool
	credits, pongs := make(chan struct{}, window), make(chan time.Time, 1)
	var sender, receiver *node
	with := func(deliver func(protocol.Address, proto.Message)) func(*Options) {
		return func(o *Options) {
			o.Release, o.Batch, o.Deliver = pool.release, pool.get, deliver
			change(o)
		}
	}
	sender = c.open(nodeA, Location{}, with(func(_ protocol.Address, m proto.Message) {
		switch m := m.(type) {
		case *messages.Credit:
			for range m.Messages {
				credits <- struct{}{}
			}
		case *messages.Heartbeat:
			pongs <- time.Now()
		}
	}))
	arrived := uint32(0)
	receiver = c.open(nodeB, Location{}, with(func(_ protocol.Address, m proto.Message) {
		switch m := m.(type) {
		case *messages.RecordBatch:
			pool.release(m)
			if arrived++; arrived%4 == 0 {
				receiver.Send(to(nodeB), to(nodeA), &messages.Credit{Messages: 4})
			}
		case *messages.Heartbeat:
			receiver.Send(to(nodeB), to(nodeA), m)
		}
	}))
	for range window {
		credits <- struct{}{}
	}
	var roundTrips []time.Duration
	var began time.Time
	ping := func() { began = time.Now(); sender.Send(to(nodeA), to(nodeB), heartbeat(0)) }
	pong := func(at time.Time) { roundTrips = append(roundTrips, at.Sub(began)) }
	ping() // connects
	<-pongs
	waiting := false
	before := cpu(b)
	b.ResetTimer()
	for i := range b.N {
		<-credits
		select {
		case at := <-pongs:
			pong(at)
			waiting = false
		default:
		}
		if i%pingEvery == 0 && !waiting {
			waiting = true
			ping()
		}
		m := pool.get(0)
		m.Seq, m.Count, m.FixedWidth = uint64(i), recordsPerBatch, recordBytes
		if cap(m.Data) < recordsPerBatch*recordBytes {
			m.Data = make([]byte, recordsPerBatch*recordBytes)
		}
		m.Data = m.Data[:recordsPerBatch*recordBytes]
		sender.Send(to(nodeA), to(nodeB), m)
	}
	for range window / 4 * 4 {
		if b.N%4 != 0 {
			break // the last credits come with the next four batches
		}
		<-credits
	}
	b.StopTimer()
	records := float64(b.N) * recordsPerBatch
	b.ReportMetric(records/b.Elapsed().Seconds()/1e6, "Mrecords/s")
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/records, "cpu-ns/record")
	if waiting {
		pong(<-pongs)
	}
	if len(roundTrips) > 0 {
		slices.Sort(roundTrips)
		b.ReportMetric(float64(roundTrips[len(roundTrips)/2].Microseconds()), "control-p50-us")
		b.ReportMetric(float64(roundTrips[len(roundTrips)*99/100].Microseconds()), "control-p99-us")
	}
	sender.noLoss()
	receiver.noLoss()
}

// cpu is the time that all threads of this process have used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
