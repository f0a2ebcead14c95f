package api

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server returns a server of the handler with limits on size and time, so that slow
// and endless requests cost it nothing but their connection. Its Shutdown ends the
// streams of events. Log is told what goes wrong with connections, at level debug,
// since anybody can cause it; nil discards it.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      requestTimeout + 30*time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if own, ok := h.(*handler); ok {
		s.RegisterOnShutdown(own.endStreams)
	}
	return s
}

// Limit bounds the connections of a listener that are open at once. One more is
// closed as soon as it is accepted: it costs the others nothing.
func Limit(l net.Listener, connections int) net.Listener {
	return &limited{Listener: l, free: make(chan struct{}, connections)}
}

type limited struct {
	net.Listener
	free chan struct{} // an element for each open connection
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			_ = c.Close() // the peer learns it, and nobody else has to
		}
	}
}

type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
