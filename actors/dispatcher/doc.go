// Package dispatcher is the actor that decides where jobs are coordinated and which
// slots they use: the shell around dispatch.Dispatcher. There is one on every node,
// and the one on the metadata leader's works.
//
// # Behaviours and what they accept
//
//   - Idle: LeadershipChanged begins a leadership, and with it a machine that knows
//     nothing yet; all else is dropped.
//   - Leading: whatever the machine accepts goes to it: SlotRequest,
//     SlotInquiryAnswer, Heartbeat, CoordinatorRefused, NodeLost, JobsChanged,
//     TimerFired and WorkDone. NodesChanged
//     makes the actor ask its node which nodes live. LeadershipChanged ends the
//     machine, or begins another one.
//
// Timers and answers carry the number of the leadership that asked for them, so that
// none of an earlier one reaches the machine.
package dispatcher
