package userpage

import (
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
)

const (
	// recentUsers limits the listed users.
	recentUsers = 25
	// recentItems limits the items that are searched for users.
	recentItems = 20_000
)

// recent returns the last accepted call of each recent user, newest first. Synthetic calls do not
// count.
func (p Pages) recent() []rows.Row {
	h := p.c.History()
	var items []history.Item
	seen := map[string]bool{}
	n := 0
	end, _ := h.End()
	h.Scan(end.Order+1, func(i *history.Item) bool {
		n++
		id := idOf(i)
		if i.Record != nil && id != "" && !seen[id] && !history.IsSynthetic(i.Call()) {
			seen[id] = true
			items = append(items, i.Snapshot())
		}
		return len(items) < recentUsers && n < recentItems
	})
	destinations := p.c.Attached()
	users := make([]rows.Row, len(items))
	for n := range items {
		users[n] = rows.New(h, &items[n], rows.Filter{}, destinations)
	}
	return users
}
