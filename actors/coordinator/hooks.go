package coordinator

import (
	"context"
	"fmt"
	"sync"

	"cutwater/messages"
	"cutwater/stream/operator"
)

// hooks are the master hooks of a job's program. Their calls run on the Executor;
// the lock keeps to one at a time, also where a coordinator falls and its
// successor resets a hook that its predecessor still waits for.
type hooks struct {
	mu   sync.Mutex
	list []operator.MasterHook
}

func newHooks(p operator.Program) *hooks {
	h := &hooks{}
	if hooked, ok := p.(operator.Hooked); ok {
		h.list = hooked.MasterHooks()
	}
	return h
}

func (h *hooks) names() []string {
	var names []string
	for _, hook := range h.list {
		names = append(names, hook.Name())
	}
	return names
}

// call calls f with the hook of that name.
func (h *hooks) call(name string, f func(operator.MasterHook) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hook := range h.list {
		if hook.Name() == name {
			return f(hook)
		}
	}
	return fmt.Errorf("coordinator: the program has no master hook %q", name)
}

func (h *hooks) trigger(ctx context.Context, m *messages.RunMasterHook) (*messages.MasterHookSnapshot, error) {
	answer := &messages.MasterHookSnapshot{Hook: m.Hook, Checkpoint: m.Checkpoint}
	err := h.call(m.Hook, func(hook operator.MasterHook) error {
		state, err := hook.Trigger(ctx, m.Checkpoint)
		if state != nil {
			answer.State = &messages.MasterState{Hook: m.Hook, State: state.Data, Version: state.Version}
		}
		return err
	})
	return answer, err
}

func (h *hooks) restore(ctx context.Context, m *messages.RestoreMasterHook) error {
	return h.call(m.Hook, func(hook operator.MasterHook) error {
		var state *operator.HookState
		if m.State != nil {
			state = &operator.HookState{Version: m.State.Version, Data: m.State.State}
		}
		return hook.Restore(ctx, m.Checkpoint, state)
	})
}

func (h *hooks) reset(ctx context.Context, m *messages.ResetMasterHook) error {
	return h.call(m.Hook, func(hook operator.MasterHook) error { return hook.Reset(ctx) })
}

func (h *hooks) close(ctx context.Context, m *messages.CloseMasterHook) error {
	return h.call(m.Hook, func(hook operator.MasterHook) error { return hook.Close(ctx) })
}
