package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func activity(t *testing.T, text string) Activity {
	t.Helper()
	var a Activity
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	return a
}

func TestLines(t *testing.T) {
	const at = `"at":"2026-01-31T12:00:00.5Z","ref":"x",`
	clock := time.Date(2026, 1, 31, 12, 0, 0, 500_000_000, time.UTC).Local().Format(timeFormat)
	for _, c := range []struct{ name, activity, want string }{
		{"call", `"kind":"call","type":"track","title":"Signed Up","userId":"ada"`, "received track Signed Up ada"},
		{"anonymous call", `"kind":"call","type":"page","title":"Pricing","anonymousId":"a1"`, "received page Pricing a1"},
		{"call that violates the plan", `"kind":"call","type":"track","title":"E","userId":"u","notAsPlanned":"plan is missing"`, "violation track E u plan is missing"},
		{"successful attempt", `"kind":"attempt","type":"track","title":"E","userId":"u","destination":"crm","attempt":1,"status":200,"verdict":"success","durationMs":12.4`, "200 track E u → crm 12 ms"},
		{"failed attempt", `"kind":"attempt","type":"track","title":"E","userId":"u","destination":"crm","attempt":1,"status":400,"verdict":"permanent","answer":"unknown \"field\"","durationMs":1`, `400 track E u → crm "unknown \"field\"" 1 ms`},
		{"third attempt without a response", `"kind":"attempt","type":"track","title":"E","userId":"u","destination":"crm","attempt":3,"verdict":"temporary","error":"connection refused","durationMs":0.2`, "error track E u → crm connection refused attempt 3 0 ms"},
		{"outcome without an attempt", `"kind":"outcome","type":"track","title":"E","userId":"u","destination":"crm","state":"filtered","reason":"integrations.All is false"`, "filtered track E u → crm integrations.All is false"},
		{"rejected call", `"kind":"rejected","type":"track","title":"E","code":"no_user_anon_id","message":"a call needs a userId.","hint":"Give one."`, "rejected track E no_user_anon_id: a call needs a userId. Give one."},
		{"refused requests", `"kind":"refused","title":"POST /v1/batch","status":401,"code":"x","message":"no key","hint":"Give one.","count":1200`, "refused POST /v1/batch 401 ×1,200 no key. Give one."},
		{"hostile text", `"kind":"call","type":"track","title":"a\u001b[2Jb\n\u009bc","userId":"\u202eu"`, "received track a\uFFFD[2Jb\uFFFD\uFFFDc \uFFFDu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := activity(t, "{"+at+c.activity+"}")
			status, rest, _ := strings.Cut(c.want, " ")
			l, ok := lineOf(&a)
			require.True(t, ok)
			assert.Equal(t, status+" "+clock+" "+rest, l.plain())
		})
	}
}

func TestColumnsAlign(t *testing.T) {
	short := activity(t, `{"kind":"call","type":"page","title":"Pricing","userId":"ada"}`)
	long := activity(t, `{"kind":"attempt","type":"track","title":"An event with a long name","userId":"someone@example.com","destination":"crm","status":200,"verdict":"success","durationMs":3}`)
	for _, width := range []int{60, 80, 120, 200} {
		var starts []int
		for _, a := range []Activity{short, long} {
			a.NotAsPlanned = "RESULT"
			l, _ := lineOf(&a)
			before, _, found := strings.Cut(l.row(fitting(width), true, false), "RESULT")
			require.True(t, found)
			starts = append(starts, ansi.StringWidth(before))
		}
		assert.Equal(t, starts[0], starts[1], "the result starts in the same column")
		assert.Less(t, starts[0], width)
	}
}

func TestOutcomesOfAttemptsAreNotLines(t *testing.T) {
	for _, state := range []string{`"state":"delivered"`, `"state":"failed","attempted":true`} {
		a := activity(t, `{"kind":"outcome",`+state+`}`)
		_, ok := lineOf(&a)
		assert.False(t, ok, state)
	}
}

// pages is a Source that returns the pages of a test.
type pages struct {
	next    func(after string, limit int) (Page, error)
	limits  []int
	replays []string // message IDs of replayed calls
	refuse  error    // error that Replay returns
	details string   // result of Details
	lost    error    // error that Details and Destinations return

	destinations []Destination
}

func (p *pages) Activity(ctx context.Context, after string, limit int, newest bool) (Page, error) {
	p.limits = append(p.limits, limit)
	return p.next(after, limit)
}

func (p *pages) Replay(_ context.Context, a Activity) (string, error) {
	p.replays = append(p.replays, a.MessageID)
	return "crm", p.refuse
}
func (*pages) Curl(context.Context, Activity) (string, error) { return "curl x", nil }

