package file

import (
	"strings"
	"time"
)

// timeLayout parses timestamps of one layout. Layouts of fixed-width numbers,
// such as "2006/01/02 15:04", and RFC 3339 take a short way; whatever that does
// not understand goes to package time, so the result is the same, only later.
type timeLayout struct {
	layout string
	// elements is the layout in order; empty if it has no short way.
	elements []timeElement
	// rfc3339 allows a fraction and requires a zone behind the elements.
	rfc3339 bool
}

// timeElement is a number of fixed width, or a literal byte.
type timeElement struct {
	unit    timeUnit
	width   int
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
			return timeElement{unit: n.unit, width: len(n.text)}, len(n.text)
		}
	}
	c := layout[0]
	if c == 'T' || strings.IndexByte("-/: ", c) >= 0 {
		return timeElement{literal: c}, 1
	}
	return timeElement{}, 0
}

// parse returns milliseconds since 1970, rounded down. A time without a zone is
// in UTC.
func (l *timeLayout) parse(b []byte) (int64, bool) {
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
	v[month], v[day] = 1, 1
	for i := range l.elements {
		e := &l.elements[i]
		if e.unit == literal {
			if len(b) == 0 || b[0] != e.literal {
				return 0, false
			}
			b = b[1:]
			continue
		}
		if len(b) < e.width {
			return 0, false
		}
		n := 0
		for _, d := range b[:e.width] {
			d -= '0'
			if d > 9 {
				return 0, false
			}
			n = n*10 + int(d)
		}
		v[e.unit] = n
		b = b[e.width:]
	}
	if v[month]-1 > 11 || v[month] < 1 || v[day] < 1 || v[day] > daysIn(v[year], v[month]) ||
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
	// 719468 days lie between 0000-03-01 and 1970-01-01.
	return int64(365*year+floorDiv(year, 4)-floorDiv(year, 100)+floorDiv(year, 400)+(153*(month-3)+2)/5+day-1) - 719468
}

// floorDiv divides, rounding down: the year before year 0 is -1.
func floorDiv(a, b int) int {
	if a < 0 {
		return -1
	}
	return a / b
}
