// Package protocol is the roof over Cutwater's machines.
//
// A machine is an object that is fed one message at a time and answers with
// Effects: what the world should now do. It has no clock, goroutine, lock,
// randomness or input and output of its own: time arrives as the argument now
// and as TimerFired, the outcome of work arrives as WorkDone. So a machine is a
// function, its tests are scripts, and the actor around it is dull: one Receive
// and one loop over the effects.
//
// How a machine is written:
//
//   - its phases are enumerated, each with one sentence; a handler asserts the
//     phase that it needs;
//   - its outcomes are enumerated too: a late, repeated or unknown message is an
//     ordinary case with a name, not an error;
//   - what may happen only after something is durable is created only by the
//     Step that receives the answer of that durability;
//   - nothing depends on the order of a map;
//   - an assertion that fails panics with [Assertion]; the shell fails the task
//     or the job, and the restart from the last checkpoint repairs it.
package protocol
