// Package taskmanager is the actor that runs the tasks of one node.
//
// It accepts, in its single phase:
//
//   - Deploy: starts the task, once per attempt. Repeated, it changes nothing;
//     for a task that has ended already, its end is reported again.
//   - CancelTask: passed on to the task. An attempt that is not here and never
//     was is reported as cancelled and will not be started by a late Deploy.
//   - TaskStateChanged, from its own tasks: how they ended.
//   - TaskStateAck: the coordinator knows the end; it can be forgotten later.
//   - Heartbeat, from coordinators: they are alive. TimerFired: send ours.
package taskmanager
