package state

import (
	"io"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"cutwater/protocol/keygroup"
)

// What was dropped comes back in order, however pushes and pops alternate.
func TestDropsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q drops
		pushed, popped := uint64(0), uint64(0)
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			for range rapid.IntRange(0, 300).Draw(t, "pushes") {
				q.push(dropped{page: pushed})
				pushed++
			}
			for range rapid.IntRange(0, 300).Draw(t, "pops") {
				d := q.first()
				if d == nil {
					break
				}
				if d.page != popped {
					t.Fatalf("%d came out, want %d", d.page, popped)
				}
				q.pop()
				popped++
			}
			if (q.first() == nil) != (pushed == popped) {
				t.Fatalf("first is %v after %d pushes and %d pops", q.first(), pushed, popped)
			}
		}
	})
}

// From the second checkpoint on, what its changes have to copy goes where the
// first one's was: chunks and directory are not allocated again.
func TestCopiesAreMadeInSpares(t *testing.T) {
	b, table := counters(t)
	const keys = 50_000
	var key []byte
	change := func() {
		for k := range int64(keys) {
			key = keygroup.AppendInt(key[:0], k)
			table.Update(keygroup.Hash(key), key, 0)
		}
	}
	change()
	interval := func(checkpoint uint64) (allocated uint64) {
		var before, after runtime.MemStats
		sealed, err := b.Seal(checkpoint, SealOptions{})
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&before)
		change()
		runtime.ReadMemStats(&after)
		sealed.Release()
		b.Abort(checkpoint)
		return after.TotalAlloc - before.TotalAlloc
	}
	first := interval(1)
	if table.copied == 0 {
		t.Fatal("the changes copied nothing: the test shows nothing")
	}
	for checkpoint := uint64(2); checkpoint <= 4; checkpoint++ {
		if again := interval(checkpoint); again > first/500 {
			t.Errorf("checkpoint %d: changes allocated %d bytes, in the first %d", checkpoint, again, first)
		}
	}
}

// What the first seal has the task copy goes where its writer made room.
func TestFirstCopiesAreMadeInStock(t *testing.T) {
	b, table := counters(t)
	var key []byte
	change := func(keys int64) {
		for k := range keys {
			key = keygroup.AppendInt(key[:0], k)
			table.Update(keygroup.Hash(key), key, 0)
		}
	}
	change(200_000)
	var seals [2]*Sealed // the first stays live, so that there is something to copy
	for i := range seals {
		var err error
		if seals[i], err = b.Seal(uint64(i+1), SealOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	defer seals[0].Release()
	if _, err := seals[1].Write(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	change(1) // the first change copies the directory
	var before, after runtime.MemStats
	copied := table.copied
	runtime.ReadMemStats(&before)
	change(stockChunks / 2)
	runtime.ReadMemStats(&after)
	if copied = table.copied - copied; copied < stockChunks/4 {
		t.Fatalf("the changes copied %d chunks: the test shows nothing", copied)
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(copied); each > 512 {
		t.Errorf("a copy allocated %d bytes although the writer had made room", each)
	}
}

// A task that ends gives its snapshots up while they are being written (run with -race).
func TestReleaseDuringWrite(t *testing.T) {
	b, table := counters(t)
	for k := range int64(1000) {
		key := keygroup.AppendInt(nil, k)
		table.Update(keygroup.Hash(key), key, 0)
	}
	sealed, err := b.Seal(1, SealOptions{})
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := sealed.Write(t.Context(), io.Discard)
		written <- err
	}()
	sealed.Release()
	if err := <-written; err != nil {
		t.Error(err)
	}
	if b.sealed() {
		t.Error("the seal is live still")
	}
}
