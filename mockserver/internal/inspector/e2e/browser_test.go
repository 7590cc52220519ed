package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// patience limits every wait.
const patience = 2 * time.Minute

// chromium is the shared browser. Each tab has its own browser context with its own cookies.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path, err := harness.Chromium()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp("", "inspector-e2e-")
	if err != nil {
		return nil, err
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.UserDataDir(data), chromedp.WSURLReadTimeout(patience),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("enable-precise-memory-info", true), chromedp.Env("TZ=UTC"))
	browser, _ := chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil {
		cancel()
		return nil, fmt.Errorf("Chromium does not start: %w", err)
	}
	endBrowser = func() {
		_ = chromedp.Cancel(browser)
		cancel()
		_ = os.RemoveAll(data)
	}
	return browser, nil
})

// endBrowser closes the browser.
var endBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	endBrowser()
	os.Exit(code)
}

// A tab is a page of the browser that records errors.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex // guards the fields below
	problems []string
	forgiven []string // substrings of expected problems
}

// newTab opens a tab for a server. The test fails on script errors, console errors and
// violations of the content security policy.
func newTab(t *testing.T, base string) *tab {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		if os.Getenv("REQUIRE_CHROMIUM") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, base: base, forgiven: []string{networkChanged}}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	command(b, log.Enable, cdp.Empty{})
	// Each tab behaves as if it had the focus.
	command(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `addEventListener('securitypolicyviolation', (e) => console.error('CSP:', e.violatedDirective, e.blockedURI, e.sample))`,
	})
	b.size(1440, 900)
	b.dark(false)
	t.Cleanup(func() {
		if t.Failed() {
			b.shoot("failed-" + t.Name())
		}
		_ = chromedp.Cancel(ctx)
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		provoked := func(problem string) bool {
			return slices.ContainsFunc(b.forgiven, func(part string) bool { return strings.Contains(problem, part) })
		}
		assert.Empty(t, slices.DeleteFunc(b.problems, provoked), "what the console says")
	})
	return b
}

func (b *tab) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problem(fmt.Sprint("exception: ", e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception.Description))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var words []string
			for _, arg := range e.Args {
				words = append(words, string(arg.Value)+arg.Description)
			}
			b.problem("console: " + strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.problem("log: " + e.Entry.Text + " " + e.Entry.URL)
		}
	}
}

func (b *tab) problem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, text)
}

// forgive ignores past and future problems that contain part.
func (b *tab) forgive(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgiven = append(b.forgiven, part)
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// command sends a command of the debugging protocol.
func command[P, R any](b *tab, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, cmd, params)
	require.NoError(b.t, err)
	return result
}

func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// dark selects the dark or the light theme and disables animations.
func (b *tab) dark(on bool) {
	b.t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
}

// networkChanged is the error of a request that Chromium aborted because a network interface was added
// or removed, for example by a test of another package.
const networkChanged = "net::ERR_NETWORK_CHANGED"

func navigate(url string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		for {
			done, err := chromedp.Navigate(url)(ctx, t)
			if failed := (*chromedp.LoadError)(nil); !errors.As(err, &failed) || failed.ErrorText != networkChanged {
				return done, err
			}
		}
	}
}

func (b *tab) cookies() []*network.Cookie {
	b.t.Helper()
	return command(b, network.GetCookies, network.GetCookiesParams{}).Cookies
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.do(navigate(b.base + path))
	b.ready()
}

