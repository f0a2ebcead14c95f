// Package file is the source "file": rows from CSV or JSON Lines files.
//
// # Splits
//
// [Source.Discover] cuts each file into byte ranges of about split-size that
// start and end between two records, so that a reader needs no knowledge of its
// neighbours and no record is read twice or not at all. In JSON Lines every line
// feed ends a record; in CSV a line feed inside a quoted field does not, so
// discovery reads a CSV file that is larger than one split once from its start
// and follows the quotes. A split carries what its readers need to notice that
// the file is no longer the one that was discovered: its size and a checksum of
// its first bytes. Times of modification are not compared, because copies of a
// file on several nodes have different ones. A file may grow: what was appended
// after discovery is not read, and neither is a file that the pattern matches only
// later. A file may be moved while the job is down if Config.Path moves with it:
// the path of a split is looked for in the folder that Config.Path now names, and a
// path that leaves it out is an error, so that no change of a path is ignored.
//
// A position is the byte offset of the next record, with its line number.
//
// # CSV
//
// Records are those of RFC 4180, byte for byte: a line break inside a quoted
// field is data, and a CRLF there stays a CRLF. A record ends at LF or CRLF; the
// last one needs neither. A byte order mark at the start of the file and empty
// lines are skipped. The first line names the columns, of which the schema may
// choose some, in any order; with header: false the columns are the schema's. An
// empty field is null, except in a string column, where it is the empty string.
//
// # JSON Lines
//
// Each line is an object; fields are found by name, others are skipped, absent
// ones are null. An int must be written as an integer and keeps all its 64 bits.
//
// # Malformed records
//
// A record that does not follow the format or the schema is reported as a
// [stream.MalformedError], and reading goes on after it: after a stray quote at
// the end of the line; after an open quoted field where its quote closes, or at
// the end of the file. A record longer than max-record-size is malformed, too,
// and never held in memory as a whole.
package file
