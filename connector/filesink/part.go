package filesink

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path"
	"strconv"
	"strings"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// part is the payload of a committable, as JSON.
type part struct {
	Version int `json:"version"`
	// Dir is the folder of the visible file, as it was when the part was written.
	Dir string `json:"dir"`
	// Job names the folder of the pending file.
	Job string `json:"job"`
	// Pending and Visible are the file's names in their folders.
	Pending string `json:"pending"`
	Visible string `json:"visible"`
	// Size is in bytes, Checksum the CRC-32C of the content.
	Size     int64  `json:"size"`
	Checksum uint32 `json:"checksum"`
}

const (
	partVersion = 1
	hiddenDir   = ".cutwater"
	partPrefix  = "part-"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (p *part) visiblePath() string { return path.Join(p.Dir, p.Visible) }
func (p *part) pendingPath() string { return path.Join(p.Dir, hiddenDir, p.Job, p.Pending) }

func (s *Sink) pendingDir(c stream.SinkContext) string {
	return path.Join(s.config.Dir, hiddenDir, c.Job)
}

func encodePart(p *part) ([]byte, error) {
	p.Version = partVersion
	return json.Marshal(p)
}

func decodePart(c *messages.Committable) (*part, error) {
	p := &part{}
	if err := json.Unmarshal(c.GetPayload(), p); err != nil {
		return nil, stream.NoRestart(fmt.Errorf("file sink %q: the committable of checkpoint %d, subtask %d is damaged: %w", c.GetUid(), c.GetCheckpoint(), c.GetSubtask(), err))
	}
	if p.Version > partVersion {
		return nil, stream.NoRestart(fmt.Errorf("file sink %q: the committable of checkpoint %d has format version %d and this program knows %d: use the program that wrote it, or a newer one",
			c.GetUid(), c.GetCheckpoint(), p.Version, partVersion))
	}
	return p, nil
}

func shortJob(job string) string { return job[:min(len(job), 8)] }

// visibleName is the name that users see.
func visibleName(c stream.SinkContext, checkpoint uint64, format Format) string {
	return fmt.Sprintf("%s%s-%s-%d-%d-%d.%s", partPrefix, vfs.FileName(c.Uid), shortJob(c.Job), c.Incarnation, c.Subtask, checkpoint, format)
}

// jobOfVisible is the job in a visible file's name. It reads from the end, since a
// uid may hold anything.
func jobOfVisible(name string) (job string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(name, path.Ext(name)), partPrefix)
	fields := strings.Split(rest, "-")
	if !ok || len(fields) < 5 {
		return "", false
	}
	for _, number := range fields[len(fields)-3:] {
		if _, err := strconv.ParseUint(number, 10, 64); err != nil {
			return "", false
		}
	}
	return fields[len(fields)-4], true
}

// isJob reports whether a folder's name is the id of a job.
func isJob(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// pendingName is unique per writer and part. It ends with the fence, by which a
// sweep knows old files.
func pendingName(c stream.SinkContext, number int) string {
	return fmt.Sprintf("%s-%d-%d-%d-%d-%d", vfs.FileName(c.Uid), c.Incarnation, c.Subtask, c.Fence.GetEpoch(), c.Fence.GetAttempt(), number)
}

// older reports whether a pending file is this operator's, of an earlier attempt, and
// nobody's who may still write it.
func older(name string, c stream.SinkContext) bool {
	rest, ok := strings.CutPrefix(name, vfs.FileName(c.Uid)+"-")
	fields := strings.Split(rest, "-")
	if !ok || len(fields) != 5 {
		return false
	}
	var numbers [5]uint64
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return false
		}
		numbers[i] = n
	}
	if c.Regional && numbers[1] != uint64(c.Subtask) {
		return false
	}
	epoch, attempt := numbers[2], numbers[3]
	return epoch < c.Fence.GetEpoch() || epoch == c.Fence.GetEpoch() && attempt < uint64(c.Fence.GetAttempt())
}
