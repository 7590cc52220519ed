package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestDestinationIsCreatedTestedAndChanged(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, http.StatusOK)
	srv, collector := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}, {Name: "ios", WriteKey: "ios-key"}}}, "")
	b := newTab(t, srv.URL)
	b.open("/destinations")
	assert.Contains(t, b.text("main"), "No destinations yet")
	b.click(".empty-card a")
	b.waitText("h1", "New destination")
	b.ready()

	b.typeInto("#name", "warehouse")
	b.click("#more summary")
	b.click(`[name="sources"][value="web"]`)
	b.wait(`document.querySelector('[name="allSources"][value="false"]').checked`)
	b.typeInto("#url0", hook.URL+"/in")
	b.typeInto("#headers0", "X-Team: growth\nAuthorization: Bearer t0ken")
	b.typeInto("#sharedSecret", "s3cret")
	assert.Equal(t, 1, eval[int](b, `[...document.querySelectorAll('[data-webhook]')].filter((w) => w.checkVisibility()).length`))
	b.click("[data-add-webhook]")
	b.typeInto("#url1", hook.URL+"/second")

	// Test before saving.
	b.click("[data-result=test]")
	b.waitText("#test", "Accepted: 200")
	assert.Equal(t, 2, b.count("#test .answer"))
	bodies, heads := hook.got()
	require.Len(t, bodies, 2)
	assert.Equal(t, "growth", heads[0].Get("X-Team")+heads[1].Get("X-Team"))
	require.NoError(t, webhook.Verify("s3cret", []byte(bodies[0]), heads[0].Get("X-Signature")))
	b.shoot("destination-test")
	hook.status.Store(http.StatusTeapot)
	b.set("#testType", "alias")
	b.click("[data-result=test]")
	b.waitText("#test", "Not accepted: responded with 418")
	hook.status.Store(http.StatusOK)
	assert.Empty(t, collector.Settings().Destinations, "nothing is saved by a test")

	b.click(`[name="enabled"]`)
	b.click(".save .primary")
	b.waitText(".notice", "Destination saved.")
	b.waitText(".figures", "Receives no calls.")
	b.ready()
	d := collector.Settings().Destinations[0]
	assert.Equal(t, tracking.Destination{Name: "warehouse", Sources: []string{"web"}, Disabled: true, Settings: webhook.Settings{
		Webhooks: []webhook.Endpoint{
			{URL: hook.URL + "/in", Headers: map[string]string{"X-Team": "growth", "Authorization": "Bearer t0ken"}}, {URL: hook.URL + "/second"},
		}, SharedSecret: "s3cret",
	}}, d)

	// The page does not show the secrets, and saving the form again keeps them.
	for _, secret := range []string{"s3cret", "t0ken"} {
		assert.NotContains(t, eval[string](b, `fetch(location.href).then((r) => r.text())`), secret)
	}
	b.click(`[name="enabled"]`)
	b.click(".save .primary")
	b.waitText(".figures", "Idle")
	b.ready()
	d = collector.Settings().Destinations[0]
	assert.Equal(t, "s3cret", d.SharedSecret)
	assert.Equal(t, "Bearer t0ken", d.Webhooks[0].Headers["Authorization"])
	assert.False(t, d.Disabled)

	b.click(".heading button")
	b.waitText(".figures", "Paused")
	b.ready()
	post(t, srv.URL, "web-key", track("m1", "ada", "While Paused", `{}`))
	b.waitText(".figures dl", "Pending1")
	b.shoot("destination-paused")
	b.click(".heading button")
	b.wait(`document.querySelector('.figures .is-delivered')?.textContent === '1'`)
	b.ready()

	b.click("details.card summary")
	b.click("details.card button")
	b.waitText("main", "No destinations yet")
	assert.Empty(t, collector.Settings().Destinations)
}

