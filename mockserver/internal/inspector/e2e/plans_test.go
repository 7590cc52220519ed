package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// plans reports violations for the user bad. It rejects the calls of source refused and
// quarantines the calls of source held.
type plans struct{}

func (plans) Judge(c *tracking.Call, _ []byte) (v ingest.Verdict) {
	if c.UserID == "bad" {
		v.Reject = c.Source == "refused"
		v.Violations = []tracking.Violation{
			{Kind: "missing property", Event: "Order Completed", Pointer: "/properties/orderId", Message: "/properties/orderId is missing; expected a string", Plan: "shop", Line: 5},
			{Kind: "invalid value", Event: "Order Completed", Pointer: "/properties/currency", Message: `/properties/currency is "<b>eur"; expected one of "EUR", "USD"; did you mean "EUR"?`, Plan: "shop", Line: 7},
		}
	}
	return v
}

func (p plans) Quarantine(c *tracking.Call) string {
	if v := p.Judge(c, nil); c.Source == "held" && len(v.Violations) > 0 {
		return v.Violations[0].Message
	}
	return ""
}

func TestPlanViolationsAreMarked(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, http.StatusOK)
	srv, _ := serve(t, engine.Config{AnyWriteKey: true, Plans: plans{}, Destinations: []tracking.Destination{to("crm", r.URL, "")}}, "")
	for _, source := range []string{"marked", "held", "refused"} {
		post(t, srv.URL, source, track(source+"-1", "good", "Order Completed", `{"orderId":"o-1","currency":"EUR"}`), track(source+"-2", "bad", "Order Completed", `{"currency":"<b>eur"}`))
	}
	b := newTab(t, srv.URL)
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .row').length === 6`)
	b.wait(`document.querySelectorAll('#rows .is-filtered').length === 1`)
	assert.Equal(t, 2, b.count("#rows .m-plan"), "calls that were taken though they are Plan violation")
	for _, source := range []string{"marked", "held", "refused"} {
		b.open("/?source=" + source + "&user=bad")
		b.click("#rows .row a")
		b.waitText("#panel .violations", "missing property")
		text := b.text("#panel .violations")
		assert.Contains(t, text, `"<b>eur"; expected one of`)
		assert.Contains(t, text, "line 7")
		b.shoot("plan-" + source)
	}
	b.open("/?source=held&user=bad")
	b.click("#rows .row a")
	b.waitText("#panel .destination.is-filtered", "plan: /properties/orderId is missing")
	assert.True(t, strings.Contains(b.text("#panel .destination"), "Replay"), "what is quarantined can be replayed")
}

func TestEventPageShowsPlanViolations(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{AnyWriteKey: true, Plans: plans{}}, "")
	post(t, srv.URL, "marked", track("1", "good", "Order Completed", `{"orderId":"o-1","currency":"EUR"}`), track("2", "bad", "Order Completed", `{"currency":"<b>eur"}`))
	b := newTab(t, srv.URL)
	b.open("/events")
	b.waitText(".events", "1 plan violation")
	b.click(".events tbody a")
	b.waitText("#plan-title", "1 call; plan shop")
	assert.Contains(t, b.text("[aria-labelledby=plan-title]"), `missing property /properties/orderId is missing; expected a string (line 5) 1 call`)
	judge(b, axe(t), "what is not planned")
	b.click("[aria-labelledby=plan-title] a")
	b.waitText("#panel .violations", "missing property")
}

func TestPlanPageListsViolations(t *testing.T) {
	t.Parallel()
	script := axe(t)
	srv, _ := serve(t, engine.Config{AnyWriteKey: true, Plans: plans{}}, "")
	b := newTab(t, srv.URL)
	b.open("/plans")
	b.waitText("h2", "No accepted call violates a plan")
	judge(b, script, "no violations")
	post(t, srv.URL, "marked", track("1", "good", "Order Completed", `{"orderId":"o-1","currency":"EUR"}`), track("2", "bad", "Order Completed", `{"currency":"<b>eur"}`))
	post(t, srv.URL, "other", track("3", "bad", "Order Completed", `{}`), track("4", "bad", "Order Completed", `{}`))
	post(t, srv.URL, "refused", track("5", "bad", "Order Completed", `{}`))
	b.open("/events")
	b.click(`.heading a`)
	b.waitText(".notice", "1 rejected call violated a tracking plan.")
	assert.Equal(t, 4, b.count("tbody tr"))
	first := b.text("tbody tr")
	assert.Contains(t, first, "Order Completed")
	assert.Contains(t, first, "missing property /properties/orderId is missing; expected a string")
	assert.Contains(t, first, "shopline 5 other 2", "the most frequent violation is the first")
	assert.Contains(t, b.text("tbody"), `"<b>eur"; expected one of`)
	assert.Less(t, eval[float64](b, `document.querySelector('tbody th a').getBoundingClientRect().height`), 30.0, "the event is on one line")
	judgeLightAndDark(b, script, "violations")
	shootWidths(b, "plans")
	b.look(390, 844, false)
	judge(b, script, "violations, narrow")
	b.click(`tbody a[href^="/?call"]`)
	b.waitText("#panel .violations", "missing property")
	b.open("/plans")
	b.click(".notice a")
	b.wait(`document.querySelectorAll('#rows tr').length === 1`)
}
