package task

import (
	"context"
	"errors"
	"fmt"

	"cutwater/actors/system"
	"cutwater/protocol"
	"cutwater/storage"
	"cutwater/stream/operator"
)

// checkFolder looks whether the checkpoint folder that this node sees is the one that the
// job's coordinator has marked; it runs on the Executor. In another folder the task would
// write state that nobody else can read, and the checkpoint would be found worthless when
// it is needed.
//
// A job that has no checkpoint yet ends with it: somebody has to mount the folder, or
// choose another. One that has goes on trying, since a mount may be away for a while. A
// mark that cannot be read for another reason says nothing; checkpoints will.
func (t *Task) checkFolder(ctx context.Context) error {
	if t.deploy.Mark == 0 {
		return nil
	}
	err := t.store.CheckMark(ctx, t.deploy.Mark)
	if !errors.Is(err, storage.ErrElsewhere) {
		return nil
	}
	err = fmt.Errorf("operator %q: %w (the coordinator is on node %s)",
		t.deploy.Vertex.Operators[0], err, system.NodeOf(protocol.Address(t.deploy.Coordinator)))
	if t.deploy.Restore == nil {
		return operator.NoRestart(err)
	}
	return err
}
