package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestAudiencesAreSyncedAndUsersDeleted(t *testing.T) {
	script := axe(t)
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusGone)
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
	b.waitText(".notice.plain", "A list of 3 users: 3 calls")
	assert.Equal(t, "Big Spenders", eval[string](b, `document.querySelector('#name').value`))
	judge(b, script, "a list that was counted")
	b.click(".list-form .primary")
	b.waitText(".notice", "The list is stored.")
	b.waitText("#refresh", "big_spenders")
	b.wait(`document.querySelector('#refresh time') !== null`) // it is done, and the page has noticed
	judge(b, script, "audiences")

	b.typeInto("#name", "!")
	b.run(`document.querySelector('#destination').value = 'crm'`)
	b.click(".list-form .primary")
	b.waitText(".summary", "has no letter and no digit")
	judge(b, script, "a list that was refused")

	b.open("/deletions")
	b.typeInto("#users", "ada\ngrace")
	b.typeInto("#id", "gdpr-117")
	b.click(".list-form button")
	b.waitText("h1", "Deletion request gdpr-117")
	b.wait(`document.querySelectorAll('#refresh .is-failed').length === 2`)
	b.waitText("#refresh", "answered 410 (Gone)")
	judge(b, script, "a deletion request")
	b.open("/deletions")
	b.waitText("#refresh", "Done, with failures")
	judge(b, script, "deletion requests")
	for _, path := range []string{"/audiences", "/deletions", "/deletion?id=gdpr-117"} {
		b.dark(true)
		b.open(path)
		judge(b, script, path+", dark", "color-contrast")
		b.dark(false)
		b.size(390, 800)
		b.open(path)
		judge(b, script, path+", narrow")
		b.size(1440, 900)
	}
	d, err := collector.Users().Deletion(t.Context(), "gdpr-117")
	require.NoError(t, err)
	assert.Equal(t, 2, d.Sums().Delivered)
	b.forgive("422")
}

// TestPicturesOfAudiences shows the pages of audiences and deletion requests.
func TestPicturesOfAudiences(t *testing.T) {
	if os.Getenv("SCREENSHOTS") == "" {
		t.Skip("SCREENSHOTS names no folder for them")
	}
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusGone)
	srv, c := serve(t, engine.Config{
		Sources:      []tracking.Source{{Name: "web shop", WriteKey: "web-key"}, {Name: "backend", WriteKey: "back-key"}},
		Destinations: []tracking.Destination{to("crm", good.URL, "s3cret"), to("ads", good.URL, ""), to("alerts", gone.URL, "")},
	}, "")
	ctx := t.Context()
	many := make([]string, 60_000)
	for i := range many {
		many[i] = fmt.Sprintf("user-%05d", i)
	}
	for _, a := range []users.SyncRequest{
		{Name: "Big Spenders", Destination: "crm", List: strings.NewReader("ada\ngrace\nlinus")},
		{Name: "Big Spenders", Destination: "crm", List: strings.NewReader("ada\nken")},
		{Name: "Abandoned Carts (7 days)", Destination: "ads", List: strings.NewReader("margaret")},
		{Name: "Everyone", Destination: "alerts", List: strings.NewReader(strings.Join(many, "\n"))},
	} {
		a.Kind, a.Source = users.KindAudience, "web shop"
		s, err := c.Users().StartSync(ctx, a)
		require.NoError(t, err)
		if a.Name != "Everyone" {
			_, err = c.Users().WaitSync(ctx, s.ID)
			require.NoError(t, err)
		} else {
			require.NoError(t, c.AddDestination(ctx, to("later", gone.URL, "")))
		}
	}
	s, err := c.Users().StartSync(ctx, users.SyncRequest{
		Kind: users.KindTrait, Name: "Lifetime Value", Source: "backend", Destination: "crm",
		List: strings.NewReader(`{"userId":"ada","value":1200}` + "\n" + `{"userId":"ken","value":80.5}`),
	})
	require.NoError(t, err)
	_, err = c.Users().WaitSync(ctx, s.ID)
	require.NoError(t, err)
	for i, userIDs := range [][]string{{"ken"}, {"ada", "grace", "margaret"}} {
		_, err := c.Users().DeleteUsers(ctx, users.DeletionRequest{ID: fmt.Sprintf("gdpr-2026-%d", 117+i), UserIDs: userIDs, Source: []string{"", "backend"}[i]})
		require.NoError(t, err)
	}
	b := newTab(t, srv.URL)
	for _, look := range []struct {
		name          string
		dark          bool
		width, height int64
	}{{"light", false, 1440, 900}, {"dark", true, 1440, 900}, {"tablet", false, 768, 1024}, {"narrow", false, 390, 844}} {
		b.dark(look.dark)
		b.size(look.width, look.height)
		for name, path := range map[string]string{"audiences": "/audiences", "deletions": "/deletions", "deletion": "/deletion?id=gdpr-2026-117"} {
			b.open(path)
			b.shoot(name + "-" + look.name)
		}
	}
}
