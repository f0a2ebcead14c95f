package file

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/row"
)

// Format is how records are written.
type Format string

// The formats.
const (
	CSV   Format = "csv"
	JSONL Format = "jsonl"
)

// Defaults of Config.
const (
	DefaultSplitSizeBytes     = 16 << 20
	DefaultMaxRecordSizeBytes = 32 << 20
)

// Config describes a file source.
type Config struct {
	// Path names a file, or several by a pattern with *, ? and [].
	Path string
	// Format is how records are written; empty means CSV.
	Format Format
	// Schema lists the fields of the rows.
	Schema *row.Schema
	// SplitSizeBytes is the size of the ranges that are read in parallel; 0 means
	// DefaultSplitSizeBytes. A split is at least one record.
	SplitSizeBytes int64
	// MaxRecordSizeBytes bounds the memory that one record may need; a longer one
	// is malformed. 0 means DefaultMaxRecordSizeBytes, the most is 1 GiB.
	MaxRecordSizeBytes int64
	// NoHeader says that the first line of a CSV file is data.
	NoHeader bool
	// Delimiter stands between the fields of a CSV record; 0 means a comma.
	Delimiter byte
	// InOrder says that the files, sorted by name, continue one another in event
	// time. Otherwise the watermark waits for every file to be opened.
	InOrder bool
}

// Source reads files. It is safe for concurrent use.
type Source struct{ config Config }

// New checks the configuration and returns its source. No file is touched.
func New(c Config) (*Source, error) {
	if c.Format == "" {
		c.Format = CSV
	}
	if c.SplitSizeBytes == 0 {
		c.SplitSizeBytes = DefaultSplitSizeBytes
	}
	if c.MaxRecordSizeBytes == 0 {
		c.MaxRecordSizeBytes = DefaultMaxRecordSizeBytes
	}
	if c.Delimiter == 0 {
		c.Delimiter = ','
	}
	switch {
	case c.Path == "":
		return nil, fmt.Errorf("file source: path is empty; name a file or a pattern such as data/*.csv")
	case c.Format != CSV && c.Format != JSONL:
		return nil, fmt.Errorf("file source: unknown format %q; use csv or jsonl", c.Format)
	case c.Schema == nil || len(c.Schema.Fields) == 0:
		return nil, fmt.Errorf("file source: the schema has no fields; list the columns to read with their types")
	case c.SplitSizeBytes < 0:
		return nil, fmt.Errorf("file source: split-size %d is negative; give a size such as 16MiB", c.SplitSizeBytes)
	case c.MaxRecordSizeBytes < 0 || c.MaxRecordSizeBytes > 1<<30:
		return nil, fmt.Errorf("file source: max-record-size %d is not between 1 byte and 1GiB", c.MaxRecordSizeBytes)
	case strings.IndexByte("\"\r\n", c.Delimiter) >= 0 || c.Delimiter >= 0x80:
		return nil, fmt.Errorf("file source: %q cannot be a delimiter; use one ASCII character other than a quote or a line break", c.Delimiter)
	}
	names := map[string]bool{}
	for _, f := range c.Schema.Fields {
		if f.Kind == row.Null || f.Kind > row.List {
			return nil, fmt.Errorf("file source: field %q has no type; use int, float, string, bool, timestamp, bytes or list", f.Name)
		}
		if names[f.Name] {
			return nil, fmt.Errorf("file source: the schema has field %q twice; remove one", f.Name)
		}
		names[f.Name] = true
	}
	return &Source{config: c}, nil
}

// Bounded is true: a file that grows is read as it was at discovery.
func (s *Source) Bounded() bool { return true }

// Codec encodes the rows.
func (s *Source) Codec() codec.Codec[row.Row] { return row.Codec(s.config.Schema) }

// Schema lists the fields of the rows.
func (s *Source) Schema() *row.Schema { return s.config.Schema }

// payload is a split's description; its JSON is part of checkpoints.
type payload struct {
	Path string `json:"path"`
	// Start and End are offsets of records, End excluded.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Line is that of Start, or 0 if it is not known.
	Line int64 `json:"line,omitempty"`
	// Header is the record that names the columns, if there is one.
	Header *string `json:"header,omitempty"`
	// Size and Checksum identify the file: its length, and the CRC-32C of its
	// first fingerprintSize bytes.
	Size     int64  `json:"size"`
	Checksum uint32 `json:"checksum"`
}

const fingerprintSize = 4 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fingerprint is the checksum of the first bytes of a file that is at least size
// bytes long.
func fingerprint(f io.ReaderAt, size int64) (uint32, error) {
	b := make([]byte, min(size, fingerprintSize))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return 0, err
	}
	return crc32.Checksum(b, castagnoli), nil
}

