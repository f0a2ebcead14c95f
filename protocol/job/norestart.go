package job

import "errors"

// noRestartError is a failure, other than a task's, that no restart can mend.
type noRestartError struct{ error }

// noRestart reports whether no restart can mend err. Flink: ThrowableClassifier.
func noRestart(err error) bool {
	var task *TaskFailedError
	var other noRestartError
	return errors.As(err, &task) && task.Failure.GetNoRestart() || errors.As(err, &other)
}
