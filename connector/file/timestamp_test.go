package file

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cutwater/stream/row"
)

// Whatever the layout and the text, a timestamp is what package time makes of it.
func TestTimestampsEqualPackageTime(t *testing.T) {
	layouts := []string{"2006/01/02 15:04", "2006-01-02", "02-01-2006 15:04:05", "20060102T150405", "2006-01-02 15", time.RFC3339, "",
		time.RFC3339Nano, time.RFC1123, "Jan _2 2006", "2006-01-02 15:04:05.000", "1/2/06", "2006-01-02T15:04:05Z07:00", "15:04"}
	r := rand.New(rand.NewPCG(1, 2))
	for _, layout := range layouts {
		l := newTimeLayout(layout)
		as := layout
		if as == "" {
			as = time.RFC3339
		}
		for range 3000 {
			at := time.Unix(r.Int64N(400_000_000_000)-70_000_000_000, r.Int64N(1e9)).UTC()
			if r.IntN(4) == 0 {
				at = at.In(time.FixedZone("", (r.IntN(24*60)-12*60)*60))
			}
			text := []byte(at.Format(as))
			switch r.IntN(4) {
			case 0: // damaged
				text[r.IntN(len(text))] = "0129 -+Z.x"[r.IntN(10)]
			case 1:
				text = append(text, ".5Z0 "[r.IntN(5)])
			}
			want, err := time.Parse(as, string(text))
			got, ok := l.parse(text)
			if ok != (err == nil && row.ValidMs(want.UnixMilli())) || ok && got != want.UnixMilli() {
				t.Fatalf("layout %q, text %q: %d, %v; want %d, %v", layout, text, got, ok, want.UnixMilli(), err)
			}
		}
	}
}

// The years 1 to 9999 are all there is, in UTC, whatever the zone of the text; what
// lies outside is malformed, and the sentence says why.
func TestTimestampYears(t *testing.T) {
	c := newColumn(&row.Schema{Fields: []row.Field{{Name: "at", Kind: row.Timestamp}}}, 0)
	for text, good := range map[string]bool{
		"0001-01-01T00:00:00Z":          true,
		"0000-12-31T23:59:59Z":          false,
		"0001-01-01T00:00:00+00:01":     false,
		"0000-12-31T23:59:59-01:00":     true,
		"9999-12-31T23:59:59.999Z":      true,
		"9999-12-31T23:59:59.999-00:01": false,
	} {
		if _, ok := c.scalar([]byte(text)); ok != good {
			t.Errorf("%s: accepted %t", text, ok)
		}
		if want := "is not in the years 1 to 9999"; !good && !strings.Contains(c.mismatch([]byte(text)), want) {
			t.Errorf("%s: %s", text, c.mismatch([]byte(text)))
		}
	}
}