// Open continues a split at its position, after it has checked that the file is
// still the one that was discovered, wherever Config.Path says that it is now.
func (s *Source) Open(ctx context.Context, fsys vfs.FS, split *messages.Split) (stream.SplitReader[row.Row], error) {
	var p payload
	if err := json.Unmarshal(split.Payload, &p); err != nil {
		return nil, stream.NoRestart(fmt.Errorf("file source: split %q is not one of this source: %w", split.Id, err))
	}
	offset, line := p.Start, p.Line
	if len(split.Position) > 0 {
		var ok bool
		if offset, line, ok = decodePosition(split.Position); !ok || offset < p.Start || offset > p.End {
			return nil, stream.NoRestart(fmt.Errorf("file source: split %q has a position outside of bytes %d to %d", split.Id, p.Start, p.End))
		}
	}
	var err error
	if p.Path, err = s.located(p.Path); err != nil {
		return nil, stream.NoRestart(err)
	}
	d, err := s.decoder(&p)
	if err != nil {
		return nil, stream.NoRestart(fmt.Errorf("%s: %w", p.Path, err))
	}
	f, err := open(fsys, p.Path)
	if err != nil {
		return nil, err
	}
	if err := p.verify(f, offset); err != nil {
		return nil, closeAfter(f, err)
	}
	r := &reader{file: f, split: p, decoder: d, cells: make([]uint64, len(s.config.Schema.Fields))}
	r.framer = s.framer(f, p.Path, p.End, chunkSize)
	r.framer.seek(offset, line)
	return r, nil
}

// located is where the file is now that was discovered at path. Config.Path may
// have been changed since then because the files were moved; a file that it does not
// name is not to be read.
func (s *Source) located(path string) (string, error) {
	now := s.config.Path
	if path == now || !isPattern(now) {
		return now, nil
	}
	now = filepath.Clean(now) // as the paths are that Glob returns
	if ok, _ := filepath.Match(now, path); ok {
		return path, nil
	}
	folder, name := filepath.Split(now)
	if ok, _ := filepath.Match(name, filepath.Base(path)); ok && !isPattern(folder) {
		return folder + filepath.Base(path), nil
	}
	return "", fmt.Errorf("the job is in the middle of %s, which the path %s does not name; change the path back, or start a new job to read the files that it names", path, s.config.Path)
}

func (s *Source) decoder(p *payload) (decoder, error) {
	if s.config.Format == JSONL {
		return newJSONDecoder(s.config.Schema), nil
	}
	if s.config.NoHeader != (p.Header == nil) {
		return nil, fmt.Errorf("the splits were discovered with header: %v; set it so again, or start a new job", p.Header != nil)
	}
	if s.config.NoHeader {
		return newCSVDecoder(s.config.Schema, nil, s.config.Delimiter)
	}
	names, err := headerNames([]byte(*p.Header), s.config.Delimiter)
	if err != nil {
		return nil, err
	}
	return newCSVDecoder(s.config.Schema, names, s.config.Delimiter)
}

func (s *Source) framer(f io.ReaderAt, path string, end int64, chunk int) framer {
	fr := framer{file: f, path: path, end: end, chunk: chunk, maxRecord: int(s.config.MaxRecordSizeBytes)}
	if s.config.Format == CSV {
		fr.delimiter = s.config.Delimiter
	}
	return fr
}

// verify reports errChanged unless the file is the discovered one, a record may
// start at offset, and one may end where the split ends.
func (p *payload) verify(f vfs.File, offset int64) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot examine %s: %w", p.Path, err)
	}
	if info.Size() < p.Size {
		return fmt.Errorf("%s has %d bytes, it had %d: the %w", p.Path, info.Size(), p.Size, errChanged)
	}
	sum, err := fingerprint(f, p.Size)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", p.Path, err)
	}
	if sum != p.Checksum {
		return fmt.Errorf("%s starts with other bytes than before: the %w", p.Path, errChanged)
	}
	if offset == p.End {
		return nil // nothing is left to be read
	}
	var at [2]byte
	if offset > int64(len(byteOrderMark)) {
		if n, err := f.ReadAt(at[:1], offset-1); n < 1 {
			return fmt.Errorf("cannot read %s at byte %d: %w", p.Path, offset-1, err)
		}
		if at[0] != '\n' {
			return fmt.Errorf("%s has no line break before byte %d, where a record started: the %w", p.Path, offset, errChanged)
		}
	}
	if p.End == info.Size() {
		return nil
	}
	// A file that grew may have had no line break at its end.
	if n, err := f.ReadAt(at[:], p.End-1); n < len(at) {
		return fmt.Errorf("cannot read %s at byte %d: %w", p.Path, p.End-1, err)
	}
	if at[0] != '\n' && at[1] != '\n' && at[1] != '\r' {
		return fmt.Errorf("%s has no line break at byte %d, where a record ended: the %w", p.Path, p.End, errChanged)
	}
	return nil
}

// open opens a file, with an error that says what to do. A file that is not there, or
// is not to be read, is somebody's mistake; a disk that fails may recover.
func open(fsys vfs.FS, path string) (vfs.File, error) {
	f, err := fsys.Open(path)
	if err == nil {
		return f, nil
	}
	failed := fmt.Errorf("cannot read %s: %w; %s", path, reason(err), advice(err))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
		return nil, stream.NoRestart(failed)
	}
	return nil, failed
}

// reason is the error without the operation and path that fs.PathError repeats.
func reason(err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err
	}
	return err
}

// closeAfter closes a file that was only read and returns the error that matters.
func closeAfter(f vfs.File, err error) error {
	_ = f.Close()
	return err
}

// A position is two little-endian numbers: offset and line.
func encodePosition(offset, line int64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(offset))
	return binary.LittleEndian.AppendUint64(b, uint64(line))
}

func decodePosition(b []byte) (offset, line int64, ok bool) {
	if len(b) != 16 {
		return 0, 0, false
	}
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:])), true
}

// isPattern reports whether a path has the special characters of a pattern.
func isPattern(path string) bool { return strings.ContainsAny(path, "*?[") }
