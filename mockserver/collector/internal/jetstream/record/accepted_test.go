package record

import (
	"bytes"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestAcceptedLine(t *testing.T) {
	for _, a := range []Accepted{
		{Seq: 7, Calls: 100, Source: "web"},
		{Seq: 8, Calls: 1, Source: ""},
		{Seq: 9, Calls: 2, Source: "a.b c"},
		{Seq: 10, Source: "KV_analytics-state"},
		{Seq: 11, Calls: 3, Destination: "crm", From: tracking.StateFailed},
		{Seq: 12, Calls: 3, Destination: "a.1 b", From: tracking.StateDelivered},
	} {
		line := a.Line()
		if got, ok := ParseAccepted(line); !ok || got != a {
			t.Errorf("%q is read as %+v, %v; want %+v", line, got, ok, a)
		}
		for i := range line {
			bad := bytes.Clone(line)
			bad[i] ^= 1
			if got, ok := ParseAccepted(bad); ok {
				t.Errorf("%q is read as %+v", bad, got)
			}
		}
	}
}
