package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"cutwater/stream"
)

// chunkSize is how much a split reader reads from its file at once; inside a
// long record the chunks grow with it, up to maxChunkSize.
const (
	chunkSize    = 64 << 10
	maxChunkSize = 1 << 20
)

// errChanged says that a file is not the one that was discovered.
var errChanged = stream.NoRestart(errors.New("file has changed since its splits were discovered; restore the original, or start a new job to read the new one"))

// framer cuts a byte range of a file into records. The range starts at the start
// of a record. The caller alternates find and, when find has not enough bytes,
// fill; so it decides how much is read in one turn.
type framer struct {
	file      io.ReaderAt
	path      string
	end       int64 // offset in the file where the range ends
	chunk     int
	maxRecord int
	// delimiter of CSV fields; 0 means that quotes have no meaning.
	delimiter byte

	buf  []byte
	base int64 // offset in the file of buf[0]
	// Records before head are done. The current record starts there and has been
	// searched up to scan, which is inside a quoted field if inQuotes.
	head, scan int
	inQuotes   bool
	// newline caches the index of the first line feed at or after scan, or
	// len(buf) if there is none; it is stale when it lies before scan.
	newline int
	// hasQuotes reports whether a quote was seen in the current record.
	hasQuotes bool

	// The record at skipStart is too long: its bytes are dropped as they come.
	skipping  bool
	skipStart int64
	skipLine  int64
	skipRaw   string

	// line is the number of the line that starts at buf[lineAt], or 0 if unknown.
	line   int64
	lineAt int

	// text is a copy of the buffer from textAt on, made when a record needs it
	// first and shared by all the records of the buffer.
	text    string
	textAt  int
	hasText bool
	// joined holds the text of records that are not plain parts of the file.
	joined strings.Builder
}

// record is a record's place in the buffer, without its line break.
type record struct{ start, end int }

// seek starts at an offset in the file, which is on the given line.
func (f *framer) seek(offset, line int64) {
	f.base, f.line = offset, line
	f.newline = -1
}

// find returns the next record in the buffer. It is false if the buffer has no
// whole record: then fill, unless atEnd. Done must follow.
func (f *framer) find() (record, bool) {
	if f.head == len(f.buf) && !f.skipping {
		return record{}, false
	}
	end, next, ok := f.boundary()
	if !ok {
		return record{}, false
	}
	r := record{f.head, end}
	if end > f.head && f.buf[end-1] == '\r' {
		r.end--
	}
	f.scan = next
	return r, true
}

// done moves on to the next record.
func (f *framer) done() {
	f.head = f.scan
	f.inQuotes, f.hasQuotes, f.skipping = false, false, false
	f.skipRaw = ""
}

// boundary searches the end of the current record: the index of its line feed,
// or of the end of the range, and that of the next record.
func (f *framer) boundary() (end, next int, ok bool) {
	for {
		if f.inQuotes {
			if !f.closeQuote() {
				return len(f.buf), len(f.buf), f.loaded()
			}
			continue
		}
		if f.newline < f.scan {
			f.newline = indexByte(f.buf, f.scan, '\n')
		}
		if f.delimiter != 0 {
			if q := bytes.IndexByte(f.buf[f.scan:f.newline], '"'); q >= 0 {
				f.openQuote(f.scan + q)
				continue
			}
		}
		if f.newline < len(f.buf) {
			return f.newline, f.newline + 1, true
		}
		f.scan = len(f.buf)
		f.newline = -1
		return len(f.buf), len(f.buf), f.loaded()
	}
}

// openQuote handles a quote outside of a quoted field: it opens one only where a
// field starts.
func (f *framer) openQuote(at int) {
	f.hasQuotes = true
	f.scan = at + 1
	f.inQuotes = (at == f.head && !f.skipping) || (at > 0 && f.buf[at-1] == f.delimiter)
}

// closeQuote looks for the end of a quoted field; it is false if the buffer
// ends before.
func (f *framer) closeQuote() bool {
	at := indexByte(f.buf, f.scan, '"')
	switch {
	case at == len(f.buf):
		f.scan = at
		return false
	case at+1 == len(f.buf) && !f.loaded():
		f.scan = at // whether it is one of two quotes is not known yet
		return false
	case at+1 < len(f.buf) && f.buf[at+1] == '"':
		f.scan = at + 2
	default:
		f.scan = at + 1
		f.inQuotes = false
	}
	return true
}