func TestRelayIsCreatedTestedAndChanged(t *testing.T) {
	t.Parallel()
	second, other := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "the-write-key"}}}, "")
	srv, collector := serve(t, engine.Config{AnyWriteKey: true}, "")
	b := newTab(t, srv.URL)
	b.forgive("422")
	b.open("/destinations/new")
	b.typeInto("#name", "segment")
	b.set("#type", "relay")
	b.wait(`!document.getElementById('url0').checkVisibility()`)
	b.typeInto("#endpoint", second.URL)
	b.click(".save .primary")
	b.waitText("#writeKey-problem", "Write key is empty")
	judge(b, axe(t), "a relay")
	b.shoot("destination-relay")

	b.typeInto("#writeKey", "wrong")
	b.click("[data-result=test]")
	b.waitText("#test", "Not accepted: responded with 401")
	b.set("#writeKey", "the-write-key")
	b.click("[data-result=test]")
	b.waitText("#test", "Accepted: 200")
	assert.Len(t, other.History().Records(func(*tracking.Record) bool { return true }), 1, "the test call")
	b.click(".save .primary")
	b.waitText(".notice", "Destination saved.")
	b.ready()
	want := webhook.Settings{Type: webhook.TypeRelay, Endpoint: second.URL, WriteKey: "the-write-key"}
	assert.Equal(t, want, collector.Settings().Destinations[0].Settings)
	assert.NotContains(t, eval[string](b, `fetch(location.href).then((r) => r.text())`), "the-write-key")

	// An empty write key keeps the saved one, unless the endpoint changes.
	b.click("#more summary")
	b.typeInto("#batch\\.wait", "100ms")
	b.click(".save .primary")
	b.wait(`document.getElementById('batch.wait')?.defaultValue === '100ms'`) // the notice of the first save is still shown
	b.ready()
	want.Batch.Wait = webhook.Duration(100 * time.Millisecond)
	assert.Equal(t, want, collector.Settings().Destinations[0].Settings)
	post(t, srv.URL, "any", track("m1", "ada", "Relayed", `{}`))
	b.wait(`document.querySelector('.figures .is-delivered')?.textContent === '1'`)
	b.set("#endpoint", "https://evil.example")
	b.click(".save .primary")
	b.waitText("#writeKey-problem", "Write key belongs to the previous endpoint: enter the write key for the new endpoint")

	b.open("/destinations")
	b.waitText("main", second.URL+"/v1/batch")
}

func TestDestinationFormShowsErrorsAtFields(t *testing.T) {
	t.Parallel()
	srv, collector := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}}, "")
	require.NoError(t, collector.AddDestination(t.Context(), tracking.Destination{
		Name: "taken", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "https://example.com/hook"}}, SharedSecret: "old"},
	}))
	b := newTab(t, srv.URL)
	cases := []struct {
		name   string
		fields map[string]string
		want   map[string]string // element texts by ID
	}{
		{"nothing", nil, map[string]string{"name": "Name is empty", "url0": "URL is empty: give"}},
		{"taken", map[string]string{"#name": "taken", "#url0": "https://example.com"}, map[string]string{"name": "Name is already in use"}},
		{"unseen", map[string]string{"#name": "a\u200Bb", "#url0": "ftp://example.com"}, map[string]string{
			"name": "Name contains an invisible character", "url0": `URL has the protocol "ftp": start it with`,
		}},
		{"URLs", map[string]string{"#name": "n", "#url0": "https://", "#url1": "http://u:p@example.com", "#url2": "https://example.com:99999", "#url3": "https://exa mple.com", "#headers4": "A: b"}, map[string]string{
			"url0": "URL has no host", "url1": "URL 2 contains credentials: use a static header", "url2": "URL 3 has the port 99999", "url3": "URL 4 is not a valid URL", "url4": "URL 5 is empty",
		}},
		{"headers", map[string]string{
			"#name": "n", "#url0": "https://a.example", "#headers0": "Host: x", "#url1": "https://b.example", "#headers1": "no colon",
			"#url2": "https://c.example", "#headers2": "A: 1\nA: 2", "#url3": "https://d.example", "#headers3": "Bad Name: 1", "#url4": "https://e.example", "#headers4": "X-Signature: 1",
		}, map[string]string{
			"headers0": `Headers "Host" is set by the collector: remove it`, "headers1": "have no colon in line 1: use the format Name: value", "headers2": "contain A twice",
			"headers3": `"Bad Name" is not a valid header name`, "headers4": `"X-Signature" is set by the collector`,
		}},
		{"sources", map[string]string{"#name": "n", "#url0": "https://a.example", `[name="allSources"][value="false"]`: "click"}, map[string]string{"sources": "Sources are empty: select at least one"}},
	}
	for _, c := range cases {
		b.open("/destinations/new")
		b.run(`document.querySelectorAll('[data-unused]').forEach((w) => w.removeAttribute('data-unused'))`)
		for selector, value := range c.fields {
			if value == "click" {
				b.click("#more summary")
				b.click(selector)
			} else {
				b.set(selector, value)
			}
		}
		b.click(".save .primary")
		b.wait(`document.activeElement?.id === 'summary'`)
		assert.Equal(t, len(c.want), b.count("#summary li"), "%s: %s", c.name, b.text("#summary"))
		for field, text := range c.want {
			assert.Contains(t, b.text("#"+field+"-problem"), text, c.name)
			assert.Contains(t, b.text(`#summary [href="#`+field+`"]`), text, c.name)
			assert.True(t, eval[bool](b, fmt.Sprintf(`document.getElementById(%s).checkVisibility()`, quote(field))), field)
		}
		for selector, value := range c.fields {
			if value != "click" {
				assert.Equal(t, value, eval[string](b, fmt.Sprintf(`document.querySelector(%s).value`, quote(selector))), "what was typed stays")
			}
		}
		b.shoot("problems-" + c.name)
	}
	b.open("/destination?name=taken")
	b.click(`[name="secretDo"][value="replace"]`)
	b.click(".save .primary")
	b.wait(`document.activeElement?.id === 'summary'`)
	assert.Contains(t, b.text("#sharedSecret-problem"), "Shared secret is empty: enter a new secret")
	assert.Len(t, collector.Settings().Destinations, 1)
	assert.Equal(t, "old", collector.Settings().Destinations[0].SharedSecret)
	b.forgive("422") // the browser logs error responses
}

