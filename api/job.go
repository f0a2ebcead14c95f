package api

// Job is what the record of a job says.
type Job struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Status      string `json:"status"`
	Incarnation uint64 `json:"incarnation"`
	Epoch       uint64 `json:"epoch"`
	// Coordinator is the address of the actor that leads it.
	Coordinator string `json:"coordinator"`
	CreatedMs   int64  `json:"created_ms"`
	// ChangedMs is when the status last changed.
	ChangedMs int64 `json:"changed_ms"`
	// Failure is why it failed; empty if it did not.
	Failure string `json:"failure"`
	// Completed is the newest checkpoint that it can be restored from, 0 for none.
	Completed uint64 `json:"completed_checkpoint"`
}
