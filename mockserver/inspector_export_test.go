package mockserver_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

func TestInspectorExportsAllMatchingCalls(t *testing.T) {
	srv := mockserver.RunT(t)
	for i := range 5 {
		post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprint(i), 150))
	}
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[{"type":"track","messageId":"hostile","userId":"=1+1","event":"<b>@x\r\n\"","properties":{"a":"\u2028"}},{"type":"track","userId":"-rejected"}]}`)
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[`)
	for search, want := range map[string]int{"": 753, "?q=status:rejected": 2, "?q=event:test": 750, "?q=id:%3Dhostile": 1, "?q=user:nobody": 0} {
		res, body := get(t, srv.URL+"/calls.csv"+search)
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Equal(t, "text/csv; charset=utf-8; header=present", res.Header.Get("Content-Type"))
		assert.Regexp(t, `^attachment; filename="calls-\d{8}T\d{6}Z\.csv"$`, res.Header.Get("Content-Disposition"))
		assert.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
		rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		require.NoError(t, err)
		require.Len(t, rows, 1+want, search)
		ids := map[string]bool{}
		for _, row := range rows[1:] {
			for _, cell := range row {
				assert.NotRegexp(t, `^[=+\-@\t\r]`, cell)
			}
			ids[row[8]+row[2]+row[10]] = true
		}
		assert.Len(t, ids, want, "each call once")

		res, body = get(t, srv.URL+"/calls.jsonl"+search)
		assert.Regexp(t, `^attachment; filename="calls-\d{8}T\d{6}Z\.jsonl"$`, res.Header.Get("Content-Disposition"))
		lines := strings.SplitAfter(body, "\n")
		require.Len(t, lines, want+1)
		for n, line := range lines[:want] {
			var call struct{ Ref, UserID, Event, MessageID, Code string }
			require.NoError(t, json.Unmarshal([]byte(line), &call))
			assert.NotEmpty(t, call.Ref)
			if call.MessageID == "hostile" {
				assert.Equal(t, []string{"=1+1", "<b>@x\r\n\""}, []string{call.UserID, call.Event})
			}
			assert.Equal(t, rows[n+1][2] == "rejected", call.Code != "")
		}
	}
	_, list := get(t, srv.URL+"/?q=event:test")
	assert.Contains(t, list, `href="/calls.csv?q=event%3Atest"`)
	for _, format := range []string{"csv", "jsonl"} {
		res, body := get(t, srv.URL+"/calls."+format+"?q=evnt:x")
		assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
		assert.Contains(t, body, "Character 1:")
		assert.Empty(t, res.Header.Get("Content-Disposition"))
	}
}

func TestExportRequiresTheToken(t *testing.T) {
	inspector, _ := newPages(t, newCollector(t, engine.Config{}), access.GuardConfig{Token: "the-admin-token"})
	browser := newBrowser(t)
	browser.Transport = mockserver.NewTransport(inspector)
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"/calls.csv", "/calls.jsonl?q=x"} {
		res, body := request(t, browser, http.MethodGet, "http://localhost"+path, nil)
		assert.Equal(t, http.StatusSeeOther, res.StatusCode)
		assert.NotContains(t, body, "receivedAt")
	}
}

func TestExpiredCallKeepsTheSearch(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "key", track("m", 1))
	const back = `<a class="close" href="/?q=event%3Atest"`
	_, body := get(t, srv.URL+"/?q=event:test&call=gone")
	assert.Contains(t, body, back)
	_, body = get(t, srv.URL+"/calls/gone?q=event:test", "X-Fragment", "1")
	assert.Contains(t, body, back)
}

func TestChartServesTheBarsOfARange(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "key", track("m", 3))
	for path, length := range map[string]int64{"/chart?range=hour": 60, "/chart?range=day": 900} {
		_, body := get(t, srv.URL+path)
		var chart struct {
			Now  int64
			Bars [][]int64
		}
		require.NoError(t, json.Unmarshal([]byte(body), &chart))
		accepted := int64(0)
		for _, bar := range chart.Bars { // the calls can arrive in two bars
			require.Len(t, bar, 8)
			assert.Zero(t, bar[0]%length)
			assert.LessOrEqual(t, bar[0], chart.Now)
			accepted += bar[1]
		}
		assert.EqualValues(t, 3, accepted)
	}
	for _, path := range []string{"/chart", "/chart?range=year"} {
		res, _ := get(t, srv.URL+path)
		assert.Equal(t, http.StatusNotFound, res.StatusCode)
	}
}
