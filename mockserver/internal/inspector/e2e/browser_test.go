package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
)

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// chromium is the browser that all tests share; each has a context of its own,
// with its own cookies, and most run side by side.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless_shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, fmt.Errorf("there is no Chromium: install it, as with apt-get install chromium")
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

// endBrowser ends the browser that was started.
var endBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	endBrowser()
	os.Exit(code)
}

// A tab is one page of the browser. What goes wrong in it is kept.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex // guards what follows
	problems []string
	forgiven []string // parts of problems that the test provokes
}

// newTab opens a tab at a server. The test fails if a script of it throws or
// complains, or if its Content-Security-Policy is violated.
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
	b := &tab{t: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	command(b, log.Enable, cdp.Empty{})
	// It is as if each tab were the one in front: others are open beside it.
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

// forgive has a problem that a test provokes not count. The browser may tell of it late.
func (b *tab) forgive(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgiven = append(b.forgiven, part)
}

// do runs actions, none of which may take long.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// command sends a command of the protocol.
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

// dark sets the colours. Nothing moves, so that what is looked at is as it stays.
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

func navigate(url string) chromedp.Action[chromedp.Void] { return chromedp.Navigate(url) }

func (b *tab) cookies() []*network.Cookie {
	b.t.Helper()
	return command(b, network.GetCookies, network.GetCookiesParams{}).Cookies
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
	b.ready()
}

// look gives the page that is open another size and colors, and waits until it has been
// laid out anew.
func (b *tab) look(width, height int64, dark bool) {
	b.t.Helper()
	b.size(width, height)
	b.dark(dark)
	b.wait(fmt.Sprintf(`innerWidth === %d && matchMedia('(prefers-color-scheme: dark)').matches === %t`, width, dark))
	b.run(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))`)
}

// ready waits until the page's scripts are at work.
func (b *tab) ready() {
	b.t.Helper()
	b.wait(`document.documentElement.classList.contains('scripted') &&
		(document.getElementById('live')?.dataset.state ?? 'live') === 'live'`)
}

// run runs a script.
func (b *tab) run(script string) { eval[chromedp.Void](b, script) }

// eval returns the value of an expression, or of the promise that it is.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return value
}

// wait waits until an expression is true of a page that is there as a whole, with its
// styles and scripts.
func (b *tab) wait(condition string) {
	b.t.Helper()
	await[chromedp.Void](b, condition)
}

// await waits as wait does, and returns the value of the expression.
func await[T any](b *tab, condition string) T {
	b.t.Helper()
	return poll[T](b, `document.readyState === 'complete' && (`+condition+`)`)
}

// poll waits until an expression is true, also of a page that is still loading.
func poll[T any](b *tab, condition string) T {
	b.t.Helper()
	until := time.Now().Add(patience)
	for {
		value, err := chromedp.Run(b.ctx, chromedp.Poll[T](condition, chromedp.WithPollingTimeout(time.Until(until))))
		if err == nil {
			return value
		}
		if (strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "navigated")) && time.Now().Before(until) {
			continue // the page gave way to the next one
		}
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText.slice(0, 3000)`))
		require.NoError(b.t, err, "waiting for %s; the page says:\n%s", condition, text)
	}
}

// waitText waits until an element's text has a part.
func (b *tab) waitText(selector, part string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelector(%s)?.textContent.includes(%s)`, quote(selector), quote(part)))
}

// click clicks on an element, once the page is there: until then it may scroll to its
// fragment. It clicks where the element is, so that the page may put another in its place.
func (b *tab) click(selector string) {
	b.t.Helper()
	at := await[[]float64](b, fmt.Sprintf(`(() => {
		const element = document.querySelector(%s)
		if (!element?.checkVisibility()) return null
		element.scrollIntoViewIfNeeded()
		const box = element.getClientRects()[0]
		return [box.x + box.width / 2, box.y + box.height / 2]
	})()`, quote(selector)))
	b.do(chromedp.MouseClickXY(at[0], at[1]))
}

func (b *tab) typeInto(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(selector, text, chromedp.NodeVisible))
}

// insert puts text where the cursor is, all at once: the page asks for ways to go on
// once, not at each letter, of which an answer could come late.
func (b *tab) insert(text string) {
	b.t.Helper()
	command(b, input.InsertText, input.InsertTextParams{Text: text})
}

// set gives a field a value, as a person does who chooses or pastes it.
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

// shoot saves a picture, where SCREENSHOTS names a folder.
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
	text, _ := json.Marshal(s) // strings always marshal
	return string(text)
}
