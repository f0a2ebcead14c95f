package job

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/checkpoint"
)

// The master hooks hear how each attempt begins, before its sources are prepared:
// they are restored from its checkpoint, or reset where it has none. When the job
// has ended, or another coordinator has it, they are closed. What they do with
// each checkpoint is the business of protocol/checkpoint.

// restoreHooks gives every hook its state of the checkpoint.
func (m *Master) restoreHooks(metadata *messages.CheckpointMetadata) {
	matched, err := checkpoint.MatchHooks(m.config.Hooks, metadata.MasterStates, m.config.Settings.DroppedState)
	if err != nil {
		m.refuse(err)
		return
	}
	m.hooks = nil
	for _, h := range matched {
		m.hooks = append(m.hooks, &messages.RestoreMasterHook{Hook: h.Hook, Checkpoint: metadata.Checkpoint, State: h.State})
	}
	m.callHook()
}

// resetHooks tells every hook that there is no checkpoint.
func (m *Master) resetHooks() {
	m.hooks = nil
	for _, h := range m.config.Hooks {
		m.hooks = append(m.hooks, &messages.ResetMasterHook{Hook: h})
	}
	m.callHook()
}

// callHook makes the next call. After the last the sources follow.
func (m *Master) callHook() {
	m.phase = hooking
	if len(m.hooks) == 0 {
		m.prepareSources()
		return
	}
	var next proto.Message
	next, m.hooks = m.hooks[0], m.hooks[1:]
	m.ask(next)
}

// hookAnswered goes on with the next hook. An attempt does not start while a hook
// is not where its tasks are.
func (m *Master) hookAnswered(hook string, w *messages.WorkDone) {
	switch {
	case m.phase != hooking: // the job was cancelled meanwhile
	case w.Failure == "":
		m.callHook()
	default:
		m.notReady(w, fmt.Errorf("the master hook %q cannot be brought to the start of the attempt: %s", hook, w.Failure))
	}
}

// hookTriggered looks at the answer of a call for a checkpoint before the checkpoint
// coordinator does, for which it is one more failure that the next checkpoint may mend.
func (m *Master) hookTriggered(w *messages.WorkDone) {
	hook, ok := m.triggered[w.Op]
	delete(m.triggered, w.Op)
	if ok && w.NoRestart && m.live() {
		m.fail(noRestartError{fmt.Errorf("the master hook %q: %s", hook, w.Failure)})
	}
}

// closeHooks ends the life of all hooks.
func (m *Master) closeHooks() {
	for _, h := range m.config.Hooks {
		m.ask(&messages.CloseMasterHook{Hook: h})
	}
}
