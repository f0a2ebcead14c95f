package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Options say what a handler serves.
type Options struct {
	// Backend is the node that answers.
	Backend Backend
	// Token must be presented with every request but that for health, as
	// "Authorization: Bearer TOKEN". Empty means that no token is asked for; then
	// only names and addresses of this machine are answered, so that no web page can
	// reach the API under a name of its own.
	Token string
	// Version is the program's, starting with major.minor.patch; Revision names the
	// source that it was built from.
	Version, Revision string
	// Log is told of refused tokens and of failures inside; nil discards them.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// New returns the handler of all routes. Serve it with [Server], which sets the
// limits.
func New(o Options) http.Handler {
	return http.NotFoundHandler()
}
