package bench

import (
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"cutwater/protocol/keygroup"
	"cutwater/state"
	"cutwater/state/heap"
)

// BenchmarkSeal is what a full snapshot of 1e6 keys costs the task: the seal, and
// in the second after it, while the snapshot is written, the slowest block of 100
// updates, most of which meet a chunk that has to be copied. A block's processor
// time is what the task did, its wall time includes what the machine did to it. The
// first snapshot copies into memory that is new, the later ones into what it left.
func BenchmarkSeal(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	backend := heap.New(heap.Options{MaxParallelism: 128, FirstGroup: 0, LastGroup: 127})
	defer backend.Close()
	table, err := backend.Table(state.Descriptor{Name: "counts", Kind: state.ValueKind, KeyWidth: 8, ValueWidth: 16, Schema: "uint64 -> counts"})
	if err != nil {
		b.Fatal(err)
	}
	key := make([]byte, 8)
	update := func(k uint64) {
		binary.LittleEndian.PutUint64(key, k)
		v, _ := table.Update(keygroup.Hash(key), key, 0)
		binary.LittleEndian.PutUint64(v, binary.LittleEndian.Uint64(v)+1)
	}
	for k := range uint64(keys) {
		update(k)
	}
	var seals, walls []time.Duration
	var worst [2]time.Duration // block of the first interval, and of the others
	n := uint64(0)
	for checkpoint := range uint64(10) {
		start := time.Now()
		sealed, err := backend.Seal(checkpoint+1, state.SealOptions{})
		if err != nil {
			b.Fatal(err)
		}
		seals = append(seals, time.Since(start))
		written := make(chan error, 1)
		go func() {
			_, err := sealed.Write(b.Context(), io.Discard)
			sealed.Release()
			written <- err
		}()
		for time.Since(start) < time.Second {
			wall, cpu := time.Now(), threadTime()
			for range 100 {
				n++
				update(mix(n) % keys)
			}
			of := &worst[min(checkpoint, 1)]
			*of = max(*of, threadTime()-cpu)
			walls = append(walls, time.Since(wall))
		}
		if err := <-written; err != nil {
			b.Fatal(err)
		}
		backend.Abort(checkpoint + 1)
	}
	slices.Sort(seals)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(us(seals[len(seals)/2]), "us/seal")
	b.ReportMetric(us(seals[len(seals)-1]), "us/seal-worst")
	b.ReportMetric(us(worst[0]), "cpu-us/worst-block-first")
	b.ReportMetric(us(worst[1]), "cpu-us/worst-block-later")
	b.ReportMetric(us(slices.Max(walls)), "wall-us/worst-block")
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
