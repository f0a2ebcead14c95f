// Package coordinator is the actor that runs one job: the shell around
// job.Master.
//
// It has one behaviour: every message goes to Master.Step, and the effects are
// carried out in their order. It accepts whatever the Master accepts:
// AcknowledgeCheckpoint, DeclineCheckpoint, TaskStateChanged, EndOfDataReached,
// SplitRequest, SourceProgress, Heartbeat, RequestCheckpoint, CancelJob,
// SuspendJob, TimerFired and WorkDone.
//
// Work runs on the Executor (work.go): proposals to the metadata store,
// checkpoint files, the discovery of splits. Its answers come back as WorkDone
// with the operation's id.
package coordinator
