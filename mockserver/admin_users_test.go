package mockserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// sendList uploads an audience list, streamed.
func sendList(t *testing.T, client *http.Client, url string, list io.Reader) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/audiences/Big%20Spenders/syncs", list)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "text/plain")
	res, answer := exchange(t, client, req)
	return res.StatusCode, answer
}

func TestAdminAcceptsASlowList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "key"}}, Destinations: hooks("crm"), Sender: webhook.SenderConfig{
			Transport: mockserver.NewTransport(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
		}})
		listener := make(pipeListener, 1)
		server := access.NewHTTPServer(admin.New(c, "test"))
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			listener <- far
			return near, nil
		}}}
		defer client.CloseIdleConnections()

		r, w := io.Pipe()
		defer r.Close()
		go func() {
			for i := range 10 {
				time.Sleep(15 * time.Second) // a slow sender
				fmt.Fprintf(w, "u%d\n", i)
			}
			w.Close()
		}()
		status, answer := sendList(t, client, "http://localhost", r)
		assert.Equal(t, http.StatusCreated, status, answer)
	})
}

// awaitRecord waits until done returns true after a change of a record.
func awaitRecord(t *testing.T, srv *mockserver.Server, key string, done func() bool) {
	t.Helper()
	changes, err := srv.Engine().StateStore().Watch(within(t), key)
	require.NoError(t, err)
	for !done() {
		_, more := <-changes
		require.True(t, more, "%s does not change", key)
	}
}

func TestAdminRefusesATruncatedList(t *testing.T) {
	srv := run(t, "crm")
	status, answer := sendList(t, http.DefaultClient, srv.URL, strings.NewReader("u1\nu2\nu3\n"))
	assert.Equal(t, http.StatusCreated, status, answer)
	var first users.Sync
	require.NoError(t, json.Unmarshal([]byte(answer), &first))
	computation, _, _ := strings.Cut(first.ID, "-")
	awaitRecord(t, srv, "computation."+computation, func() bool {
		s, err := srv.Engine().Users().Sync(t.Context(), first.ID)
		require.NoError(t, err)
		return s.State == users.SyncDone
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
	require.NoError(t, err)
	fmt.Fprintf(conn, "POST /api/v1/audiences/Big%%20Spenders/syncs HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nu1\n\r\n")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite()) // as if the sender was killed
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	all, err := srv.Engine().Users().Computations(within(t))
	require.NoError(t, err)
	assert.Len(t, all[0].Syncs, 1)
	assert.EqualValues(t, 3, all[0].Users)
}

func TestAdminErrorsInALongList(t *testing.T) {
	srv := run(t, "crm")
	long := strings.Repeat("user-0000000001\n", 1<<18)
	status, answer := sendList(t, http.DefaultClient, srv.URL, strings.NewReader(long[:len(long)/2]+"\xff\n"+long))
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, answer, "line 131073: is")
	assert.Contains(t, answer, "not UTF-8")
	status, answer = sendList(t, http.DefaultClient, srv.URL, strings.NewReader("\n\r\n"))
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, answer, `"code":"empty_list"`)
	api := admin.New(srv.Engine(), "test")
	for _, test := range []struct {
		query, contentType, expect string
		status, unread             int
	}{
		{"", "application/json", "", http.StatusUnsupportedMediaType, 0},
		{"", "application/json", "100-continue", http.StatusUnsupportedMediaType, len(long)},
		{"?full=maybe", "text/plain", "", http.StatusBadRequest, 0},
	} {
		list := strings.NewReader(long)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/api/v1/audiences/x/syncs"+test.query, list)
		req.Header.Set("Content-Type", test.contentType)
		if test.expect != "" {
			req.Header.Set("Expect", test.expect)
		}
		response := httptest.NewRecorder()
		api.ServeHTTP(response, req)
		assert.Equal(t, test.status, response.Code, response.Body)
		assert.Equal(t, test.unread, list.Len(), "the unread part of the list")
	}
}
