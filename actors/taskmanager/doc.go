// Package taskmanager is the actor that runs the tasks of one node.
//
// It has one behaviour and accepts:
//
//   - Deploy: starts the task, once per attempt. Repeated, it changes nothing;
//     for a task that has ended already, its end is reported again. Tasks of earlier
//     epochs of the job are cancelled; where some have a newer coordinator, nothing is
//     started.
//   - CancelTask: passed on to the task. An attempt that is not here and never
//     was is reported as cancelled and will not be started by a late deployment.
//   - AdoptTasks: the tasks of the job answer to another coordinator from now on, which
//     is told which there are.
//   - TaskStateChanged, from its own tasks: how they ended.
//   - Heartbeat, from coordinators: they are alive. One that is silent for
//     CoordinatorTimeoutMs is given up, and its tasks are cancelled. Before that, after
//     some seconds, the dispatcher is told of them through the agent.
//   - LinkLost, from the agent: passed on to every task.
//   - TimerFired: time to send its own sign of life to the coordinators.
package taskmanager
