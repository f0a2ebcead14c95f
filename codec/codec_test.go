package codec_test

import (
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cutwater/codec"
	"cutwater/messages"
)

type inner struct {
	On   bool
	Code [3]uint16
}

type mixed struct {
	ID    int64
	Small int8
	Name  string
	In    inner
	Rate  float32
	Raw   []byte
	Last  string
}

type plain struct {
	A, B int64
	C    float64
}

// roundTrip encodes the values side by side, as a batch does, and decodes them.
func roundTrip[T any](t interface{ Fatal(...any) }, c codec.Codec[T], values []T) []T {
	var text []byte
	fixed := make([]byte, c.Width()*len(values))
	for i, v := range values {
		text = c.Encode(fixed[i*c.Width():(i+1)*c.Width()], text, v)
	}
	got := make([]T, len(values))
	region := string(text)
	for i := range got {
		if err := c.Decode(fixed[i*c.Width():(i+1)*c.Width()], region, &got[i]); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// Structs with padding, text, arrays and nested structs come back as they were.
func TestStructRoundTrip(t *testing.T) {
	c := codec.Must(codec.Of[mixed]())
	if want := "struct{ID int64; Small int8; Name string; In struct{On bool; Code [3]uint16}; Rate float32; Raw bytes; Last string}"; c.Schema() != want {
		t.Errorf("schema %s", c.Schema())
	}
	if !codec.HasText(c) || codec.HasText(codec.Must(codec.Of[plain]())) || codec.HasText(codec.Int64()) || !codec.HasText(codec.String()) {
		t.Error("HasText is wrong")
	}
	rapid.Check(t, func(r *rapid.T) {
		var values []mixed
		for range rapid.IntRange(0, 5).Draw(r, "n") {
			v := mixed{ID: rapid.Int64().Draw(r, "id"), Small: rapid.Int8().Draw(r, "small"), Name: rapid.String().Draw(r, "name"),
				In: inner{On: rapid.Bool().Draw(r, "on"), Code: [3]uint16{1, rapid.Uint16().Draw(r, "code"), 3}}, Rate: rapid.Float32().Draw(r, "rate"), Last: rapid.String().Draw(r, "last")}
			if rapid.Bool().Draw(r, "raw") {
				v.Raw = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(r, "bytes")...)
			}
			values = append(values, v)
		}
		got := roundTrip(r, c, values)
		for i := range values {
			if !reflect.DeepEqual(got[i], values[i]) {
				r.Fatalf("got %#v, want %#v", got[i], values[i])
			}
		}
	})
}

// Every codec of a basic type, JSON and Proto keeps its values, extremes too.
func TestBasicRoundTrip(t *testing.T) {
	same(t, []int64{0, -1, math.MinInt64})
	same(t, []uint64{0, math.MaxUint64})
	same(t, []float64{0, math.Inf(-1), math.SmallestNonzeroFloat64})
	same(t, []bool{true, false})
	same(t, []string{"", "a", "é"})
	same(t, [][]byte{nil, {}, {0, 1}})
	same(t, []plain{{1, 2, 3}, {}})
	type tree struct {
		Name string
		Kids []tree
	}
	trees := []tree{{"a", []tree{{"b", nil}}}, {}}
	if got := roundTrip(t, codec.JSON[tree](), trees); !reflect.DeepEqual(got, trees) {
		t.Errorf("JSON: %v", got)
	}
	for name, c := range map[string]codec.Codec[*messages.Split]{"Proto": codec.Proto[*messages.Split](), "Of": codec.Must(codec.Of[*messages.Split]())} {
		s := &messages.Split{Id: "x", Ordinal: 7}
		if got := roundTrip(t, c, []*messages.Split{s}); !proto.Equal(got[0], s) || c.Schema() != "proto(cutwater.Split)" {
			t.Errorf("%s: %v %s", name, got, c.Schema())
		}
	}
}

func same[T any](t *testing.T, values []T) {
	t.Helper()
	if got := roundTrip(t, codec.Must(codec.Of[T]()), values); !reflect.DeepEqual(got, values) {
		t.Errorf("got %#v, want %#v", got, values)
	}
}

// Bytes of another codec are an error, not a panic.
func TestDecodeRefusesForeignBytes(t *testing.T) {
	var s string
	if err := codec.String().Decode([]byte{1, 0, 0, 0, 9, 0, 0, 0}, "short", &s); !errors.Is(err, codec.ErrDecode) {
		t.Errorf("text out of range: %v", err)
	}
	var b bool
	if err := codec.Bool().Decode([]byte{2}, "", &b); !errors.Is(err, codec.ErrDecode) {
		t.Errorf("bool of 2: %v", err)
	}
	var p struct{ On bool }
	if err := codec.Must(codec.Of[struct{ On bool }]()).Decode([]byte{7}, "", &p); !errors.Is(err, codec.ErrDecode) {
		t.Errorf("bool of 7 in a struct: %v", err)
	}
}

// A type without a fixed encoding is refused with the path of its field.
func TestUnsupportedTypes(t *testing.T) {
	type bad struct{ In struct{ Tags []string } }
	if _, err := codec.Of[bad](); err == nil || !strings.Contains(err.Error(), "bad.In.Tags is a []string") {
		t.Errorf("got %v", err)
	}
	type timed struct{ At time.Time }
	if _, err := codec.Of[timed](); err == nil || !strings.Contains(err.Error(), "timed.At is a time.Time, which has no fixed encoding: keep Unix milliseconds") {
		t.Errorf("got %v", err)
	}
	if _, err := codec.KeyOf[timed](); err == nil || !strings.Contains(err.Error(), "timed.At is a time.Time, which cannot be a key") {
		t.Errorf("key: got %v", err)
	}
	if _, err := codec.KeyOf[bad](); err == nil || !strings.Contains(err.Error(), "bad.In.Tags") {
		t.Errorf("key: got %v", err)
	}
}

// The canonical bytes of keys never change: golden vectors.
func TestKeyVectors(t *testing.T) {
	type pair struct {
		Name string
		N    int32
		On   bool
	}
	vector(t, int64(-2), "feffffffffffffff")
	vector(t, int8(-2), "feffffffffffffff")
	vector(t, uint16(258), "0201000000000000")
	vector(t, 0.0, "0000000000000000")
	vector(t, math.Copysign(0, -1), "0000000000000000")
	vector(t, math.NaN(), "010000000000f87f")
	vector(t, math.Float64frombits(0xFFF8000000000123), "010000000000f87f")
	vector(t, float32(1.5), "000000000000f83f")
	vector(t, true, "01")
	vector(t, "", "")
	vector(t, "DTW", "445457")
	vector(t, pair{"DTW", 1, true}, "03445457"+"0100000000000000"+"01")
	vector(t, [2]string{"a", "bc"}, "0161"+"026263")
}

func vector[K any](t *testing.T, k K, want string) {
	t.Helper()
	c := codec.Must(codec.KeyOf[K]())
	b := c.AppendKey(nil, k)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%v: got %s, want %s", k, got, want)
	}
	if w := c.Width(); w != 0 && w != len(b) {
		t.Errorf("%v: width %d, %d bytes", k, w, len(b))
	}
	var back K
	if err := c.DecodeKey(b, &back); err != nil {
		t.Error(err)
	}
	if again := c.AppendKey(nil, back); hex.EncodeToString(again) != want {
		t.Errorf("%v came back as %v", k, back)
	}
	if len(b) > 0 && c.DecodeKey(b[:len(b)-1], &back) == nil && c.Schema() != "string" {
		t.Errorf("%v: a key cut short was accepted", k)
	}
	if c.DecodeKey(append(b, 0), &back) == nil && c.Schema() != "string" {
		t.Errorf("%v: a key with a byte too many was accepted", k)
	}
}

