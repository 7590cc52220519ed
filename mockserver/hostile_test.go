package mockserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// The HTTP server runs over pipes under synctest.
func TestSlowSendersAreDisconnected(t *testing.T) {
	for name, test := range map[string]struct {
		send   string        // sent immediately
		drip   string        // sent one byte per second
		within time.Duration // limit until the server closes the connection
	}{
		"nothing at all":           {"", "", 6 * time.Second},
		"half a request line":      {"POST /v1/ba", "", 6 * time.Second},
		"a header that never ends": {"POST /v1/batch HTTP/1.1\r\nHost: x\r\n", strings.Repeat("X-A: b\r\n", 100), 6 * time.Second},
		"a body that never begins": {"POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "", 21 * time.Second},
		"a body that drips":        {"POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000), 21 * time.Second},
		"chunks that drip":         {"POST /v1/batch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\n \r\n", 100), 21 * time.Second},
		"an idle kept-alive one":   {"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", "", 3 * time.Minute},
		"gzip that unpacks to nothing": {"POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"a\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\r\n", strings.Repeat("5\r\n\x00\x00\x00\xff\xff\r\n", 100), 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := engine.New(engine.Config{AnyWriteKey: true})
				require.NoError(t, err)
				defer func() { _ = c.Close() }()
				conn := dialPipe(t, c)
				start := time.Now()
				var sending sync.WaitGroup
				sending.Go(func() {
					_, _ = io.WriteString(conn, test.send)
					for i := range test.drip {
						time.Sleep(time.Second)
						if _, err := conn.Write([]byte{test.drip[i]}); err != nil {
							return
						}
					}
				})
				_, _ = io.Copy(io.Discard, conn) // returns when the server closes the connection
				assert.LessOrEqual(t, time.Since(start), test.within)
				_ = conn.Close()
				sending.Wait()
			})
		})
	}
}

// The client sends requests without reading responses until the server cannot write.
func TestSendersThatDoNotReadAreDisconnected(t *testing.T) {
	for name, request := range map[string]string{
		"calls":           "POST /v1/track HTTP/1.1\r\nHost: x\r\nAuthorization: Basic azo=\r\nContent-Length: 2\r\n\r\n{}",
		"what is refused": "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
		"pixels":          "GET /v1/pixel/track HTTP/1.1\r\nHost: x\r\n\r\n",
		"the admin API":   "GET /api/v1/openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"pages":           "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := dialPipe(t, mockserver.RunT(t, mockserver.Config{InProcess: true}).Handler())
				require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
				start := time.Now()
				var err error
				for err == nil {
					_, err = io.WriteString(conn, request)
				}
				assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
				assert.Equal(t, 20*time.Second, time.Since(start))
			})
		})
	}
}

// dialPipe returns a connection to a server for a handler. The server stops when the
// test ends.
func dialPipe(t *testing.T, handler http.Handler) net.Conn {
	listener := make(pipeListener, 1)
	srv := access.NewHTTPServer(handler)
	go func() { _ = srv.Serve(listener) }()
	conn, server := net.Pipe()
	listener <- server
	t.Cleanup(func() { _ = conn.Close(); _ = srv.Close() })
	return conn
}

// Bytes after an ambiguous body must not be parsed as a request.
func TestAmbiguousBodyLengthClosesTheConnection(t *testing.T) {
	srv := mockserver.RunT(t)
	for name, length := range map[string]string{"chunked": "", "chunked and a length": "Content-Length: 5\r\n"} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_, err = io.WriteString(conn, "POST /v1/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Basic azo=\r\n"+length+"Transfer-Encoding: chunked\r\n\r\n"+
				"c\r\n{\"batch\":[]}\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			all, err := io.ReadAll(conn)
			if err != nil {
				require.ErrorIs(t, err, syscall.ECONNRESET) // unread data was discarded
			}
			assert.Contains(t, string(all), "Connection: close")
			assert.Equal(t, 1, strings.Count(string(all), "HTTP/1.1 "), "%s", all)
		})
	}
}

