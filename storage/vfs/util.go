package vfs

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// ReadFile reads a whole file.
func ReadFile(fsys FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	return content, errors.Join(err, f.Close())
}

// WriteFile makes a file with this content, or gives an existing one this
// content, and syncs it; its name is durable only after a SyncDir. When it fails,
// a part of the content may be there.
func WriteFile(fsys FS, path string, content []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// maxFileName leaves room for prefixes and suffixes below the 255 bytes that file
// systems allow.
const maxFileName = 120

// FileName turns any text into a part of a file name: letters, digits and -_. stay,
// other bytes become %XX, and a long text is cut and marked with its hash. Different
// texts give different names.
func FileName(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if name := b.String(); len(name) <= maxFileName {
		return name
	}
	return fmt.Sprintf("%s%%%016x", b.String()[:maxFileName-17], xxhash.Sum64String(text))
}
