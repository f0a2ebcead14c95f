package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what a handler serves.
type Options struct {
	// Backend is the node that answers.
	Backend Backend
	// Token must be presented with every request but those for health and readiness, as
	// "Authorization: Bearer TOKEN". Empty means that no token is asked for; then
	// only requests to a name or address of this machine are answered, so that no web
	// page can reach the API under a name of its own.
	Token string
	// Version is the program's; Revision names the source that it was built from.
	Version, Revision string
	// Log is told of refused tokens, once for each peer, and of failures inside; nil
	// discards them.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const (
	// requestTimeout bounds what a request may wait for the cluster.
	requestTimeout = 30 * time.Second
	// maxBody and maxDeployBody bound the body of a request, in bytes.
	maxBody       = 4 << 20
	maxDeployBody = 12 << 20
	// maxStreams bounds the streams of events that are open at once.
	maxStreams = 64
)

// handler serves all routes.
type handler struct {
	Options
	guard    guard
	table    []route
	patterns [][]string    // of table, in segments
	document func() []byte // OpenAPI, made when it is first asked for
	streams  atomic.Int64
	// closing is done when streams are to end.
	closing    context.Context
	endStreams context.CancelFunc
	answered   [6]atomic.Uint64 // by the first digit of the status
}

// New returns the handler of all routes. Serve it with [Server], which sets the
// limits of a connection.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &handler{Options: o, guard: newGuard(o)}
	h.closing, h.endStreams = context.WithCancel(context.Background())
	h.table = h.routes()
	for _, r := range h.table {
		h.patterns = append(h.patterns, strings.Split(r.path, "/"))
	}
	h.document = sync.OnceValue(func() []byte { return openAPI(h.table, o.Version) })
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counted := &counting{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			h.Log.Error("a request failed by a panic, which is an error in Cutwater", "method", r.Method, "path", r.URL.Path,
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if !counted.written {
				writeFailure(counted, &failure{http.StatusInternalServerError, []string{"the node failed to answer; its log says why"}})
			}
		}
		h.answered[min(counted.status/100, 5)].Add(1)
	}()
	if err := h.serve(counted, r); err != nil {
		h.fail(counted, r, err)
	}
}

// serve finds the route and calls it; the error is for the client.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) error {
	route, params, allowed := h.find(r.Method, r.URL)
	if err := h.guard.check(w, r, route); err != nil {
		return err
	}
	switch {
	case route == nil && len(allowed) > 0:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return refuse(http.StatusMethodNotAllowed, "%s is not for %s here, but for %s", r.URL.Path, r.Method, strings.Join(allowed, ", "))
	case route == nil:
		return refuse(http.StatusNotFound, "Not found: %s", r.URL.Path)
	}
	if r.ContentLength > route.maxBody {
		w.Header().Set("Connection", "close")
		return tooLarge(route.maxBody)
	}
	r.Body = http.MaxBytesReader(w, r.Body, route.maxBody)
	ctx := r.Context()
	if !route.endless {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	return route.serve(&call{handler: h, ctx: ctx, w: w, r: r, params: params})
}

// fail answers with an error. Only what is the node's own fault is logged: whoever
// polls for what is not there must not fill the log.
func (h *handler) fail(w *counting, r *http.Request, err error) {
	if r.Context().Err() != nil || w.written {
		return // nobody listens, or it is too late
	}
	f := failureOf(err)
	if f.status == http.StatusInternalServerError {
		h.Log.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	writeFailure(w, f)
}

func tooLarge(limit int64) error {
	return refuse(http.StatusRequestEntityTooLarge, "the body of the request is larger than %d bytes", limit)
}

// counting remembers the status that was sent.
type counting struct {
	http.ResponseWriter
	status  int
	written bool
}

// WriteHeader implements http.ResponseWriter.
func (c *counting) WriteHeader(status int) {
	if !c.written {
		c.status, c.written = status, true
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *counting) Write(p []byte) (int, error) {
	c.written = true
	return c.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }
