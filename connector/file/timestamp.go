package file

import (
	"strings"
	"time"

	"cutwater/stream/row"
)

// timeLayout parses timestamps of one layout. Layouts of fixed-width numbers,
// such as "2006/01/02 15:04", and RFC 3339 take a short way; whatever that does
// not understand goes to package time, so the result is the same, only later.
type timeLayout struct {
	layout string
	// elements is the layout in order; empty if it has no short way.
	elements []timeElement
	// width is the length of the elements in all.
	width int
	// rfc3339 allows a fraction and requires a zone behind the elements.
	rfc3339 bool
}

// timeElement is a number of fixed width, or a literal byte.
type timeElement struct {
	unit    timeUnit
	width   uint8
	literal byte
}

type timeUnit uint8

const (
	literal timeUnit = iota
	year
	month
	day
	hour
	minute
	second
	units
)

// numbers are the elements of fixed width that package time knows.
var numbers = []struct {
	text string
	unit timeUnit
}{{"2006", year}, {"01", month}, {"02", day}, {"15", hour}, {"04", minute}, {"05", second}}

// newTimeLayout compiles a layout of package time; empty means RFC 3339.
func newTimeLayout(layout string) *timeLayout {
	l := &timeLayout{layout: layout}
	rest := layout
	switch layout {
	case "", time.RFC3339, time.RFC3339Nano:
		l.layout, l.rfc3339 = time.RFC3339, true
		rest = "2006-01-02T15:04:05"
	}
	var elements []timeElement
	seen := [units]bool{}
	for rest != "" {
		e, n := nextElement(rest)
		if n == 0 || e.unit != literal && seen[e.unit] {
			return l
		}
		seen[e.unit] = true
		elements = append(elements, e)
		l.width += n
		rest = rest[n:]
	}
	if seen[year] && seen[month] && seen[day] {
		l.elements = elements
	}
	return l
}

// nextElement is the first element of a layout and its length, or 0 if it is not
// one of the simple ones.
func nextElement(layout string) (timeElement, int) {
	for _, n := range numbers {
		if strings.HasPrefix(layout, n.text) {
			return timeElement{unit: n.unit, width: uint8(len(n.text))}, len(n.text)
		}
	}
	c := layout[0]
	if c == 'T' || strings.IndexByte("-/: ", c) >= 0 {
		return timeElement{width: 1, literal: c}, 1
	}
	return timeElement{}, 0
}

// parse returns milliseconds since 1970, rounded down. A time without a zone is
// in UTC. One that could not be written again, see row.ValidMs, is refused.
func (l *timeLayout) parse(b []byte) (int64, bool) {
	ms, ok := l.read(b)
	return ms, ok && row.ValidMs(ms)
}

// read is parse for any year.
func (l *timeLayout) read(b []byte) (int64, bool) {
	if len(l.elements) > 0 {
		if ms, ok := l.fast(b); ok {
			return ms, true
		}
	}
	t, err := time.Parse(l.layout, string(b))
	if err != nil {
		return 0, false
	}
	return t.UnixMilli(), true
}

func (l *timeLayout) fast(b []byte) (int64, bool) {
	var v [units]int
	if len(b) < l.width {
		return 0, false
	}
	at := 0
	for _, e := range l.elements {
		switch e.width {
		case 1:
			if b[at] != e.literal {
				return 0, false
			}
		case 2:
			tens, ones := b[at]-'0', b[at+1]-'0'
			if tens > 9 || ones > 9 {
				return 0, false
			}
			v[e.unit] = int(tens)*10 + int(ones)
		default:
			y, ok := parseInt(b[at : at+4])
			if !ok || b[at] == '-' || b[at] == '+' {
				return 0, false
			}
			v[e.unit] = int(y)
		}
		at += int(e.width)
	}
	b = b[at:]
	if v[month] < 1 || v[month] > 12 || v[day] < 1 || v[day] > daysIn(v[year], v[month]) ||
		v[hour] > 23 || v[minute] > 59 || v[second] > 59 {
		return 0, false
	}
	ms := (((daysSince1970(v[year], v[month], v[day])*24+int64(v[hour]))*60+int64(v[minute]))*60 + int64(v[second])) * 1000
	if l.rfc3339 {
		extra, ok := fractionAndZone(b)
		return ms + extra, ok
	}
	return ms, len(b) == 0
}

// fractionAndZone parses the end of an RFC 3339 time: what it adds in ms.
func fractionAndZone(b []byte) (int64, bool) {
	var ms int64
	if len(b) > 1 && b[0] == '.' {
		scale, i := int64(100), 1
		for ; i < len(b) && b[i]-'0' <= 9; i++ {
			ms += int64(b[i]-'0') * scale
			scale /= 10
		}
		if i == 1 || i > 10 {
			return 0, false
		}
		b = b[i:]
	}
	return ms, len(b) == 1 && b[0] == 'Z' // other zones: package time
}

var monthDays = [13]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func daysIn(year, month int) int {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return monthDays[month]
}

// daysSince1970 counts days of the Gregorian calendar; years start in March, so
// that the leap day is the last.
func daysSince1970(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	year += 400 // the year before year 0 would be negative
	// Between 400 years before 0000-03-01 and 1970-01-01 lie 865565 days.
	return int64(365*year+year/4-year/100+year/400+(153*(month-3)+2)/5+day-1) - 865565
}
