package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cutwater/messages"
)

// ValidateHooks reports names of master hooks that are blank or not unique.
func ValidateHooks(names []string) error {
	var all []error
	for i, name := range names {
		switch {
		case strings.TrimSpace(name) == "":
			all = append(all, fmt.Errorf("master hook %d has no name; give it one", i+1))
		case slices.Contains(names[:i], name):
			all = append(all, fmt.Errorf("two master hooks are named %q; rename one", name))
		}
	}
	return errors.Join(all...)
}

// HookRestore is what one master hook is restored from.
type HookRestore struct {
	Hook string
	// State is nil if the checkpoint has none of this hook.
	State *messages.MasterState
}

// MatchHooks pairs the hooks, in their order, with the states of a checkpoint
// (Flink: MasterHooks.restoreMasterHooks). A state whose hook is gone is an
// error unless it is among the dropped ones.
func MatchHooks(hooks []string, states []*messages.MasterState, dropped []string) ([]HookRestore, error) {
	for _, s := range states {
		if !slices.Contains(hooks, s.Hook) && !slices.Contains(dropped, s.Hook) {
			return nil, fmt.Errorf("the checkpoint holds state of the master hook %q, which the job has not; add the hook, or drop its state (--drop-state %s)", s.Hook, s.Hook)
		}
	}
	matched := make([]HookRestore, len(hooks))
	for i, name := range hooks {
		matched[i].Hook = name
		if at := slices.IndexFunc(states, func(s *messages.MasterState) bool { return s.Hook == name }); at >= 0 {
			matched[i].State = states[at]
		}
	}
	return matched, nil
}