// look changes the size and theme of the page and waits until it is rendered.
func (b *tab) look(width, height int64, dark bool) {
	b.t.Helper()
	b.size(width, height)
	b.dark(dark)
	b.wait(fmt.Sprintf(`innerWidth === %d && matchMedia('(prefers-color-scheme: dark)').matches === %t`, width, dark))
	b.run(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))`)
}

// ready waits until the scripts of the page have started.
func (b *tab) ready() {
	b.t.Helper()
	b.wait(`document.documentElement.classList.contains('scripted') &&
		(document.getElementById('live')?.dataset.state ?? 'live') === 'live'`)
}

func (b *tab) run(script string) { eval[chromedp.Void](b, script) }

// eval returns the value of an expression or of its promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return value
}

// wait waits until an expression is true on a completely loaded page.
func (b *tab) wait(condition string) {
	b.t.Helper()
	await[chromedp.Void](b, condition)
}

// await waits like wait and returns the value of the expression.
func await[T any](b *tab, condition string) T {
	b.t.Helper()
	return poll[T](b, `document.readyState === 'complete' && (`+condition+`)`)
}

// poll waits until an expression is true. The page may still be loading.
func poll[T any](b *tab, condition string) T {
	b.t.Helper()
	until := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second) // a navigation can lose the response of the browser
		value, err := chromedp.Run(ctx, chromedp.Poll[T](condition, chromedp.WithPollingTimeout(time.Until(until))))
		cancel()
		if err == nil {
			return value
		}
		if (strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "navigated")) && time.Now().Before(until) {
			continue // the tab has navigated to another page
		}
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.readyState + ', loaded ' +
			performance.getEntriesByType('resource').filter((r) => r.responseEnd > 0).map((r) => r.name).join(' ') +
			'\n' + document.body.innerText.slice(0, 3000)`))
		require.NoError(b.t, err, "waiting for %s; the page is %s", condition, text)
	}
}

// waitText waits until the text of an element contains part.
func (b *tab) waitText(selector, part string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelector(%s)?.textContent.includes(%s)`, quote(selector), quote(part)))
}

// click waits for an element and clicks at its position. It also works if the page replaces
// the element in the meantime.
func (b *tab) click(selector string) {
	b.t.Helper()
	at := b.center(selector)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
}

// center waits for an element that does not move, scrolls it into view and returns its position.
func (b *tab) center(selector string) []float64 {
	b.t.Helper()
	return await[[]float64](b, fmt.Sprintf(`(() => {
		const element = document.querySelector(%s)
		if (!element?.checkVisibility()) return null
		element.scrollIntoViewIfNeeded()
		const box = element.getClientRects()[0]
		const [before, at] = [element.at, [box.x + box.width / 2, box.y + box.height / 2]]
		element.at = at
		return before?.join() === at.join() ? at : null
	})()`, quote(selector)))
}

func (b *tab) typeInto(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(selector, text, chromedp.NodeVisible))
}

// insert inserts text at the cursor in one step, so the page requests suggestions only once.
func (b *tab) insert(text string) {
	b.t.Helper()
	command(b, input.InsertText, input.InsertTextParams{Text: text})
}

// set sets the value of a field and dispatches its events.
func (b *tab) set(selector, value string) {
	b.t.Helper()
	b.run(fmt.Sprintf(`(() => { const field = document.querySelector(%s); field.value = %s
		field.dispatchEvent(new Event('input', { bubbles: true })); field.dispatchEvent(new Event('change', { bubbles: true })) })()`,
		quote(selector), quote(value)))
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	text := eval[string](b, fmt.Sprintf(`document.querySelector(%s)?.textContent ?? ''`, quote(selector)))
	return strings.Join(strings.Fields(text), " ")
}

func (b *tab) count(selector string) int {
	b.t.Helper()
	return eval[int](b, fmt.Sprintf(`document.querySelectorAll(%s).length`, quote(selector)))
}

// shoot saves a screenshot if SCREENSHOTS is set.
func (b *tab) shoot(name string) {
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Log("no picture:", err)
		return
	}
	_ = os.MkdirAll(folder, 0o755)
	_ = os.WriteFile(filepath.Join(folder, strings.ReplaceAll(name, "/", "-")+".png"), png, 0o644)
}

func quote(s string) string {
	text, _ := json.Marshal(s) // strings can always be marshaled
	return string(text)
}
