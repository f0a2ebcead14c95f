package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// The `_metadata` file, all numbers little-endian:
//
//	magic    8 bytes  "cutwater"
//	version  4 bytes  of the body's format
//	length   8 bytes  of the body
//	crc      4 bytes  CRC-32C of the 20 bytes before it
//	body              a messages.CheckpointMetadata in protobuf
//	crc      4 bytes  CRC-32C of the body
//
// The first 24 bytes have this form in every version, so that an old program can
// tell a newer file from a damaged one.
const (
	metadataMagic   = "cutwater"
	metadataVersion = 1
	headerSize      = 24
	// MetadataName is the file's name in its directory.
	MetadataName = "_metadata"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeMetadata returns the content of the `_metadata` file. Equal messages give
// equal bytes.
func EncodeMetadata(m *messages.CheckpointMetadata) ([]byte, error) {
	marshal := proto.MarshalOptions{Deterministic: true}
	b := make([]byte, headerSize, headerSize+marshal.Size(m)+4)
	b, err := marshal.MarshalAppend(b, m)
	if err != nil {
		return nil, fmt.Errorf("encode the metadata of checkpoint %d: %w", m.GetCheckpoint(), err)
	}
	body := b[headerSize:]
	copy(b, metadataMagic)
	binary.LittleEndian.PutUint32(b[8:], metadataVersion)
	binary.LittleEndian.PutUint64(b[12:], uint64(len(body)))
	binary.LittleEndian.PutUint32(b[20:], crc32.Checksum(b[:20], castagnoli))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, castagnoli)), nil
}

// DecodeMetadata is its inverse; where is the file's path, for errors. Errors:
// ErrCorrupt, ErrNewerFormat.
func DecodeMetadata(b []byte, where string) (*messages.CheckpointMetadata, error) {
	corrupt := func(problem string, args ...any) error {
		return fmt.Errorf("%s is damaged (%s): restore from another checkpoint, or bring the file back from a copy: %w",
			where, fmt.Sprintf(problem, args...), ErrCorrupt)
	}
	switch {
	case !bytes.HasPrefix(b, []byte(metadataMagic)[:min(len(b), len(metadataMagic))]):
		return nil, fmt.Errorf("%s is not the metadata of a checkpoint: give the _metadata file of a checkpoint or savepoint, or its directory: %w", where, ErrCorrupt)
	case len(b) < headerSize:
		return nil, corrupt("it ends after %d bytes", len(b))
	case crc32.Checksum(b[:20], castagnoli) != binary.LittleEndian.Uint32(b[20:]):
		return nil, corrupt("the checksum of its header does not fit")
	}
	if version := binary.LittleEndian.Uint32(b[8:]); version > metadataVersion {
		return nil, fmt.Errorf("%s has format version %d and this program knows %d: use the program that wrote it, or a newer one: %w",
			where, version, metadataVersion, ErrNewerFormat)
	}
	length := binary.LittleEndian.Uint64(b[12:])
	if have := uint64(len(b) - headerSize); have < 4 || length != have-4 {
		return nil, corrupt("it has %d bytes, and its header says %d", len(b), headerSize+length+4)
	}
	body := b[headerSize : len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, corrupt("the checksum does not fit")
	}
	m := &messages.CheckpointMetadata{}
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, corrupt("%v", err)
	}
	return m, nil
}

// DecodeRecorded decodes the content of a recorded checkpoint's `_metadata` and
// checks that it is that checkpoint's, of that job; where is for errors. A record
// that is unclaimed may be another job's; one without a size was made of a path
// that a user gave, and has nothing to compare with. Errors: ErrCorrupt, ErrForeign,
// ErrNewerFormat.
func DecodeRecorded(b []byte, where, job string, record *messages.CompletedCheckpoint) (*messages.CheckpointMetadata, error) {
	m, err := DecodeMetadata(b, where)
	if err != nil {
		return nil, err
	}
	if !record.GetUnclaimed() && m.GetJob() != job {
		return nil, fmt.Errorf("%s belongs to job %s, not to job %s: two jobs must not share a checkpoint directory: %w",
			where, m.GetJob(), job, ErrForeign)
	}
	if m.GetCheckpoint() != record.GetCheckpoint() || record.GetEpoch() != 0 && m.GetEpoch() != record.GetEpoch() {
		return nil, fmt.Errorf("%s holds checkpoint %d of epoch %d, and recorded is checkpoint %d of epoch %d: restore from another checkpoint: %w",
			where, m.GetCheckpoint(), m.GetEpoch(), record.GetCheckpoint(), record.GetEpoch(), ErrForeign)
	}
	if size := uint64(len(b)); record.GetMetadataSize() != 0 && (record.GetMetadataSize() != size || record.GetMetadataHash() != xxhash.Sum64(b)) {
		return nil, fmt.Errorf("%s is not the file that was recorded (%d bytes, hash %016x; recorded %d bytes, hash %016x): restore from another checkpoint, or bring the file back from a copy: %w",
			where, size, xxhash.Sum64(b), record.GetMetadataSize(), record.GetMetadataHash(), ErrCorrupt)
	}
	return m, nil
}
