package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// failure is an answer that says no, with its status and sentences.
type failure struct {
	status int
	texts  []string
}

func (f *failure) Error() string { return f.texts[0] }

func refuse(status int, format string, args ...any) error {
	return &failure{status, []string{fmt.Sprintf(format, args...)}}
}

// failureOf is what an error of a handler or Backend becomes.
func failureOf(err error) *failure {
	var f *failure
	var refused *RefusedError
	status := http.StatusInternalServerError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &refused) && len(refused.Reasons) > 0:
		return &failure{http.StatusBadRequest, refused.Reasons}
	case errors.Is(err, ErrUnknownJob):
		status = http.StatusNotFound
	case errors.Is(err, ErrNameExists), errors.Is(err, ErrEnded):
		status = http.StatusConflict
	case errors.Is(err, ErrNoLeader), errors.Is(err, ErrNoCoordinator):
		status = http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{http.StatusServiceUnavailable, []string{fmt.Sprintf("the cluster did not answer within %v; try again", requestTimeout)}}
	}
	return &failure{status, []string{err.Error()}}
}

// Failure is the body of every answer that says no, and has this one member: the
// clients of Flink know it by that.
type Failure struct {
	// Errors are sentences for people, the most important one first.
	Errors []string `json:"errors"`
}

func writeFailure(w http.ResponseWriter, f *failure) {
	writeJSON(w, f.status, Failure{f.texts})
}

// writeJSON answers with a value. It is encoded before anything is sent, so that an
// answer is whole or an error.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := encode(v)
	if err != nil {
		status = http.StatusInternalServerError
		body, _ = json.Marshal(Failure{[]string{fmt.Sprintf("the answer cannot be encoded: %v", err)}}) // strings can
	}
	h := w.Header()
	h.Set("Content-Type", jsonType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // who does not listen any more is told nothing
}

const jsonType = "application/json; charset=UTF-8"
