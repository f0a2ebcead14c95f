package file

import (
	"fmt"

	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/row"
)

// decoder turns a record into a row; it returns what is wrong with it, or "".
type decoder interface {
	decode(f *framer, r record, v *row.Row) string
}

// reader reads one split.
type reader struct {
	file    vfs.File
	split   payload
	framer  framer
	decoder decoder
	cells   []uint64
	last    record // that Next has returned
}

// Next reads at most one chunk of the file, which is 64 KiB unless a record is longer. Within a record that is longer than
// a chunk it returns ReadNothing.
func (r *reader) Next(v *row.Row) (stream.ReadStatus, error) {
	f := &r.framer
	for filled := false; ; {
		rec, ok := f.find()
		if !ok {
			if f.atEnd() {
				return stream.ReadEnd, nil
			}
			if filled {
				return stream.ReadNothing, nil
			}
			if err := f.fill(); err != nil {
				return stream.ReadNothing, err
			}
			filled = true
			continue
		}
		if rec.start == rec.end && !f.skipping {
			f.done()
			continue
		}
		v.Cells = r.cells
		problem := ""
		if f.skipping || rec.end-rec.start > f.maxRecord {
			problem = fmt.Sprintf("record longer than max-record-size, which is %d bytes", f.maxRecord)
		} else {
			problem = r.decoder.decode(f, rec, v)
		}
		if problem != "" {
			err := r.malformed(rec, problem)
			f.done()
			return stream.ReadNothing, err
		}
		f.done()
		r.last = rec
		return stream.ReadRecord, nil
	}
}

// malformed describes a record that find returned.
func (r *reader) malformed(rec record, problem string) *stream.MalformedError {
	f := &r.framer
	if f.skipping {
		return &stream.MalformedError{Where: r.split.Path, Offset: f.skipStart, Line: f.skipLine, Problem: problem, Raw: f.skipRaw}
	}
	text := f.buf[rec.start:rec.end]
	raw := excerpt(text)
	if len(text) <= f.maxRecord {
		raw = string(text)
	}
	return &stream.MalformedError{
		Where:   r.split.Path,
		Offset:  f.offset(rec.start),
		Line:    f.lineOf(rec.start),
		Problem: problem,
		Raw:     raw,
	}
}

// Describe implements stream.Describer.
func (r *reader) Describe(problem string) *stream.MalformedError {
	return r.malformed(r.last, problem)
}

// Position is the offset and line of the next record.
func (r *reader) Position() []byte { return encodePosition(r.framer.position()) }

// BytesRead is how far into the split the next record lies.
func (r *reader) BytesRead() uint64 {
	return uint64(r.framer.start() - r.split.Start)
}

// Close closes the file.
func (r *reader) Close() error { return r.file.Close() }
