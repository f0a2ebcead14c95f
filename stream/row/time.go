package row

// The timestamps that RFC 3339 can write: the years 1 to 9999, in Unix ms. Sources
// refuse others, and expressions and windows that come to one fail the row.
const (
	MinMs int64 = -62135596800000
	MaxMs int64 = 253402300799999
)

// ValidMs reports whether a timestamp can be written.
func ValidMs(ms int64) bool { return ms >= MinMs && ms <= MaxMs }