func TestConfiguredDestinationsAreReadOnly(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, http.StatusOK)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("configured", hook.URL, "s3cret")}}, "")
	b := newTab(t, srv.URL)
	b.open("/destinations")
	b.click("tbody th a")
	b.waitText("h1", "configured")
	b.ready()
	assert.Contains(t, b.text("main"), "This destination is defined in the configuration file.")
	assert.Zero(t, b.count(".save, details.card"))
	assert.Zero(t, b.count(".all"))
	b.click("[data-result=test]")
	b.waitText("#test", "Accepted: 200")
	_, heads := hook.got()
	assert.NotEmpty(t, heads[0].Get("X-Signature"))
	assert.Equal(t, "growth", heads[0].Get("X-Team"))
}

func TestSignatureDoctor(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, http.StatusOK)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", hook.URL, "s3cret"), to("plain", hook.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Sign & Seal <é>", `{"orderId":12345678901234567890,"b":1,"a":2}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.waitText(row(1)+" .c-state", "delivered: hook, plain")
	b.open("/signatures")
	b.click(".recent a")
	b.waitText("main", "Signed body")
	b.ready()
	bodies, heads := hook.got()
	signed, signature := bodies[0], heads[0].Get("X-Signature")+heads[1].Get("X-Signature")
	assert.Equal(t, signed, eval[string](b, `document.querySelector('pre.bytes code').textContent`))
	assert.Contains(t, b.text("main"), signature)
	assert.True(t, eval[bool](b, `JSON.stringify(JSON.parse(document.querySelector('pre.bytes code').textContent)) === document.querySelector('pre.bytes code').textContent`))
	assert.Contains(t, b.text(".findings li:nth-child(2)"), "JSON.stringify of the parsed bodySame")
	assert.Contains(t, b.text(".findings li:nth-child(3)"), "json.Marshal of the parsed bodyDiffers")
	assert.Equal(t, "properties.orderId1234567890123456789012345678901234567000More digits than a double-precision number can store. Send it as a string.", b.text("tr.k-precision"))
	b.shoot("doctor")

	check := func(body, signature string) string {
		b.set("#body", body)
		b.set("#signature", signature)
		b.run(`document.querySelector('#check .findings')?.remove()`)
		b.click("#check .primary")
		b.wait(`document.querySelector('#check .findings') !== null`)
		b.ready()
		return b.text("#check")
	}
	good := check(signed, signature)
	assert.Contains(t, good, "The received body is identical to the signed body.")
	assert.Contains(t, good, "The signature is valid.")
	spaced := check(eval[string](b, fmt.Sprintf(`JSON.stringify(JSON.parse(%s), null, 1).replace(/\n\s*/g, ' ')`, quote(signed))), webhook.Sign("other", []byte(signed)))
	assert.Contains(t, spaced, "for example by Python's json.dumps")
	assert.Contains(t, spaced, "First difference at byte 1")
	assert.Contains(t, spaced, "The receiver may use a different secret")
	b.shoot("doctor-difference")
	mac := hmac.New(sha256.New, []byte("s3cret\n"))
	mac.Write([]byte(signed))
	other := check("", hex.EncodeToString(mac.Sum(nil)))
	assert.Contains(t, other, "Your receiver uses SHA-256. X-Signature uses HMAC-SHA1.")
	assert.Contains(t, other, "createHmac('sha1', secret)")
	assert.Contains(t, other, "Your receiver's secret ends with a line break")
	b.run(`document.querySelector('#check .findings').scrollIntoView({ block: 'center' })`)
	b.shoot("doctor-mistakes")
	judge(b, axe(t), "what a receiver does otherwise")
	unknown := check("", "sha1=5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8")
	assert.Contains(t, unknown, "No match found.")
	assert.Contains(t, unknown, "with and without surrounding white space and quotes")
	b.run(`document.querySelector('#check .findings').scrollIntoView({ block: 'center' })`)
	b.shoot("doctor-unknown")

	b.click("#tab-verify-python")
	b.wait(`document.querySelector('#code-verify-python').checkVisibility()`)
	assert.Contains(t, b.text("#code-verify-python"), "hmac.compare_digest")
}

func TestLogin(t *testing.T) {
	t.Parallel()
	script := axe(t)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", "https://example.com", "s3cret")}}, adminToken)
	b := newTab(t, srv.URL)
	b.do(navigate(srv.URL + "/destination?name=hook"))
	b.waitText("h1", "Log in")
	b.shoot("login")
	judge(b, script, "the login")
	assert.NotContains(t, b.text("body"), "hook")
	b.typeInto("#token", "wrong")
	b.click("main button")
	b.waitText("#token-problem", "Invalid token.")
	judge(b, script, "a login that failed")
	b.typeInto("#token", adminToken)
	b.click("main button")
	b.waitText("h1", "hook") // the login redirects to the requested page
	b.ready()
	assert.Empty(t, eval[string](b, `document.cookie`), "no script can read the cookie")
	for _, c := range b.cookies() {
		assert.True(t, c.HTTPOnly)
		assert.Equal(t, "Strict", string(c.SameSite))
	}
	b.open("/")
	assert.NotContains(t, eval[string](b, `document.documentElement.outerHTML`), adminToken)
	b.click(".top-end form button")
	b.waitText("h1", "Log in")
	assert.Empty(t, b.cookies())
	b.forgive("401")
}

// TestNewDestinationBeginsWithNameAndURL checks that More options opens if one of its fields
// needs attention.
func TestNewDestinationBeginsWithNameAndURL(t *testing.T) {
	t.Parallel()
	srv, collector := serve(t, engine.Config{}, "")
	require.NoError(t, collector.AddDestination(t.Context(), tracking.Destination{Name: "plain", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "https://a.example"}}}}))
	require.NoError(t, collector.AddDestination(t.Context(), tracking.Destination{Name: "limited", MaxPerSecond: 5, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "https://a.example"}}}}))
	b := newTab(t, srv.URL)
	b.forgive("422")
	visible := func() []string {
		return eval[[]string](b, `[...document.querySelectorAll('.all :is(input, select, textarea)')].filter((f) => f.checkVisibility()).map((f) => f.name)`)
	}
	b.open("/destinations/new")
	assert.Equal(t, []string{"name", "type", "url0"}, visible())
	judge(b, axe(t), "a new destination")
	b.open("/destination?name=plain")
	assert.Equal(t, []string{"name", "type", "url0"}, visible())
	b.open("/destination?name=limited")
	assert.Contains(t, visible(), "maxPerSecond", "it has a value")

	b.open("/destinations/new")
	b.click(".save .primary")
	b.wait(`document.activeElement?.id === 'summary'`)
	assert.Equal(t, []string{"name", "type", "url0"}, visible(), "the options have no error")
	b.typeInto("#name", "crm")
	b.wait(`document.querySelector('#summary h2').textContent === 'One field is invalid'`)
	assert.Empty(t, b.text("#name-problem"))
	assert.Equal(t, 1, b.count(".has-problem"))
	b.typeInto("#url0", "https://b.example")
	b.wait(`!document.getElementById('summary') && !document.querySelector('[aria-invalid], .has-problem')`)
	b.click("#more summary")
	b.typeInto("#maxPerSecond", "many")
	b.click(".save .primary")
	b.wait(`document.activeElement?.id === 'summary'`)
	assert.Contains(t, visible(), "maxPerSecond")
}

// TestConfiguredDestinationShowsSummary opens a destination of the configuration file.
func TestConfiguredDestinationShowsSummary(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, http.StatusOK)
	d := to("crm", hook.URL, "s3cret", "web")
	d.MaxPerSecond = 5
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}, Destinations: []tracking.Destination{d}}, "")
	b := newTab(t, srv.URL)
	b.open("/destination?name=crm")
	assert.Zero(t, b.count(":disabled"))
	for _, part := range []string{"URL" + hook.URL + "/crm", "Sourcesweb", "SignatureX-Signature: HMAC-SHA1", "Maximum calls per second5", "X-Team"} {
		assert.Contains(t, b.text(".step"), part)
	}
	assert.NotContains(t, b.text("main"), "s3cret")
	judge(b, axe(t), "a configured destination")
	b.click("[data-result=test]")
	b.waitText("#test", "Accepted: 200")
	b.click("[data-result=preview]")
	b.waitText("#preview", "No calls yet.")
}

func TestTransformIsPreviewed(t *testing.T) {
	t.Parallel()
	compile := func(program string) (webhook.Transform, error) {
		if program != "{text: .event}" {
			return nil, errors.New("unexpected EOF")
		}
		return func(body []byte) ([]byte, error) {
			switch {
			case strings.Contains(string(body), "Test"):
				return nil, nil
			case strings.Contains(string(body), "Refund"):
				return nil, errors.New("no refunds")
			}
			return []byte(`{"text":"Order Completed"}`), nil
		}, nil
	}
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}, Transforms: compile}, "")
	post(t, srv.URL, "web-key", track("m1", "ada", "Order Completed", `{"total":5}`), track("m2", "ada", "Refund", `{}`), track("m3", "ada", "Test", `{}`))
	b := newTab(t, srv.URL)
	b.open("/destinations/new")
	b.click("#more summary")
	b.typeInto("#transform", "{text: ")
	b.click("[data-result=preview]")
	b.waitText("#preview", "is not a valid program: unexpected EOF")
	b.set("#transform", "{text: .event}")
	b.click("[data-result=preview]")
	b.waitText("#preview", "1 of the last 3 calls would be delivered.")
	assert.Equal(t, 3, b.count("#preview .example"))
	assert.Contains(t, b.text("#preview"), "transform: no refunds")
	b.click("#preview details summary")
	b.waitText("#preview details", "Order Completed")
	b.shoot("destination-transform")
	judge(b, axe(t), "preview of a transform")
}

// TestSecretIsRotatedAsInstructed follows the instructions on the page.
func TestSecretIsRotatedAsInstructed(t *testing.T) {
	t.Parallel()
	srv, collector := serve(t, engine.Config{}, "")
	require.NoError(t, collector.AddDestination(t.Context(), tracking.Destination{Name: "crm", Settings: webhook.Settings{
		Webhooks: []webhook.Endpoint{{URL: "https://a.example"}}, SharedSecret: "old", Signature: webhook.SignatureStandard,
	}}))
	b := newTab(t, srv.URL)
	b.open("/destination?name=crm")
	b.click(`[name="secretDo"][value="rotate"]`)
	b.typeInto("#sharedSecret", "new")
	b.click(".save .primary")
	b.waitText(".notice", "Destination saved.")
	d := collector.Settings().Destinations[0]
	assert.Equal(t, [2]string{"new", "old"}, [2]string{d.SharedSecret, d.PreviousSecret})

	b.ready()
	b.typeInto("#sharedSecret", "newer")
	b.wait(`document.querySelector('[name="secretDo"][value="replace"]').checked`)
}
