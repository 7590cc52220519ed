package inspector

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
)

// exportChunk is the number of calls that an export holds at a time.
const exportChunk = 100

// serveCSV serves the calls that match a search as CSV.
func (in *Inspector) serveCSV(w http.ResponseWriter, r *http.Request) {
	in.export(w, r, "csv", "text/csv; charset=utf-8; header=present", func(lines []export.Line, first bool) error {
		out := csv.NewWriter(w)
		if first {
			_ = out.Write(export.Columns) // Error reports the error
		}
		for _, line := range lines {
			_ = out.Write(line.Row())
		}
		out.Flush()
		return out.Error()
	})
}

// serveJSONLines serves the calls that match a search as one JSON object per line.
func (in *Inspector) serveJSONLines(w http.ResponseWriter, r *http.Request) {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	in.export(w, r, "jsonl", "application/jsonl", func(lines []export.Line, _ bool) error {
		for _, line := range lines {
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// export passes all calls that match a search to write, newest first and in chunks.
func (in *Inspector) export(w http.ResponseWriter, r *http.Request, format, contentType string, write func(lines []export.Line, first bool) error) {
	filter := rows.ReadFilter(r.URL.Query())
	filter.CheckDestinations(in.c.UnknownDestination)
	if filter.Problem != nil {
		http.Error(w, page.Sentence(filter.Problem.Error()), http.StatusUnprocessableEntity)
		return
	}
	h := w.Header()
	page.SecureHeaders(h)
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", `attachment; filename="calls-`+time.Now().UTC().Format("20060102T150405Z")+"."+format+`"`)
	destinations := in.c.Attached()
	match := filter.Matcher(destinations)
	end, _ := in.c.History().End()
	for before, first := end.Order+1, true; before > 0; first = false {
		var items []history.Item
		from := before
		before = 0
		in.c.History().Scan(from, func(i *history.Item) bool {
			if match(i) {
				items = append(items, i.Snapshot())
			}
			if len(items) == exportChunk {
				before = i.Order
			}
			return before == 0
		})
		lines := make([]export.Line, len(items))
		for n := range items {
			lines[n] = export.NewLine(in.c.History(), &items[n], destinations)
		}
		if write(lines, first) != nil || r.Context().Err() != nil || in.life.Err() != nil {
			panic(http.ErrAbortHandler) // so that the browser reports an incomplete file
		}
	}
}
