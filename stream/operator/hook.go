package operator

import "context"

// MasterHook runs on the coordinator's side of a job, once per checkpoint: for
// connectors that must tell an outside system about checkpoints, or keep in them
// what belongs to no task (Flink: MasterTriggerRestoreHook). Its methods run on
// the Executor, may block, and get a context that ends with the node. At most one
// of them runs at a time. A panic is an error.
//
// The order of a hook's life: before the tasks of an attempt are deployed either
// Restore or Reset; then Trigger with each checkpoint, after the operator
// coordinators and before the tasks; Close when the job has ended or its
// coordinator has lost it.
type MasterHook interface {
	// Name is not blank, unique in the job and the same in every run: it finds the
	// state again.
	Name() string
	// Trigger returns what the checkpoint shall keep; nil keeps nothing. An error
	// fails the checkpoint.
	Trigger(ctx context.Context, checkpoint uint64) (*HookState, error)
	// Restore is called before tasks start from the checkpoint, with what Trigger
	// returned for it, or nil. An error fails the attempt.
	Restore(ctx context.Context, checkpoint uint64, state *HookState) error
	// Reset is called before tasks start without a checkpoint.
	Reset(ctx context.Context) error
	// Close releases what the hook holds.
	Close(ctx context.Context) error
}

// HookState is what a MasterHook keeps in a checkpoint.
type HookState struct {
	// Version is the hook's own version of the form of Data.
	Version uint32
	Data    []byte
}

// Hooked is a Program that has master hooks. They are made once and serve one job
// at a time.
type Hooked interface {
	// MasterHooks returns them in the order in which they run.
	MasterHooks() []MasterHook
}
