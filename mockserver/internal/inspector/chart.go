package inspector

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
)

// chartRanges are the ranges of the charts beyond the last five minutes, with the seconds per bar.
var chartRanges = map[string]struct{ span, bar int64 }{"hour": {3600, 60}, "day": {24 * 3600, 900}}

// tallyJSON returns the initial data of the charts: the last five minutes.
func (in *Inspector) tallyJSON() string {
	now := time.Now().Unix()
	data, _ := json.Marshal(map[string]any{"now": now, "seconds": chartRows(in.c.History().Seconds(0, now), 1)}) // numbers can always be marshaled
	return string(data)
}

// serveChart serves the counts of each bar of a range.
func (in *Inspector) serveChart(w http.ResponseWriter, r *http.Request) {
	chart, ok := chartRanges[r.URL.Query().Get("range")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	now := time.Now().Unix()
	first := (now/chart.bar+1)*chart.bar - chart.span
	page.SecureHeaders(w.Header())
	access.WriteJSON(w, r, http.StatusOK, map[string]any{"now": now, "bars": chartRows(in.c.History().Minutes(first, now), chart.bar)})
}

// chartRows returns the time and the counts of each bar. It merges intervals of the same bar.
func chartRows(intervals []history.Interval, bar int64) [][]int64 {
	rows := [][]int64{}
	for _, i := range intervals {
		at := i.At - i.At%bar
		if len(rows) == 0 || rows[len(rows)-1][0] != at {
			rows = append(rows, make([]int64, 1+history.TallyKinds))
			rows[len(rows)-1][0] = at
		}
		for kind, n := range i.N {
			rows[len(rows)-1][1+kind] += int64(n)
		}
	}
	return rows
}