func (p *pages) Destinations(context.Context) ([]Destination, error) { return p.destinations, p.lost }

func (p *pages) Details(context.Context, Activity) (string, error) { return p.details, p.lost }

func TestPrintReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		source := &pages{}
		source.next = func(after string, _ int) (Page, error) {
			switch n++; n {
			case 1:
				assert.Empty(t, after)
				return Page{Next: "1", Activity: []Activity{activity(t, `{"kind":"call","type":"track","title":"One"}`)}}, nil
			case 2, 3:
				return Page{}, errors.New("nothing listens")
			case 4:
				assert.Equal(t, "1", after)
				return Page{Next: "2", Skipped: 412, Activity: []Activity{activity(t, `{"kind":"call","type":"track","title":"Two"}`)}}, nil
			}
			cancel()
			return Page{}, ctx.Err()
		}
		var out strings.Builder
		require.NoError(t, Print(ctx, source, 20, &out, Lines))
		lines := strings.Split(out.String(), "\n")
		require.Len(t, lines, 5)
		assert.Contains(t, lines[0], "track One")
		assert.Equal(t, "⋯ nothing listens", lines[1], "the error is printed once")
		assert.Equal(t, "⋯ 412 more", lines[2])
		assert.Contains(t, lines[3], "track Two")
		assert.Equal(t, []int{printLimit, printLimit}, source.limits[:2])
	})
}

func TestPrintStartsWithTheNewestLines(t *testing.T) {
	outcome := activity(t, `{"kind":"outcome","state":"delivered","attempted":true}`)
	one, two := activity(t, `{"kind":"call","title":"One"}`), activity(t, `{"kind":"call","title":"Two"}`)
	for format, want := range map[Format]int{Lines: printLimit, JSON: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		source := &pages{next: func(string, int) (Page, error) {
			cancel()
			return Page{Next: "1", Activity: []Activity{one, two, outcome}}, nil
		}}
		var out strings.Builder
		require.NoError(t, Print(ctx, source, 1, &out, format))
		assert.Equal(t, []int{want}, source.limits)
		if format == Lines {
			assert.Regexp(t, `^received +\S+ +Two\n$`, out.String(), "outcomes of attempts are not lines")
		}
	}
}

func TestPrintFailsWithoutACollector(t *testing.T) {
	source := &pages{next: func(string, int) (Page, error) { return Page{}, errors.New("nothing listens") }}
	assert.EqualError(t, Print(t.Context(), source, 20, new(strings.Builder), Lines), "nothing listens")
}

func TestPrintKeepsJSON(t *testing.T) {
	const came = `{"kind":"call","more":12345678901234567890,"title":"a\u001b"}`
	page := Page{Skipped: 3, Activity: []Activity{activity(t, came), activity(t, "{\"title\":\"\u009b\U000E0001\"}")}}
	assert.Equal(t, came+"\n"+`{"title":"\u009b\udb40\udc01"}`+"\n", string(printed(&page, JSON, true)))
}

// picture returns a model with the given size and number of lines.
func picture(t *testing.T, width, height, lines int) *model {
	t.Helper()
	m := newModel(t.Context(), Config{Source: &pages{}, Title: "collector dev", URL: "http://127.0.0.1:8765"})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for n := range lines {
		m.Update(pageMsg{Page{Next: "x", Activity: []Activity{activity(t, fmt.Sprintf(`{"kind":"call","type":"track","title":"Event %d","userId":"日本","messageId":"m%d"}`, n, n))}}})
	}
	return m
}

// press presses keys and returns the command of the last key.
func press(m *model, keys ...string) (last tea.Cmd) {
	named := map[string]rune{
		"up": tea.KeyUp, "down": tea.KeyDown, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
		"home": tea.KeyHome, "end": tea.KeyEnd, "esc": tea.KeyEscape, "enter": tea.KeyEnter,
	}
	for _, k := range keys {
		if code, ok := named[k]; ok {
			_, last = m.Update(tea.KeyPressMsg{Code: code})
		} else {
			_, last = m.Update(tea.KeyPressMsg{Code: rune(k[0]), Text: k})
		}
	}
	return last
}

