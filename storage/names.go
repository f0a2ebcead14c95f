package storage

import (
	"fmt"

	"cutwater/storage/vfs"
)

// FileName is the name of a state file, unique for each writer: a fenced writer has
// another epoch or attempt. It starts with what WriterOf reads.
func FileName(w StateFile) string {
	// Names stay short: within an epoch the uid tells vertices apart.
	vertex := fmt.Sprintf("%.8s", vfs.FileName(w.Task.GetVertex()))
	return fmt.Sprintf("e%d-a%d-c%d-%s-%s-%s-%d", w.Fence.GetEpoch(), w.Fence.GetAttempt(), w.Checkpoint,
		vfs.FileName(w.Kind), vfs.FileName(w.Uid), vertex, w.Task.GetSubtask())
}

// Writer is who wrote a state file, and for which checkpoint.
type Writer struct {
	Epoch      uint64
	Attempt    uint32
	Checkpoint uint64
}

// WriterOf reads a FileName, with anything behind it; ok is false for other names.
func WriterOf(name string) (w Writer, ok bool) {
	_, err := fmt.Sscanf(name, "e%d-a%d-c%d-", &w.Epoch, &w.Attempt, &w.Checkpoint)
	return w, err == nil
}

// Earlier reports whether the writer was of an attempt before that of the fence.
// Attempts of different epochs are not compared: their numbers repeat.
func (w Writer) Earlier(epoch uint64, attempt uint32) bool {
	return w.Epoch < epoch || w.Epoch == epoch && w.Attempt < attempt
}
