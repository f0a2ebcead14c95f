package stream

import (
	"context"
	"errors"
	"sync"
)

var (
	// errClosed is the end of work that its sink no longer wants.
	errClosed = errors.New("stream: the sink was closed")
	// errPanicked is the end of work that panicked; the panic itself goes to whoever
	// ran it.
	errPanicked = errors.New("stream: the sink's work panicked")
)

// workQueue runs work in order and one at a time, wherever it is run: whoever
// runs a job first runs those before it. So no work waits for other work that
// has not started, which an Executor might never start meanwhile. After a
// failure nothing more runs.
type workQueue struct {
	// running is held while a job runs, so it is never taken by the task itself.
	running sync.Mutex
	mu      sync.Mutex
	jobs    []*job
	failed  error
}

type job struct {
	queue *workQueue
	work  func(context.Context) error
	// always: it runs also after a failure.
	always bool
	ran    bool
	err    error
}

// add puts work at the end of the queue.
func (q *workQueue) add(work func(context.Context) error) *job {
	j := &job{queue: q, work: work}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = append(q.jobs, j)
	return j
}

// end drops what has not started and adds the last work, which runs whatever became of
// the work before it: it is what gives files and connections back.
func (q *workQueue) end(work func(context.Context) error) *job {
	j := &job{queue: q, work: work, always: true}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, dropped := range q.jobs {
		dropped.ran, dropped.err = true, errClosed
	}
	q.jobs = []*job{j}
	return j
}

// run runs the job, after those before it, and returns its error.
func (j *job) run(ctx context.Context) error {
	q := j.queue
	q.running.Lock()
	defer q.running.Unlock()
	for {
		q.mu.Lock()
		ran, err := j.ran, j.err
		q.mu.Unlock()
		if ran {
			return err
		}
		q.runFirst(ctx)
	}
}

// runFirst runs the job that waits the longest. A panic must not leave the queue as if
// that job had done its work:
//
//  1. a flush panics and lets go of running
//  2. the next job, which prepares a checkpoint without the records of that flush, runs
//  3. it is acknowledged before the task has heard of 1, and the checkpoint completes
//
// (TestWorkQueuePanic)
func (q *workQueue) runFirst(ctx context.Context) {
	q.mu.Lock()
	first, err := q.jobs[0], q.failed
	q.jobs = q.jobs[1:]
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		first.ran, first.err, q.failed = true, err, err
		q.mu.Unlock()
	}()
	if err == nil || first.always {
		err = errPanicked
		err = first.work(ctx)
	}
}

// succeeded reports whether the job has run without an error.
func (j *job) succeeded() bool {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	return j.ran && j.err == nil
}
