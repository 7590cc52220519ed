package inspector

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
)

func TestEventsAreSortedByAgeAndAnomalies(t *testing.T) {
	start := time.Now()
	for sort, want := range map[string]string{"seen": "bca", "-seen": "acb", "anomalies": "cba", "-anomalies": "abc"} {
		events := []*shapes.Event{
			{Name: "a", LastSeen: start}, {Name: "b", LastSeen: start.Add(2), Violating: 1}, {Name: "c", LastSeen: start.Add(1), Anomalies: make([]shapes.Anomaly, 1)},
		}
		sortEvents(events, url.Values{"sort": {sort}})
		got := ""
		for _, e := range events {
			got += e.Name
		}
		assert.Equal(t, want, got, sort)
	}
}
