package metadata_test

import (
	"context"
	"errors"
	"testing"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

// TestModel: without faults the model is a store, directly and through sessions.
func TestModel(t *testing.T) {
	metadatatest.Run(t, func(*testing.T) metadata.Store { return metadata.NewModel(nil) }, nil)
	var model *metadata.Model
	metadatatest.Run(t, func(*testing.T) metadata.Store {
		model = metadata.NewModel(nil)
		return model.Session()
	}, func(*testing.T) metadata.Store { return model.Session() })
}

// TestModelFaults: an unknown outcome is one of an applied command or not, and
// reading tells which; an error means that nothing happened.
func TestModelFaults(t *testing.T) {
	fault := metadata.NoFault
	m := metadata.NewModel(func(*messages.MetadataCommand) metadata.Fault { return fault })
	ctx := context.Background()
	if _, err := m.Propose(ctx, metadatatest.Register(metadatatest.Job)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		fault metadata.Fault
		epoch uint64
		err   error
	}{{metadata.LostAnswer, 1, nil}, {metadata.LostCommand, 1, nil}, {metadata.Unavailable, 1, metadata.ErrUnavailable}, {metadata.NoFault, 2, nil}} {
		fault = test.fault
		r, err := m.Propose(ctx, metadatatest.StartEpoch(metadatatest.Job))
		if !errors.Is(err, test.err) {
			t.Fatalf("fault %d: %v", fault, err)
		}
		if unknown := err == nil && fault != metadata.NoFault; unknown != (r.GetOutcome() == messages.MetadataOutcome_UNKNOWN) {
			t.Fatalf("fault %d answered %v", fault, r)
		}
		record, err := m.Job(ctx, metadatatest.Job)
		if err != nil || record.Epoch != test.epoch {
			t.Fatalf("after fault %d the epoch is %d, not %d (%v)", fault, record.Epoch, test.epoch, err)
		}
	}
}
