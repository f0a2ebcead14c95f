package job

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/protocol"
)

func (w *world) apply(c *messages.MetadataCommand) *messages.MetadataResult {
	return w.store.Apply(w.store.Index()+1, c)
}

func (w *world) answer(d *script.Directive) error {
	if len(w.work) == 0 {
		return errors.New("no work is outstanding")
	}
	i := 0
	if kind := d.Arg("work", ""); kind != "" {
		i = slices.IndexFunc(w.work, func(k protocol.Work) bool { return nameOf(k.Task) == kind })
		if i < 0 {
			return fmt.Errorf("no %s is outstanding", kind)
		}
	}
	if why := d.Arg("fail", ""); why != "" {
		return w.done(i, &messages.WorkDone{Failure: why, Io: true, Transient: d.Has("transient"), NoRestart: d.Has("no-restart")})
	}
	a := &messages.WorkDone{}
	if !d.Has("unapplied") && !d.Has("refused") && !d.Has("stale") && !d.Has("empty") {
		a = w.perform(w.work[i].Task)
	}
	switch {
	case d.Has("lost") || d.Has("unapplied"):
		a.Result = &messages.WorkDone_Metadata{Metadata: &messages.MetadataResult{
			Outcome: messages.MetadataOutcome_UNKNOWN, Failure: "leadership was lost"}}
	case d.Has("refused"):
		a.Result = &messages.WorkDone_Metadata{Metadata: &messages.MetadataResult{
			Outcome: messages.MetadataOutcome_REFUSED, Failure: "the job was deleted"}}
	case d.Has("stale"):
		a.Result = &messages.WorkDone_Metadata{Metadata: &messages.MetadataResult{Outcome: messages.MetadataOutcome_STALE_EPOCH}}
	}
	return w.done(i, a)
}

func nameOf(m proto.Message) string { return string(m.ProtoReflect().Descriptor().Name()) }

// done takes the i-th work off the list and hands its answer to the Master.
func (w *world) done(i int, a *messages.WorkDone) error {
	a.Op = w.work[i].Op
	w.work = slices.Delete(w.work, i, i+1)
	w.step(a)
	return nil
}

// perform does what an Executor would.
func (w *world) perform(task proto.Message) *messages.WorkDone {
	switch t := task.(type) {
	case *messages.Propose:
		return &messages.WorkDone{Result: &messages.WorkDone_Metadata{Metadata: w.apply(t.Command)}}
	case *messages.ReadJob:
		return &messages.WorkDone{Result: &messages.WorkDone_JobRecord{JobRecord: w.store.Job(t.Job)}}
	case *messages.RunMasterHook:
		return &messages.WorkDone{Result: &messages.WorkDone_HookSnapshot{HookSnapshot: &messages.MasterHookSnapshot{
			State: &messages.MasterState{Hook: t.Hook, State: fmt.Appendf(nil, "%s at %d", t.Hook, t.Checkpoint), Version: 1}}}}
	case *messages.WriteMetadata:
		location := t.Target
		if location == "" {
			location = fmt.Sprintf("chk-%d", t.Metadata.Checkpoint)
		}
		w.files[location] = proto.CloneOf(t.Metadata)
		return &messages.WorkDone{Result: &messages.WorkDone_MetadataWritten{MetadataWritten: &messages.MetadataWritten{
			Location: location, Size: 5, Hash: t.Metadata.Checkpoint}}}
	case *messages.LoadCheckpoint:
		location := t.Path
		if t.Record != nil {
			location = t.Record.Location
		}
		if why := w.broken[location]; why != "" {
			return &messages.WorkDone{Failure: why}
		}
		md := w.files[location]
		if md == nil {
			return &messages.WorkDone{Failure: "no such file", Io: true}
		}
		loaded := &messages.CheckpointLoaded{Metadata: md, Record: t.Record}
		for _, op := range md.Operators {
			if op.HasCoordinator {
				loaded.Coordinators = append(loaded.Coordinators, &messages.LoadedCoordinator{Uid: op.Uid, State: op.Coordinator.GetInline()})
			}
		}
		return &messages.WorkDone{Result: &messages.WorkDone_CheckpointLoaded{CheckpointLoaded: loaded}}
	case *messages.SweepCheckpoints:
		return &messages.WorkDone{Result: &messages.WorkDone_CheckpointsSwept{CheckpointsSwept: &messages.CheckpointsSwept{Files: 3, Bytes: 4096}}}
	case *messages.DiscoverSplits:
		s := &messages.SplitsDiscovered{}
		for i := range w.splits {
			s.Splits = append(s.Splits, &messages.Split{Id: fmt.Sprintf("%s-%d", t.Uid, i)})
		}
		return &messages.WorkDone{Result: &messages.WorkDone_SplitsDiscovered{SplitsDiscovered: s}}
	}
	return &messages.WorkDone{}
}
