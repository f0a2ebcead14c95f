package storage

import "cutwater/messages"

// EachHandle visits every state handle that a checkpoint names, in the order of
// the file.
func EachHandle(m *messages.CheckpointMetadata, visit func(h *messages.StateHandle)) {
	for _, op := range m.GetOperators() {
		for _, subtask := range op.GetSubtasks() {
			for _, segment := range subtask.GetState().GetKeyed().GetSegments() {
				if segment.GetHandle() != nil {
					visit(segment.GetHandle())
				}
			}
			if h := subtask.GetState().GetLists(); h != nil {
				visit(h)
			}
		}
		if h := op.GetCoordinator(); h != nil {
			visit(h)
		}
	}
}
