package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"unicode/utf8"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// discoverChunkSize is how much discovery reads at once.
const discoverChunkSize = 1 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

// Discover lists the files and cuts them into splits. With InOrder all splits
// are one group, else each file is one.
func (s *Source) Discover(ctx context.Context, fsys vfs.FS, _ int) (*messages.SplitsDiscovered, error) {
	paths, err := s.paths(fsys)
	if err != nil {
		return nil, err
	}
	found := &messages.SplitsDiscovered{}
	ordinal := uint64(0)
	for _, path := range paths {
		ranges, err := s.cutFile(ctx, fsys, path)
		if err != nil {
			return nil, err
		}
		group := s.config.Path
		if !s.config.InOrder {
			group, ordinal = path, 0
		}
		for i := range ranges {
			p := &ranges[i]
			content, err := json.Marshal(p)
			if err != nil {
				return nil, fmt.Errorf("file source: describe a split of %s: %w", path, err)
			}
			size := uint64(p.End - p.Start)
			found.Splits = append(found.Splits, &messages.Split{
				Id:        fmt.Sprintf("%s@%d", path, p.Start),
				Group:     group,
				Ordinal:   ordinal,
				Payload:   content,
				SizeBytes: size,
			})
			found.TotalBytes += size
			ordinal++
		}
	}
	return found, nil
}

// paths are the files that Config.Path names, in the order of Glob: sorted.
func (s *Source) paths(fsys vfs.FS) ([]string, error) {
	path := s.config.Path
	if !isPattern(path) {
		return []string{path}, nil
	}
	if _, err := fsys.Stat(path); err == nil {
		return []string{path}, nil // a file may have such a name
	}
	names, err := fsys.Glob(path)
	if err != nil {
		return nil, fmt.Errorf("cannot list the files of %s: %w; correct the pattern", path, err)
	}
	if len(names) == 0 {
		return nil, stream.NoRestart(fmt.Errorf("no file matches %s; correct the path (a relative one starts at the folder of the topology)", path))
	}
	for _, name := range names {
		// Splits travel in messages, whose text is UTF-8.
		if !utf8.ValidString(name) {
			return nil, stream.NoRestart(fmt.Errorf("the name of the file %q is not UTF-8 text; rename it, or correct the pattern", name))
		}
	}
	return names, nil
}

// advice is what to do about a file that cannot be opened.
func advice(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "correct the path (a relative one starts at the folder of the topology) and see that every node has the file"
	case errors.Is(err, fs.ErrPermission):
		return "allow the user of the node to read it"
	}
	return "name a readable file, or several by a pattern such as data/*.csv"
}

// cutFile cuts one file into ranges of whole records.
func (s *Source) cutFile(ctx context.Context, fsys vfs.FS, path string) (ranges []payload, err error) {
	f, err := open(fsys, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot examine %s: %w", path, err)
	}
	file := payload{Path: path, Line: 1, Size: info.Size(), End: info.Size()}
	if file.Checksum, err = fingerprint(f, file.Size); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if file.Start, err = skipMark(f); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if s.config.Format == CSV && !s.config.NoHeader {
		if err := s.readHeader(f, &file); err != nil {
			return nil, err
		}
	}
	if file.End <= file.Start {
		return nil, nil
	}
	if file.End-file.Start <= s.config.SplitSizeBytes {
		return []payload{file}, nil
	}
	if s.config.Format == CSV {
		return s.cutCSV(ctx, f, file)
	}
	return s.cutLines(ctx, f, file)
}

// skipMark is the length of the byte order mark at the start of the file.
func skipMark(f io.ReaderAt) (int64, error) {
	b := make([]byte, len(byteOrderMark))
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if bytes.Equal(b[:n], byteOrderMark) {
		return int64(n), nil
	}
	return 0, nil
}

// readHeader moves the start of the file behind the record that names the
// columns, and checks that the schema's are there. An empty file needs none.
func (s *Source) readHeader(f io.ReaderAt, file *payload) error {
	fr := s.framer(f, file.Path, file.End, chunkSize)
	fr.seek(file.Start, file.Line)
	for {
		rec, ok := fr.find()
		switch {
		case ok && rec.start == rec.end && !fr.skipping:
			fr.done()
		case ok:
			if fr.skipping || rec.end-rec.start > maxHeader {
				return stream.NoRestart(fmt.Errorf("%s: the header is longer than %d bytes; set header: false if the first line is data", file.Path, maxHeader))
			}
			header := string(fr.buf[rec.start:rec.end])
			fr.done()
			file.Header = &header
			file.Start, file.Line = fr.position()
			if _, err := s.decoder(file); err != nil {
				return stream.NoRestart(fmt.Errorf("%s: %w", file.Path, err))
			}
			return nil
		case fr.atEnd():
			file.Start = file.End
			return nil
		default:
			if err := fr.fill(); err != nil {
				return err
			}
		}
	}
}

// maxHeader bounds the header, which every split carries.
const maxHeader = 1 << 20

// cutCSV cuts at the first record at or behind each multiple of the split size.
// It finds records as readers do, so the two cannot disagree.
func (s *Source) cutCSV(ctx context.Context, f io.ReaderAt, file payload) ([]payload, error) {
	var ranges []payload
	fr := s.framer(f, file.Path, file.End, discoverChunkSize)
	fr.seek(file.Start, file.Line)
	rest := file
	edge := s.edgeAfter(file.Start, file.Start)
	for {
		if _, ok := fr.find(); ok {
			fr.done()
			if fr.offset(fr.head) < edge || fr.offset(fr.head) >= file.End {
				continue
			}
			offset, line := fr.position()
			rest, ranges = cut(rest, offset, line, ranges)
			edge = s.edgeAfter(file.Start, offset)
			continue
		}
		if fr.atEnd() {
			return append(ranges, rest), nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := fr.fill(); err != nil {
			return nil, err
		}
	}
}

// cutLines cuts behind the first line feed at or behind the byte before each
// multiple of the split size. It does not read what lies between, so only the
// first split knows its line.
func (s *Source) cutLines(ctx context.Context, f io.ReaderAt, file payload) ([]payload, error) {
	var ranges []payload
	rest := file
	buf := make([]byte, chunkSize)
	for at := s.edgeAfter(file.Start, file.Start) - 1; at < file.End; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		want := min(int64(len(buf)), file.End-at)
		n, err := f.ReadAt(buf[:want], at)
		if int64(n) < want {
			return nil, fmt.Errorf("cannot read %s at byte %d: %w", file.Path, at+int64(n), err)
		}
		i := bytes.IndexByte(buf[:n], '\n')
		if i < 0 {
			at += int64(n)
			continue
		}
		next := at + int64(i) + 1
		if next >= file.End {
			break
		}
		rest, ranges = cut(rest, next, 0, ranges)
		at = s.edgeAfter(file.Start, next) - 1
	}
	return append(ranges, rest), nil
}

// edgeAfter is the first multiple of the split size, counted from start, that
// lies behind offset.
func (s *Source) edgeAfter(start, offset int64) int64 {
	size := s.config.SplitSizeBytes
	return start + ((offset-start)/size+1)*size
}

// cut ends the range at offset and returns what follows it.
func cut(p payload, offset, line int64, ranges []payload) (payload, []payload) {
	rest := p
	p.End = offset
	rest.Start, rest.Line = offset, line
	return rest, append(ranges, p)
}
