package baseline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A Kind is a kind of difference.
type Kind string

const (
	Missing Kind = "missing" // the call is only in the file
	New     Kind = "new"     // the call is not in the file
	Moved   Kind = "moved"   // the order differs, and possibly values
	Changed Kind = "changed" // values differ

	same Kind = ""
)

// marks are the first characters of lines in a report. GitHub colors them in code blocks of the
// language diff.
var marks = map[Kind]string{Missing: "-", New: "+", Moved: "!", Changed: "!", same: " "}

// A Difference is a call of a run that differs from the file.
type Difference struct {
	User    string   `json:"user"` // user in the file, such as user 1, userId "u1"; unique in a report
	Kind    Kind     `json:"kind"`
	Call    string   `json:"call"` // type and event, such as track "Signed Up"
	Details []string `json:"details,omitempty"`
}

// A Report contains the differences of a run from a file.
type Report struct {
	OK          bool         `json:"ok"`
	Calls       int          `json:"calls"` // number of calls in the run
	Users       int          `json:"users"` // number of users in the run
	Differences []Difference `json:"differences"`

	entries []Difference // also contains the equal calls
}

// Compare returns the differences of a run from a file.
func Compare(got, want *File) *Report {
	r := &Report{Calls: got.Calls(), Users: len(got.Users), Differences: []Difference{}}
	m := &matcher{}
	g, w := candidates(got), candidates(want)
	x := m.users(g, w)
	for j, i := range x.gotOf {
		var theirs candidate
		if i >= 0 {
			theirs = g[i]
		}
		r.addUser(m, fmt.Sprintf("user %d", j+1), &theirs, &w[j])
	}
	added := 0
	for i, j := range x.wantOf {
		if j < 0 {
			added++
			r.addUser(m, fmt.Sprintf("new user %d", added), &g[i], &candidate{})
		}
	}
	r.OK = len(r.Differences) == 0
	return r
}

const (
	maxID    = 60  // bytes of an ID in a report
	maxShown = 200 // bytes of a new call in a report
	around   = 2   // equal calls around differences in a report
	maxLines = 200 // lines of a report
)

// addUser adds the calls of a user in the order of the run. A missing call is added after the calls
// that precede it in the file.
func (r *Report) addUser(m *matcher, name string, got, want *candidate) {
	if field, id := firstID(slices.Concat(got.calls, want.calls)); id != "" {
		name += ", " + field + " " + text.Quote(maxID, id)
	}
	x, moved := m.calls(got, want)
	next := 0 // index of the next call of the file
	addMissing := func(before int) {
		for ; next < before; next++ {
			if x.gotOf[next] < 0 {
				r.add(Difference{User: name, Kind: Missing, Call: want.calls[next].title})
			}
		}
	}
	for i, before := range ends(x.wantOf, moved, want) {
		addMissing(before)
		c, j := &got.calls[i], x.wantOf[i]
		d := Difference{User: name, Call: c.title}
		if j < 0 {
			d.Kind = New
			if v, ok := c.call[fields.Names[fields.Describing(c.text(fields.Type))]]; ok {
				d.Details = []string{jsondiff.Text(v, maxShown)}
			}
			r.add(d)
			continue
		}
		if moved[i] {
			d.Kind, d.Details = Moved, []string{fmt.Sprintf("is call %d of the user, want call %d", i+1, j+1)}
		}
		if lines := differences(c.call, want.calls[j].call); len(lines) > 0 {
			d.Kind, d.Details = cmp.Or(d.Kind, Changed), append(d.Details, lines...)
		}
		r.add(d)
	}
	addMissing(len(want.calls))
}

// ends returns an index in the file for each call of the run. Missing calls with a smaller index
// precede the call in a report.
func ends(wantOf []int, moved []bool, want *candidate) []int {
	ends, end := make([]int, len(wantOf)), len(want.calls)
	for i := len(wantOf) - 1; i >= 0 && want.order != anyOrder; i-- {
		if wantOf[i] >= 0 && !moved[i] {
			end = wantOf[i]
		}
		ends[i] = end
	}
	return ends
}

func (r *Report) add(d Difference) {
	r.entries = append(r.entries, d)
	if d.Kind != same {
		r.Differences = append(r.Differences, d)
	}
}

// Text describes the report for people. The first line contains the numbers of differences.
func (r *Report) Text() string {
	if r.OK {
		verb := "match"
		if r.Calls == 1 {
			verb = "matches"
		}
		return fmt.Sprintf("%s of %s %s the baseline", text.Plural(r.Calls, "call", "calls"), text.Plural(r.Users, "user", "users"), verb)
	}
	lines := []string{fmt.Sprintf("%s from the baseline (received %s of %s)", text.Plural(len(r.Differences), "difference", "differences"),
		text.Plural(r.Calls, "call", "calls"), text.Plural(r.Users, "user", "users"))}
	shown, user, gap := 0, "", false
	for i, d := range r.entries {
		if !r.near(i) {
			gap = true
			continue
		}
		if len(lines) >= maxLines && shown < len(r.Differences) {
			lines = append(lines, fmt.Sprintf("and %s", text.Plural(len(r.Differences)-shown, "more difference", "more differences")))
			break
		}
		if d.User != user {
			lines = append(lines, "", d.User)
			gap = i > 0 && r.entries[i-1].User == d.User
		}
		if gap {
			lines = append(lines, "  …")
		}
		user, gap = d.User, false
		lines = append(lines, marks[d.Kind]+" "+d.Call+suffixes[d.Kind])
		for _, detail := range d.Details {
			lines = append(lines, "      "+detail)
		}
		if d.Kind != same {
			shown++
		}
	}
	return strings.Join(lines, "\n")
}

// suffixes follow the titles of calls that are only in the run or only in the file.
var suffixes = map[Kind]string{Missing: " is missing", New: " is new"}

// near reports whether an entry is a difference, or is close to a difference of the same user.
func (r *Report) near(i int) bool {
	for j := max(0, i-around); j <= min(len(r.entries)-1, i+around); j++ {
		if r.entries[j].User == r.entries[i].User && r.entries[j].Kind != same {
			return true
		}
	}
	return false
}
