package segment

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

func sample(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{MaxParallelism: 2, LastGroup: 1, States: []State{
		{Name: "a", Kind: 1, KeyWidth: 1, ValueWidth: 1, Schema: "s"}, {Name: "b", Kind: 2, Namespaced: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Entry{
		{State: 0, Hash: 1, Key: []byte("k"), Value: []byte("v")},
		{State: 1, Hash: 1, Key: []byte("key"), Namespace: -1, Value: []byte("value")},
		{State: 0, Hash: 1 << 63, Key: []byte("x"), Delete: true},
	} {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := w.Close(); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	return b.Bytes()
}

func readAll(b []byte) (n int, err error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	return count(r)
}

// What version 1 wrote never changes.
func TestGolden(t *testing.T) {
	got := hex.EncodeToString(sample(t))
	if got != golden {
		t.Errorf("the file is\n%s, want\n%s", got, golden)
	}
	if n, err := readAll(sample(t)); n != 3 || err != nil {
		t.Errorf("read %d entries: %v", n, err)
	}
}

// A file of a later version is told from a damaged one.
func TestNewerFormat(t *testing.T) {
	b := sample(t)
	b[len(magic)] = Version + 1
	if _, err := readAll(b); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("got %v", err)
	}
}

const golden = "43575345470d0a1a010000002b000000020000000000000001000000020000000100010000000100000001610173020100000000000000000162008c7c9bea0100000000000000000b0000000101000000000000006b76de2b15860100000000010000001b000000010100000000000000ffffffffffffffff036b65790576616c7565f46362010101000000000000000a00000002000000000000008078b73debfe02000000000000000038000000000000003f00000000000000480000000000000002000000000000000100000087000000000000001b0000000000000001000000000000006551e697a20000000000000003000000000000000864bde543575345470d0a1a"
