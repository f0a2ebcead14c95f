// Package coordinator is the actor that runs one job: the shell around
// job.Master.
//
// It has one behaviour: every message goes to Master.Step, and the effects are
// carried out in their order. It accepts whatever the Master accepts:
// AcknowledgeCheckpoint, DeclineCheckpoint, TaskStateChanged, EndOfDataReached,
// SplitRequest, SplitAck, SourceProgress, TaskReport, Standing, Heartbeat,
// AdoptableTasks, TaskAccount, SlotOffer, SlotInquiry, NodeLost, RequestCheckpoint,
// CancelJob, SuspendJob, TimerFired and WorkDone. JobQuery it answers itself, from the Master as it stands (view.go).
//
// Work runs on the Executor (work.go): proposals to the metadata store, checkpoint
// files, the discovery of splits, master hooks (hooks.go). Its answers come back
// as WorkDone with the operation's id.
//
// A panic, above all a broken assertion of the Master, ends the actor, and a
// successor takes the job over as after a loss of the node (successor.go).
package coordinator
