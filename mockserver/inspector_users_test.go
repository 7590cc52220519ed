package mockserver_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// submitList posts a list form like a browser, with the file last.
func submitList(t *testing.T, url, file string, fields ...string) (*http.Response, string) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, w.WriteField(fields[i], fields[i+1]))
	}
	part, err := w.CreateFormFile("file", "members.txt")
	require.NoError(t, err)
	_, err = part.Write([]byte(file))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, &body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", w.FormDataContentType())
	return exchange(t, newBrowser(t), req)
}

func TestInspectorAcceptsLists(t *testing.T) {
	srv := run(t, "crm", "ads")
	_, page := get(t, srv.URL+"/audiences")
	assert.Contains(t, page, "No audiences yet")

	const hostile = `Big <script>alert("1")</script> Spenders`
	fields := []string{"kind", "audience", "name", hostile, "source", "", "destination", "crm", "list", "u1\r\nu2\r\n"}
	res, page := submitList(t, srv.URL+"/audiences/sync?dryRun=true", "u3\nu1\n", fields...)
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Contains(t, page, "3 users: 3 calls for new members or values, 0 for members who left.")
	assert.Contains(t, page, "u1\r\nu2", "what was typed stays")
	assert.NotContains(t, page, "<script>alert")

	res, page = submitList(t, srv.URL+"/audiences/sync", "u3\nu1\n", fields...)
	assert.Equal(t, "/audiences", res.Request.URL.Path)
	assert.Contains(t, page, "List accepted. Calls are being sent.")
	_, err := srv.Wait(within(t), 3, mockserver.DeliveredTo("crm"))
	require.NoError(t, err)
	_, page = get(t, srv.URL+"/audiences", "X-Fragment", "1")
	assert.Contains(t, page, "big_script_alert_1_script_spenders")
	assert.NotContains(t, page, "<script>alert")
	assert.NotContains(t, page, "<html")

	res, page = submitList(t, srv.URL+"/audiences/sync", "u1\n\xff\n", fields...)
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	assert.Regexp(t, `line 5: is .* which is not UTF-8`, page)
	res, page = submitList(t, srv.URL+"/audiences/sync", "u1\n", "kind", "audience", "name", "x")
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	assert.Contains(t, page, "name one of crm, ads")
	res, _ = submit(t, srv.URL+"/audiences/sync", url.Values{"name": {"x"}})
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)

	res, page = submitList(t, srv.URL+"/audiences/sync", `{"userId":"u1","value":42}`, "kind", "trait", "name", "Lifetime Value", "destination", "ads")
	assert.Equal(t, http.StatusOK, res.StatusCode, page)
	_, err = srv.Wait(within(t), 1, mockserver.DeliveredTo("ads"))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"lifetime_value": json.Number("42")}, srv.Calls(mockserver.DeliveredTo("ads"))[0].Traits())

	all, err := srv.Engine().Users().Computations(within(t))
	require.NoError(t, err)
	require.Len(t, all, 2)
	res, page = submit(t, srv.URL+"/audiences/forget", url.Values{"id": {all[1].ID}})
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.NotContains(t, page, "lifetime_value")
	res, _ = submit(t, srv.URL+"/audiences/forget", url.Values{"id": {all[1].ID}})
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
}

func TestInspectorAcceptsALongList(t *testing.T) {
	srv := run(t, "crm")
	long := strings.Repeat("user-0000000001\n", 1<<17)
	res, page := submitList(t, srv.URL+"/audiences/sync?dryRun=true", long, "kind", "audience", "name", "x")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Contains(t, page, "1 user: 1 call for")
	res, page = submitList(t, srv.URL+"/audiences/sync", long, "kind", "audience", "name", "x", "destination", "none")
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, "the answer is seen though most of the file was still to come")
	assert.Contains(t, page, "there is no destination")
	res, page = submitList(t, srv.URL+"/audiences/sync", "u1", "name", "x", "list", long)
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	assert.Contains(t, page, "upload a long list as a file")
}

func TestDeletionFormSubmittedTwiceIsOneRequest(t *testing.T) {
	srv := run(t, "crm")
	form := func() url.Values {
		_, page := get(t, srv.URL+"/deletions")
		return url.Values{"newID": {find(t, page, `name="newID" value="([^"]+)"`)}, "users": {"ada"}}
	}
	first := form()
	for range 2 {
		res, _ := submit(t, srv.URL+"/deletions", first)
		assert.Equal(t, http.StatusOK, res.StatusCode)
	}
	_, _ = submit(t, srv.URL+"/deletions", form())
	all, err := srv.Engine().Users().Deletions(t.Context())
	require.NoError(t, err)
	assert.Len(t, all, 2, "each form is one request")
}

func TestInspectorCreatesDeletionRequests(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "w"}, {Name: "ios", WriteKey: "i"}},
		Destinations: hooks("crm", "ads"),
		Sender: webhook.SenderConfig{Transport: mockserver.NewTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "ads" {
				w.WriteHeader(http.StatusNotFound)
			}
		}))},
	})
	_, page := get(t, srv.URL+"/deletions")
	assert.Contains(t, page, "No deletion requests yet")
	res, page := submit(t, srv.URL+"/deletions", url.Values{"users": {""}})
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	assert.Contains(t, page, "UserIds: is empty")

	const hostile = `<b>"x"`
	res, page = submit(t, srv.URL+"/deletions", url.Values{"id": {hostile}, "source": {"web"}, "users": {"u1\r\nu2<i>\r\n\r\n"}})
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, hostile, res.Request.URL.Query().Get("id"))
	assert.Contains(t, page, "Request accepted.")
	awaitRecord(t, srv, "deletion."+text.Digest(hostile), func() bool {
		d, err := srv.Engine().Users().Deletion(t.Context(), hostile)
		require.NoError(t, err)
		return !d.CompletedAt.IsZero()
	})
	at := srv.URL + "/deletion?id=" + url.QueryEscape(hostile)
	_, page = get(t, at)
	assert.Contains(t, page, "u2&lt;i&gt;")
	assert.Equal(t, 2, strings.Count(page, `<span class="state is-delivered">delivered`))
	assert.Equal(t, 2, strings.Count(page, "responded with 404 (Not Found)"))
	assert.NotContains(t, page, hostile)
	_, page = get(t, at+"&state=failed&offset=1", "X-Fragment", "1")
	assert.Equal(t, 1, strings.Count(page, "responded with 404 (Not Found)"))
	assert.Contains(t, page, "Previous")
	assert.NotContains(t, page, "<html")
	_, page = get(t, at+"&state=pending")
	assert.Contains(t, page, "No pending notifications.")
	_, page = get(t, srv.URL+"/deletions")
	assert.Contains(t, page, "Done, with failures")

	res, page = submit(t, srv.URL+"/deletions", url.Values{"id": {hostile}, "users": {"u3"}})
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	assert.Contains(t, page, "exists with other users")
	res, _ = get(t, srv.URL+"/deletion?id=none")
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
}
