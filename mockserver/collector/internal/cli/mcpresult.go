package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// Limits of the results of tools, in bytes of JSON.
const (
	maxToolList   = 16 << 10
	maxToolString = 1000
)

// A toolResult is the result of a tool, as JSON. Summary and LeftOut contain no values of calls.
type toolResult struct {
	Summary string   `json:"summary"`
	LeftOut []string `json:"leftOut,omitempty"` // omitted data, and how to get it
	// Untrusted contains calls, responses of receivers, and text about them.
	Untrusted any `json:"untrusted,omitempty"`
}

// leaveOut records omitted data.
func (r *toolResult) leaveOut(format string, args ...any) {
	r.LeftOut = append(r.LeftOut, fmt.Sprintf(format, args...))
}

// encode returns the result as JSON. It shortens long strings, and escapes invisible characters,
// which could hide instructions from a reader.
func (r *toolResult) encode() string {
	data, shortened := shorten(text.JSON(r.Untrusted, ""))
	if shortened > 0 {
		r.leaveOut("%s shortened to %d bytes", count(shortened, "string"), maxToolString)
	}
	encoded := *r
	if r.Untrusted != nil {
		encoded.Untrusted = json.RawMessage(data)
	}
	return string(text.PlainJSON(text.JSON(encoded, "")))
}

// shorten shortens the strings in JSON to maxToolString bytes and returns their number.
func shorten(data []byte) (out []byte, shortened int) {
	for len(data) > 0 {
		start := bytes.IndexByte(data, '"')
		if start < 0 {
			break
		}
		end := start + 1
		for ; data[end] != '"'; end++ {
			if data[end] == '\\' {
				end++
			}
		}
		end++
		out = append(out, data[:start]...)
		literal := data[start:end]
		var s string
		if len(literal) > maxToolString && json.Unmarshal(literal, &s) == nil && len(s) > maxToolString {
			literal, _ = json.Marshal(text.CutBytes(maxToolString, s)) // cannot fail for a string
			shortened++
		}
		out = append(out, literal...)
		data = data[end:]
	}
	return append(out, data...), shortened
}

// fit returns the first items of a list, at least one, that have at most maxToolList bytes. The result is not
// nil, so that an empty list is [] in JSON.
func fit[T any](items []T) []T {
	items = append([]T{}, items...)
	size := 0
	for i, item := range items {
		data, err := json.Marshal(item)
		if err == nil {
			data, _ = shorten(data)
		}
		if size += len(data); size > maxToolList && i > 0 {
			return items[:i]
		}
	}
	return items
}

// page returns the items of a list from an offset that fit into the result.
func page[T any](r *toolResult, all []T, offset int, thing string) ([]T, error) {
	if offset < 0 || offset > len(all) {
		return nil, fmt.Errorf("invalid offset %d: use a number from 0 to %d", offset, len(all))
	}
	shown := fit(all[offset:])
	r.Summary = fmt.Sprintf("%d of %s", len(shown), count(len(all), thing))
	if next := offset + len(shown); next < len(all) {
		r.leaveOut("%s: set offset to %d", count(len(all)-next, thing), next)
	}
	return shown, nil
}

// lines splits a text into lines that fit into a result.
func (r *toolResult) lines(s string) []string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	shown := fit(all)
	if len(shown) < len(all) {
		r.leaveOut("lines %d to %d: use more filters", len(shown)+1, len(all))
	}
	return shown
}

// safeURL returns a URL without the parts that often contain secrets: the password and the query.
func safeURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(invalid URL)"
	}
	u.User, u.Fragment = nil, ""
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.String()
}

// webURL matches a URL in a text.
var webURL = regexp.MustCompile(`https?://[^\s"]+`)

// safeText applies safeURL to the URLs in an error.
func safeText(s string) string {
	return webURL.ReplaceAllStringFunc(s, func(found string) string {
		end := len(strings.TrimRight(found, ":;,."))
		return safeURL(found[:end]) + found[end:]
	})
}

// safe removes secrets from the reasons of a call.
func (c *call) safe() {
	for i := range c.Destinations {
		c.Destinations[i].Reason = safeText(c.Destinations[i].Reason)
	}
}

// cutBody replaces a body of more than limit bytes with a string that contains its beginning.
func (c *call) cutBody(limit int) bool {
	if body, _ := shorten(c.Body); len(body) <= limit {
		return false
	}
	c.Body, _ = json.Marshal(text.CutBytes(maxToolString, string(c.Body))) // cannot fail for a string
	return true
}

// newest returns the newest attempts that fit into the result, in the same order. It removes the
// requests, which repeat the call and contain signatures.
func (r *toolResult) newest(attempts []export.Attempt) []export.Attempt {
	shown := slices.Clone(attempts)
	for i := range shown {
		a := &shown[i]
		a.URL, a.Error, a.RequestHeader, a.RequestBody, a.ResponseHeader = safeURL(a.URL), safeText(a.Error), nil, "", nil
	}
	for len(fit(shown)) < len(shown) {
		oldest := slices.MinFunc(shown, func(a, b export.Attempt) int { return a.Time.Compare(b.Time) })
		shown = slices.DeleteFunc(shown, func(a export.Attempt) bool { return a.Time.Equal(oldest.Time) })
	}
	if left := len(attempts) - len(shown); left > 0 {
		r.leaveOut("the oldest %s: open the call in the inspector", count(left, "attempt"))
	}
	return shown
}

// addTool adds a tool. If it has no schema of its arguments, the schema is derived from In. Numbers in
// fields of type any keep their digits.
func addTool[In any](s *mcp.Server, tool mcp.Tool, run func(context.Context, In) (toolResult, error)) {
	mcp.AddTool(s, &tool, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		if len(req.Params.Arguments) > 0 { // valid, because in was decoded from it
			var exact In
			d := json.NewDecoder(bytes.NewReader(req.Params.Arguments))
			d.UseNumber()
			if err := d.Decode(&exact); err != nil {
				return nil, nil, err
			}
			in = exact
		}
		ctx, cancel := context.WithTimeout(ctx, requestTimeout+grace)
		defer cancel()
		result, err := run(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: result.encode()}}}, nil, nil
	})
}