func TestReplayNeedsConfirmation(t *testing.T) {
	m := picture(t, 120, 24, 3)
	source := m.config.Source.(*pages)
	press(m, "up", "r")
	assert.Contains(t, m.draw(), "replay to its destinations: Enter confirms")
	press(m, "r")
	assert.Contains(t, m.draw(), "not replayed")
	press(m, "enter")
	assert.Empty(t, source.replays, "only Enter right after the question confirms")

	press(m, "r")
	m.Update(noticeExpiredMsg(m.noticed))
	press(m, "enter")
	assert.Empty(t, source.replays, "the question expires with its notice")

	m.Update(press(m, "r", "enter")())
	assert.Equal(t, []string{"m2"}, source.replays)
	assert.Contains(t, m.draw(), "replay queued for crm")
	press(m, "enter")
	assert.Len(t, source.replays, 1, "a second Enter does nothing")

	source.refuse = errors.Join(errors.New("shop: replayed recently"), errors.New("ads: pending"))
	m.Update(press(m, "r", "enter")())
	assert.Contains(t, m.draw(), "replay queued for crm; shop: replayed recently; ads: pending")
}

// TestPastedFilterDeselects checks that a line that does not match a pasted filter is no longer selected.
func TestPastedFilterDeselects(t *testing.T) {
	m := picture(t, 120, 24, 3)
	press(m, "up", "/")
	require.NotNil(t, m.chosen())
	m.Update(tea.PasteMsg{Content: "Event 0"})
	assert.Equal(t, "Event 0", m.filter)
	assert.Nil(t, m.chosen())
}

// opened returns a model of the given size that shows details with a number of rows.
func opened(t *testing.T, width, height, rows int) *model {
	t.Helper()
	m := picture(t, width, height, 3)
	source := m.config.Source.(*pages)
	for n := range rows {
		source.details += fmt.Sprintf("row %d.\n", n)
	}
	m.Update(press(m, "up", "enter")())
	return m
}

func TestDetailsScroll(t *testing.T) {
	m := opened(t, 60, 13, 50) // the screen has room for 10 rows of details
	assert.Contains(t, m.draw(), "rows 1-10 of 50")
	assert.Contains(t, ansi.Strip(m.draw()), "Esc close  ↑↓ scroll")
	for _, c := range []struct{ key, first string }{
		{"up", "row 0."}, {"down", "row 1."}, {"j", "row 2."}, {"k", "row 1."}, {"pgdown", "row 11."}, {"pgup", "row 1."},
		{"end", "row 40."}, {"down", "row 40."}, {"pgdown", "row 40."}, {"up", "row 39."}, {"home", "row 0."}, {"pgup", "row 0."},
	} {
		press(m, c.key)
		rows := strings.Split(m.draw(), "\n")
		assert.Len(t, rows, 13)
		assert.Equal(t, c.first, rows[2], c.key)
	}
}

func TestDetailsFollowTheSizeOfTheScreen(t *testing.T) {
	m := opened(t, 60, 13, 50)
	press(m, "end")
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 33})
	assert.Equal(t, "row 20.", strings.Split(m.draw(), "\n")[2], "a larger screen is filled")
	m.Update(tea.WindowSizeMsg{Width: 4, Height: 6})
	press(m, "end")
	assert.Contains(t, m.draw(), "49.")
}

func TestKeysCloseDetails(t *testing.T) {
	for _, key := range []string{"esc", "enter", "q"} {
		m := opened(t, 60, 12, 50)
		press(m, "end", key)
		assert.NotContains(t, m.draw(), "row ", key)
		assert.Contains(t, m.draw(), "▸ ", "the line is still selected")
		m.Update(press(m, "enter")())
		assert.Contains(t, m.draw(), "row 0.", "it starts at the top again")
		assert.Empty(t, m.config.Source.(*pages).replays)
	}
}

func TestDetailsContainNoEscapeSequences(t *testing.T) {
	m := picture(t, 100, 12, 1)
	source := m.config.Source.(*pages)
	source.details = "a\x1b[2Jb\x1b]0;title\x07\u202ec\r\n"
	m.Update(press(m, "up", "enter")())
	assert.Equal(t, []string{"a\uFFFD[2Jb\uFFFD]0;title\uFFFD\uFFFDc\uFFFD"}, m.middle())
}

func TestDetailsErrorsAreNotices(t *testing.T) {
	m := picture(t, 100, 12, 1)
	m.config.Source.(*pages).lost = errors.New("no such \x1b[2Jcall")
	m.Update(press(m, "up", "enter")())
	assert.Contains(t, m.draw(), "no such \uFFFD[2Jcall")
	assert.Contains(t, m.draw(), "▸ ")
}

func TestNoticesKeepTheKeys(t *testing.T) {
	m := picture(t, 80, 10, 30)
	for range 2 {
		rows := strings.Split(m.draw(), "\n")
		assert.Len(t, rows, 10)
		assert.Contains(t, rows[9], "quit")
		assert.Contains(t, m.draw(), "Event 29")
		m.Update(noticeMsg(messageLine("replay queued", green)))
	}
	assert.Contains(t, strings.Split(m.draw(), "\n")[8], "replay queued")
	press(m, "?")
	assert.Contains(t, strings.Split(m.draw(), "\n")[8], "replay queued")
}