// A pipeListener accepts the connections of its channel.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	conn, open := <-l
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// Invalid requests do not crash the server.
func TestHostileRequestsDoNotCrashTheServer(t *testing.T) {
	srv := mockserver.RunT(t)
	address := strings.TrimPrefix(srv.URL, "http://")
	for name, request := range map[string]string{
		"a header of 1 MB":        "POST /v1/batch HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n",
		"a million headers":       "POST /v1/batch HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 200_000) + "\r\n",
		"a path of 1 MB":          "POST /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"authorization of 60 KB":  "POST /v1/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + strings.Repeat("QUFB", 15_000) + "\r\nContent-Length: 2\r\n\r\n{}",
		"NULs":                    "\x00\x00\x00\x00\r\n\r\n",
		"NULs in a header":        "POST /v1/batch HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
		"TLS":                     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 200),
		"another protocol":        "SSH-2.0-OpenSSH_9.9\r\n",
		"HTTP/0.9":                "GET /\r\n",
		"HTTP/2":                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"a negative length":       "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"a huge length":           "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"a length it allows":      "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775807\r\n\r\n{}",
		"two lengths":             "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"length and chunks":       "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a chunk of no length":    "POST /v1/batch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a huge chunk":            "POST /v1/batch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"no host":                 "POST /v1/batch HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
		"a bad escape in a path":  "GET /v1/projects/%zz/settings HTTP/1.1\r\nHost: x\r\n\r\n",
		"a bad escape in a query": "GET /v1/pixel/track?data=%zz&%=%;; HTTP/1.1\r\nHost: x\r\n\r\n",
		"quotes in a host":        "GET /v1/projects/k/settings HTTP/1.1\r\nHost: a\"b\r\n\r\n",
		"a query of many dots":    "GET /v1/pixel/track?" + strings.Repeat("a.", 20_000) + "b=1&a=2&a.b=3 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		go func() { // the server may close the connection early
			_, _ = io.WriteString(conn, request)
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			assert.Less(t, res.StatusCode, 500, name)
			_ = res.Body.Close()
		}
		_ = conn.Close()
	}
	status, _ := post(t, srv.URL+"/v1/batch", "key", track("alive", 1))
	assert.Equal(t, http.StatusOK, status)
}

// A retained call must not keep its whole request in memory. Otherwise anyone with a write
// key could exhaust the memory.
func TestRetainedCallsDoNotPinTheirRequest(t *testing.T) {
	const requests, size = 20, 200_000
	good := func(i int) string {
		return fmt.Sprintf(`{"type":"track","event":"e","userId":"u","messageId":"small-%d"}`, i)
	}
	repeats := ""
	for i := range 500 {
		repeats += fmt.Sprintf(`,{"type":"page","userId":"u","messageId":"again-%d","name":%q}`, i, strings.Repeat("n", 340))
	}
	for name, rest := range map[string]string{
		"white space":          strings.Repeat(" ", size),
		"a call that is wrong": `,{"type":"no such","name":"` + strings.Repeat("n", size) + `"}`,
		"many wrong calls":     strings.Repeat(",0", 1_000),
		"repeats":              repeats,
	} {
		t.Run(name, func(t *testing.T) {
			d := hook("d", "http://127.0.0.1:1")
			d.Paused = true
			c, err := engine.New(engine.Config{AnyWriteKey: true, History: history.New(2 * requests), Destinations: []tracking.Destination{d}})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			take := func(i int) {
				require.Equal(t, http.StatusOK, serve(c, http.MethodPost, "/v1/batch", `{"batch":[`+good(i)+rest+`]}`).Code)
			}
			take(0)
			before := heap()
			for i := range requests {
				take(i + 1)
			}
			assert.Less(t, int64(heap()-before), int64(requests*size/4), "but for the first 32 KiB of a call that is wrong")
			runtime.KeepAlive(c)
		})
	}
}

// heap returns the number of heap bytes in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the second run frees pooled objects
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