// indexByte is the index of the first c in b at or after from, or len(b).
func indexByte(b []byte, from int, c byte) int {
	if i := bytes.IndexByte(b[from:], c); i >= 0 {
		return from + i
	}
	return len(b)
}

// loaded reports whether the buffer reaches the end of the range.
func (f *framer) loaded() bool { return f.base+int64(len(f.buf)) >= f.end }

// atEnd reports whether there is no further record.
func (f *framer) atEnd() bool { return f.loaded() && f.head == len(f.buf) && !f.skipping }

// fill reads one chunk behind the current record, which moves to the start of
// the buffer; it drops what a record has beyond maxRecord.
func (f *framer) fill() error {
	keep := f.head
	if len(f.buf)-f.head > f.maxRecord && !f.skipping {
		f.skipping, f.skipStart, f.skipLine = true, f.offset(f.head), f.lineOf(f.head)
		f.skipRaw = excerpt(f.buf[f.head:])
	}
	if f.skipping {
		keep = max(f.scan-1, 0) // openQuote looks at the byte before
	}
	f.discard(keep)
	chunk := max(f.chunk, min(len(f.buf), maxChunkSize))
	if f.skipping {
		chunk = maxChunkSize
	}
	want := min(int64(chunk), f.end-f.base-int64(len(f.buf)))
	at := len(f.buf)
	if need := at + int(want); need > cap(f.buf) {
		grown := make([]byte, at, max(need, 2*at))
		copy(grown, f.buf)
		f.buf = grown
	}
	f.buf = f.buf[:at+int(want)]
	n, err := f.file.ReadAt(f.buf[at:], f.base+int64(at))
	if n == int(want) {
		return nil
	}
	f.buf = f.buf[:at+n]
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%s ends at byte %d, before byte %d: the %w", f.path, f.base+int64(len(f.buf)), f.end, errChanged)
	}
	return fmt.Errorf("cannot read %s at byte %d: %w", f.path, f.base+int64(len(f.buf)), err)
}

// discard drops the buffer before index keep.
func (f *framer) discard(keep int) {
	if f.line > 0 {
		f.line = f.lineOf(keep)
	}
	f.lineAt = 0
	f.buf = f.buf[:copy(f.buf, f.buf[keep:])]
	f.base += int64(keep)
	f.head = max(f.head-keep, 0)
	f.scan -= keep
	f.newline = -1
	f.text, f.hasText = "", false
}

// offset is the place in the file of index i of the buffer.
func (f *framer) offset(i int) int64 { return f.base + int64(i) }

// lineOf is the number of the line at index i of the buffer, or 0 if unknown.
func (f *framer) lineOf(i int) int64 {
	if f.line == 0 {
		return 0
	}
	return f.line + int64(bytes.Count(f.buf[f.lineAt:i], lineFeed))
}

var lineFeed = []byte{'\n'}

// start is the offset at which the next record starts.
func (f *framer) start() int64 {
	if f.skipping {
		return f.skipStart
	}
	return f.offset(f.head)
}

// position is the offset and the line at which the next record starts.
func (f *framer) position() (offset, line int64) {
	if f.skipping {
		return f.skipStart, f.skipLine
	}
	if f.line > 0 {
		f.line, f.lineAt = f.lineOf(f.head), f.head
	}
	return f.offset(f.head), f.line
}

// textOf is the record's text. It shares one string with its neighbours.
func (f *framer) textOf(r record) string {
	if !f.hasText {
		f.text, f.textAt, f.hasText = string(f.buf[r.start:]), r.start, true
	}
	return f.text[r.start-f.textAt : r.end-f.textAt]
}

// join is the record's text followed by extra.
func (f *framer) join(r record, extra []byte) string {
	need := r.end - r.start + len(extra)
	if f.joined.Cap()-f.joined.Len() < need {
		f.joined.Reset()
		f.joined.Grow(max(need, chunkSize))
	}
	at := f.joined.Len()
	f.joined.Write(f.buf[r.start:r.end])
	f.joined.Write(extra)
	return f.joined.String()[at:]
}

// excerpt is the start of a record that is too long to be kept.
func excerpt(b []byte) string {
	const most = 200
	if len(b) > most {
		return string(b[:most]) + "..."
	}
	return string(b)
}
