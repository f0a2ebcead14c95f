package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"time"
)

const (
	streamType = "application/x-ndjson"
	// lineTimeout is how long a reader of a stream may take for a line.
	lineTimeout = 30 * time.Second
)

func eventsRoute() route {
	r := route{method: http.MethodGet, path: "/events", doc: "What happened, one JSON object a line, oldest first.",
		answer: reflect.TypeFor[Event](), content: streamType, maxBody: maxBody, status: http.StatusOK, endless: true, serve: (*call).events}
	return r.with(
		parameter{"from", "integer", "The number of the first event that is wanted; all that are kept by default."},
		parameter{"job", "string", "The only job whose events are wanted."},
		parameter{"follow", "boolean", "Wait for more."})
}

// events streams. An error behind the first line is the last line, as the body of a
// Failure.
func (c *call) events() error {
	from, err := c.count("from", 0)
	if err != nil {
		return err
	}
	o := EventOptions{From: from}
	query := c.r.URL.Query()
	if id := query.Get("job"); id != "" {
		if o.Job, err = jobID(id); err != nil {
			return err
		}
	}
	if follow := query.Get("follow"); follow != "" {
		if o.Follow, err = strconv.ParseBool(follow); err != nil {
			return refuse(http.StatusBadRequest, "follow=%s is neither true nor false", follow)
		}
	}
	if c.streams.Add(1) > maxStreams {
		c.streams.Add(-1)
		return refuse(http.StatusServiceUnavailable, "%d streams of events are open on this node already; close one, or ask another node", maxStreams)
	}
	defer c.streams.Add(-1)

	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	s := stream{w: c.w, control: http.NewResponseController(c.w)}
	if o.Follow {
		s.start() // whoever waits wants to know that there is a node
	}
	for e, err := range c.Backend.Events(ctx, o) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !s.started:
			return err
		case err != nil:
			_ = s.line(Failure{failureOf(err).texts})
			return nil
		}
		if s.line(e) != nil {
			return nil // the reader is gone, or too slow
		}
	}
	s.start()
	return nil
}

// stream writes lines of JSON.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	started bool
}

func (s *stream) start() {
	if s.started {
		return
	}
	s.started = true
	s.w.Header().Set("Content-Type", streamType)
	s.w.Header().Set("Cache-Control", "no-store")
	s.w.WriteHeader(http.StatusOK)
	_ = s.control.Flush() // where it cannot, lines come later
}

func (s *stream) line(v any) error {
	s.start()
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	// The server's limit is for whole answers; a stream has one for each line.
	_ = s.control.SetWriteDeadline(time.Now().Add(lineTimeout))
	if _, err := s.w.Write(append(text, '\n')); err != nil {
		return err
	}
	return s.control.Flush()
}
