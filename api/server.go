package api

import (
	"log/slog"
	"net/http"
	"time"
)

// Server returns a server of the handler with limits on size and time, so that
// slow and endless requests cost it nothing but their connection. Log is told what
// goes wrong with connections, at level debug; nil discards it.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
