package stream

import (
	"context"
	"errors"
	"sync"
)

// errClosed is the end of work that its sink no longer wants.
var errClosed = errors.New("stream: the sink was closed")

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
	ran   bool
	err   error
}

// add puts work at the end of the queue.
func (q *workQueue) add(work func(context.Context) error) *job {
	j := &job{queue: q, work: work}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = append(q.jobs, j)
	return j
}

// clear drops what has not started.
func (q *workQueue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		j.ran, j.err = true, errClosed
	}
	q.jobs, q.failed = nil, nil
}

// run runs the job, after those before it, and returns its error.
func (j *job) run(ctx context.Context) error {
	q := j.queue
	q.running.Lock()
	defer q.running.Unlock()
	for {
		q.mu.Lock()
		if j.ran {
			defer q.mu.Unlock()
			return j.err
		}
		first, err := q.jobs[0], q.failed
		q.jobs = q.jobs[1:]
		q.mu.Unlock()
		if err == nil {
			err = first.work(ctx)
		}
		q.mu.Lock()
		first.ran, first.err, q.failed = true, err, err
		q.mu.Unlock()
	}
}

// succeeded reports whether the job has run without an error.
func (j *job) succeeded() bool {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	return j.ran && j.err == nil
}
