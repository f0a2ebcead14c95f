// Package agent is the actor through which a node hears from the dispatcher, and its
// coordinators reach it wherever it is.
//
// It has one behaviour and accepts:
//
//   - StartCoordinator, from the dispatcher: starts a coordinator on the Executor. If
//     one runs here or is being started, nothing changes. What fails is refused, with
//     the reason.
//   - SlotRequest, from coordinators of this node: passed on to the dispatcher at the
//     leader. Without a leader it is dropped; it comes again.
//   - Heartbeat, from the task manager of this node, of tasks whose coordinator is silent:
//     passed on in the same way.
//   - SlotInquiry, from a dispatcher that begins: passed on to the coordinators of this
//     node, and answered with who they are. One of an older term is dropped.
//   - NodeLost, from the node: told to the coordinators of this node and to its
//     dispatcher.
//   - Presence, from other nodes: nothing is done; it keeps a connection open.
//   - LinkLost, from the node: told to its task manager.
//   - WorkDone: how a start ended.
package agent
