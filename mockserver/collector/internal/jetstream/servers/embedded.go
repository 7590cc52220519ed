package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// maxPayload limits the size of a message on an embedded server.
	maxPayload = 8 << 20
	// startTimeout is the time limit for recovering the streams.
	startTimeout = 5 * time.Minute
)

// An Embedded is a NATS server in this process. It does not listen on the network. Clients connect
// with InProcessConn. After a restart, InProcessConn uses the new server.
type Embedded struct {
	options server.Options
	log     *slog.Logger
	Trouble chan error // receives an error if the current server cannot write; never closed

	mu     sync.Mutex     // guards the fields below
	server *server.Server // nil if it is not running
	starts int            // number of starts
	fatal  error          // error of the last start
}

// NewEmbedded returns a stopped server for a directory. The server syncs at the given interval, or
// before each response if the interval is 0.
func NewEmbedded(dir string, interval time.Duration, log *slog.Logger) *Embedded {
	options := server.Options{
		ServerName: "journal", DontListen: true, NoSigs: true, NoLog: true, MaxPayload: maxPayload,
		JetStream: true, StoreDir: dir, JetStreamMaxStore: math.MaxInt64 >> 2, DisableJetStreamBanner: true,
		SyncAlways: interval <= 0, SyncInterval: max(interval, 0),
	}
	return &Embedded{options: options, log: log, Trouble: make(chan error, 1)}
}

// Start starts the server and waits until it has recovered its streams.
func (e *Embedded) Start() error {
	options := e.options
	s, err := server.NewServer(&options)
	if err != nil {
		return fmt.Errorf("journal: the embedded server: %w", err)
	}
	s.SetLoggerV2(serverLog{e, e.begin()}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(startTimeout) || !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		e.mu.Lock()
		defer e.mu.Unlock()
		return fmt.Errorf("journal: the embedded server did not start: %w", errors.Join(e.fatal, errNotReady))
	}
	e.mu.Lock()
	e.server = s
	e.mu.Unlock()
	return nil
}

var errNotReady = errors.New("it is not ready")

// begin discards reports about earlier servers. It returns the number of the next server.
func (e *Embedded) begin() (start int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fatal = nil
	e.starts++
	select {
	case <-e.Trouble: //nolint:errcheck // the error is from a stopped server
	default:
	}
	return e.starts
}

// Stop stops the server. It returns an error if a write has failed since the start.
func (e *Embedded) Stop() error {
	e.mu.Lock()
	s := e.server
	e.server = nil
	e.mu.Unlock()
	if s == nil {
		return nil
	}
	s.Shutdown()
	s.WaitForShutdown()
	select {
	case err := <-e.Trouble:
		return err
	default:
		return nil
	}
}

// InProcessConn connects to the current server.
func (e *Embedded) InProcessConn() (net.Conn, error) {
	e.mu.Lock()
	s := e.server
	e.mu.Unlock()
	if s == nil {
		return nil, errors.New("journal: the embedded server is not running")
	}
	return s.InProcessConn()
}

// report sends err to Trouble if it is about the current server. It drops err if an error is
// already pending.
func (e *Embedded) report(start int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if start != e.starts {
		return
	}
	select {
	case e.Trouble <- err:
	default: // an error was already reported
	}
}

// Fail reports that the current server is unreliable.
func (e *Embedded) Fail(err error) {
	e.mu.Lock()
	start := e.starts
	e.mu.Unlock()
	e.report(start, err)
}

// serverLog forwards the server's log and detects failed writes. After a failed write, the server
// does not respond to requests for the stream, and reports the failure only in its log.
type serverLog struct {
	e     *Embedded
	start int // number of the server
}

func (l serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l serverLog) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l serverLog) Tracef(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }

func (l serverLog) Warnf(format string, v ...any) {
	l.write(slog.LevelWarn, format, v)
	l.watch(fmt.Sprintf(format, v...), v)
}

func (l serverLog) Errorf(format string, v ...any) {
	l.write(slog.LevelError, format, v)
	l.watch(fmt.Sprintf(format, v...), v)
}

func (l serverLog) Fatalf(format string, v ...any) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.e.fatal = causeOf(fmt.Sprintf(format, v...), v)
}

func (l serverLog) write(level slog.Level, format string, v []any) {
	if l.e.log.Enabled(context.Background(), level) {
		l.e.log.Log(context.Background(), level, "embedded server: "+fmt.Sprintf(format, v...))
	}
}

func (l serverLog) watch(text string, v []any) {
	lower := strings.ToLower(text)
	for _, sign := range []string{"critical write error", "failed to store", "out of space", "resources, will be disabled", "permission denied"} {
		if strings.Contains(lower, sign) {
			l.e.report(l.start, causeOf(text, v))
			return
		}
	}
}

// causeOf returns the error among the arguments of a log message. If there is none, it returns the
// message as an error.
func causeOf(text string, v []any) error {
	for _, a := range v {
		if err, ok := a.(error); ok {
			return err
		}
	}
	return errors.New(text)
}