func TestKeysFitTheScreen(t *testing.T) {
	for width, last := range map[int]string{40: "quit", 60: "open", 120: "pause"} {
		m := picture(t, width, 10, 1)
		rows := strings.Split(m.draw(), "\n")
		assert.True(t, strings.HasSuffix(rows[9], faint.paint(last)), rows[9])
	}
}

func TestTotals(t *testing.T) {
	m := picture(t, 120, 10, 1)
	assert.NotContains(t, m.draw(), "no destinations", "the destinations are not known yet")
	m.Update(totalsMsg{})
	assert.Contains(t, m.draw(), "no destinations")
	source := m.config.Source.(*pages)
	source.destinations = []Destination{
		{Name: "mail", State: "delivering", Delivered: 1000},
		{Name: "shop", State: "paused", Pending: 3},
		{Name: "crm\x1b", State: "failing", Delivered: 7, Failed: 20},
	}
	_, again := m.Update(m.count()())
	assert.NotNil(t, again, "the request is repeated")
	plain := func() string { return ansi.Strip(strings.Split(m.draw(), "\n")[1]) }
	want := "1,007 delivered  20 failed  3 pending  │  crm\uFFFD failing  20 failed  │  shop paused  3 pending  │  mail delivering"
	assert.Equal(t, want, plain())
	source.lost = errors.New("nothing listens")
	m.Update(m.count()())
	assert.Equal(t, want, plain(), "the totals stay")
	m.Update(tea.WindowSizeMsg{Width: 40, Height: 10})
	assert.Equal(t, 40, ansi.StringWidth(plain()))
	m.Update(tea.WindowSizeMsg{Width: 40, Height: lowScreen - 1})
	assert.NotContains(t, m.draw(), "delivered", "lines are more important")
}

func TestScreenFitsAnySize(t *testing.T) {
	for width := 1; width < 130; width += 7 {
		for height := 1; height < 30; height += 3 {
			for _, keys := range [][]string{nil, {"up"}, {"?"}, {"/", "5"}, {"p"}, {"up", "r"}, {"up", "enter"}, {"up", "enter", "end"}} {
				m := picture(t, width, height, 40)
				m.config.Source.(*pages).details = strings.Repeat("日本語のテキスト 👩‍👩‍👧 e\u0301\n", 9)
				for _, key := range keys {
					if cmd := press(m, key); key == "enter" {
						m.Update(cmd())
					}
				}
				drawn := m.draw()
				rows := strings.Split(drawn, "\n")
				assert.LessOrEqual(t, len(rows), height, "%d×%d %v", width, height, keys)
				for _, row := range rows {
					assert.LessOrEqual(t, ansi.StringWidth(row), width, "%d×%d %v", width, height, keys)
				}
			}
		}
	}
}

func TestFramesCountOmittedLines(t *testing.T) {
	m := picture(t, 80, 24, 1)
	m.Update(pageMsg{Page{Next: "y", Skipped: 412}})
	assert.Contains(t, m.draw(), "⋯ 412 more")
}

func TestOldLinesAreDropped(t *testing.T) {
	m := picture(t, 80, 24, keptLines+10)
	assert.LessOrEqual(t, len(m.lines), keptLines)
	assert.Contains(t, m.draw(), fmt.Sprintf("Event %d", keptLines+9))
	press(m, "up")
	chosen := m.chosen().MessageID
	for range 2 * keptLines {
		m.append(messageLine("new", normal))
	}
	assert.Len(t, m.lines, keptLines)
	assert.Equal(t, chosen, m.chosen().MessageID)
	assert.Positive(t, m.missed)
	assert.Contains(t, m.draw(), "newer")
	press(m, "esc")
	assert.Zero(t, m.missed)
	assert.Contains(t, m.draw(), " more")
}

func TestUnreachableCollectorIsShown(t *testing.T) {
	m := picture(t, 120, 24, 1)
	_, again := m.Update(lostMsg{errors.New("nothing listens")})
	assert.Contains(t, m.draw(), "unreachable: nothing listens")
	assert.NotNil(t, again, "the request is repeated")
	m.Update(pageMsg{Page{}})
	assert.Contains(t, m.draw(), "  \x1b[32mlive")
}

func TestLogEntriesAreLines(t *testing.T) {
	l := logLine(`time=2026-11-23T02:07:00.392Z level=WARN msg="calls failed permanently" destination=crm`)
	assert.Equal(t, `log WARN "calls failed permanently" destination=crm`, l.plain())
	l = logLine("something \x1b[2J else")
	assert.Equal(t, "log something \uFFFD[2J else", l.plain())
}
