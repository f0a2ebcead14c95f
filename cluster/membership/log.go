package membership

import (
	"context"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Gossip logs a line for each bad packet or connection, and a stranger may send many.
// What one host causes passes once in logRepeat, as long as its memory, of
// maxStrangers lines, lasts. Of all lines no more than logBurst pass in logWindow, and
// the rest are counted.
const (
	logBurst     = 20
	logWindow    = 10 * time.Second
	logRepeat    = time.Hour
	maxStrangers = 256
)

// levels are the prefixes by which memberlist says how serious a line is.
var levels = []struct {
	prefix string
	level  slog.Level
}{
	{"[DEBUG] ", slog.LevelDebug}, {"[INFO] ", slog.LevelInfo}, {"[WARN] ", slog.LevelWarn}, {"[ERR] ", slog.LevelError},
}

// logWriter takes in lines of memberlist and hands them on with their level. What
// memberlist calls an error is a warning here: a packet or a node was bad, and
// gossip goes on.
type logWriter struct {
	to *slog.Logger

	mu     sync.Mutex
	window time.Time // when it began
	passed int
	kept   int // lines that were left out
	// strangers are the lines that passed, without the port, and when.
	strangers map[string]time.Time
}

func gossipLog(to *slog.Logger) *log.Logger {
	return log.New(&logWriter{to: to, strangers: map[string]time.Time{}}, "", 0)
}

// Write implements io.Writer: one call is one line.
func (w *logWriter) Write(p []byte) (int, error) {
	line, level := strings.TrimSpace(string(p)), slog.LevelInfo
	for _, l := range levels {
		if text, ok := strings.CutPrefix(line, l.prefix); ok {
			line, level = text, min(l.level, slog.LevelWarn)
		}
	}
	if !w.to.Enabled(context.Background(), level) {
		return len(p), nil
	}
	if pass, kept := w.admit(line, time.Now()); pass {
		if kept > 0 {
			w.to.Warn("gossip: lines were left out, because there were too many", "lines", kept)
		}
		w.to.Log(context.Background(), level, "gossip: "+strings.TrimPrefix(line, "memberlist: "))
	}
	return len(p), nil
}

// admit reports whether a line passes, and how many were left out before it.
func (w *logWriter) admit(line string, now time.Time) (pass bool, kept int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, stranger, ok := strings.Cut(line, " from="); ok {
		key := line[:len(line)-len(stranger)+max(0, strings.LastIndexByte(stranger, ':'))]
		if last, known := w.strangers[key]; known && now.Sub(last) < logRepeat {
			return false, 0
		}
		if len(w.strangers) >= maxStrangers {
			clear(w.strangers)
		}
		w.strangers[key] = now
	}
	if now.Sub(w.window) >= logWindow {
		w.window, w.passed = now, 0
		kept, w.kept = w.kept, 0
	}
	if w.passed >= logBurst {
		w.kept++
		return false, 0
	}
	w.passed++
	return true, kept
}
