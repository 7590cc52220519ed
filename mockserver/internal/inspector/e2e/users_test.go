package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestAudiencesAreSyncedAndUsersDeleted(t *testing.T) {
	t.Parallel()
	script := axe(t)
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound)
	srv, collector := serve(t, engine.Config{
		Sources:      []tracking.Source{{Name: "web shop", WriteKey: "web-key"}},
		Destinations: []tracking.Destination{to("crm", good.URL, "s3cret"), to("alerts", gone.URL, "")},
	}, "")
	b := newTab(t, srv.URL)
	for _, path := range []string{"/audiences", "/deletions"} {
		b.open(path)
		judge(b, script, path+", empty")
	}

	b.open("/audiences")
	b.typeInto("#name", "Big Spenders")
	b.run(`document.querySelector('#destination').value = 'crm'`)
	b.typeInto("#list", "ada\ngrace\nlinus")
	judge(b, script, "a list that was typed")
	b.click("[formaction]")
	b.waitText(".notice.plain", "3 users: 3 calls")
	assert.Equal(t, "Big Spenders", eval[string](b, `document.querySelector('#name').value`))
	judge(b, script, "a list that was counted")
	b.click(".list-form .primary")
	b.waitText(".notice", "List accepted.")
	b.waitText("#refresh", "big_spenders")
	b.wait(`document.querySelector('#refresh time') !== null`) // the sync is done and the page shows it
	judge(b, script, "audiences")

	b.typeInto("#name", "!")
	b.run(`document.querySelector('#destination').value = 'crm'`)
	b.click(".list-form .primary")
	b.waitText(".summary", "has no letters or digits")
	judge(b, script, "a list that was refused")
	b.run(`document.querySelector('#refresh').replaceChildren()`)
	b.waitText("#refresh", "big_spenders") // the section reloads even though the page is the response to a form

	b.open("/deletions")
	b.typeInto("#users", "ada\ngrace")
	b.typeInto("#id", "gdpr-117")
	b.click(".list-form button")
	b.waitText("h1", "Deletion request gdpr-117")
	b.wait(`document.querySelectorAll('#refresh .is-failed').length === 2`)
	b.waitText("#refresh", "responded with 404 (Not Found)")
	judge(b, script, "a deletion request")
	b.open("/deletions")
	b.waitText("#refresh", "Done, with failures")
	judge(b, script, "deletion requests")
	for _, path := range []string{"/audiences", "/deletions", "/deletion?id=gdpr-117"} {
		b.size(390, 800)
		b.open(path)
		judge(b, script, path+", narrow")
		b.look(1440, 900, false)
		judgeLightAndDark(b, script, path)
	}
	d, err := collector.Users().Deletion(t.Context(), "gdpr-117")
	require.NoError(t, err)
	assert.Equal(t, 2, d.Sums().Delivered)
	b.forgive("422")
}