// At reads and writes what Encode and Decode do, for exactly the codecs that say
// so: text, bools (which have forbidden bytes) and padding exclude it.
func TestInPlace(t *testing.T) {
	type pair struct {
		A uint64
		B [2]float32
	}
	c := codec.Must(codec.Struct[pair]())
	if !codec.InPlace(c) || !codec.InPlace(codec.Int64()) || !codec.InPlace(codec.Float64()) {
		t.Fatal("numbers without padding are not in place")
	}
	v := pair{1 << 60, [2]float32{1.5, -2}}
	fixed := make([]byte, c.Width()+1)[1:] // of no alignment
	c.Encode(fixed, nil, v)
	if got := *codec.At[pair](fixed); got != v {
		t.Errorf("At reads %v, want %v", got, v)
	}
	codec.At[pair](fixed).A = 7
	var got pair
	if err := c.Decode(fixed, "", &got); err != nil || got.A != 7 || got.B != v.B {
		t.Errorf("Decode reads %v, %v", got, err)
	}
	if codec.InPlace(codec.Must(codec.Struct[struct {
		A uint8
		B uint64
	}]())) {
		t.Error("a struct with padding is in place")
	}
	if codec.InPlace(codec.Must(codec.Struct[struct{ A, B bool }]())) || codec.InPlace(codec.Bool()) {
		t.Error("bools are in place")
	}
	if codec.InPlace(codec.Must(codec.Struct[struct{ S string }]())) || codec.InPlace(codec.String()) {
		t.Error("strings are in place")
	}
}
