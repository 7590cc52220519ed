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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/terminal"
)

func activity(t *testing.T, text string) Activity {
	t.Helper()
	var a Activity
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	return a
}

func TestLines(t *testing.T) {
	const at = `"at":"2026-01-31T12:00:00.5Z","ref":"x",`
	clock := time.Date(2026, 1, 31, 12, 0, 0, 500_000_000, time.UTC).Local().Format(clockForm)
	for _, c := range []struct{ name, activity, want string }{
		{"call", `"kind":"call","type":"track","title":"Signed Up","userId":"ada"`, "track    Signed Up ada"},
		{"call of nobody known", `"kind":"call","type":"page","title":"Pricing","anonymousId":"a1"`, "page     Pricing a1"},
		{"call not as planned", `"kind":"call","type":"track","title":"E","userId":"u","notAsPlanned":"plan is missing"`, "track    E u not as planned: plan is missing"},
		{"attempt that is taken", `"kind":"attempt","type":"track","title":"E","userId":"u","destination":"crm","attempt":1,"status":200,"verdict":"success","durationMs":12.4`, "track    E u → crm 200 12 ms"},
		{"attempt that is refused", `"kind":"attempt","type":"track","title":"E","userId":"u","destination":"crm","attempt":1,"status":400,"verdict":"permanent","answer":"unknown \"field\"","durationMs":1`, `track    E u → crm 400 "unknown \"field\"" 1 ms`},
		{"third attempt without an answer", `"kind":"attempt","type":"track","title":"E","userId":"u","destination":"crm","attempt":3,"verdict":"temporary","error":"connection refused","durationMs":0.2`, "track    E u → crm no answer connection refused attempt 3 0 ms"},
		{"outcome without an attempt", `"kind":"outcome","type":"track","title":"E","userId":"u","destination":"crm","state":"filtered","reason":"integrations.All is false"`, "track    E u → crm filtered integrations.All is false"},
		{"rejected call", `"kind":"rejected","type":"track","title":"E","code":"no_user_anon_id","message":"a call needs a userId.","hint":"Give one."`, "rejected track E no_user_anon_id: a call needs a userId. Give one."},
		{"refused requests", `"kind":"refused","title":"POST /v1/batch","status":401,"code":"x","message":"no key","hint":"Give one.","count":1200`, "refused  POST /v1/batch 401 ×1,200 no key. Give one."},
		{"hostile text", `"kind":"call","type":"track","title":"a\u001b[2Jb\n\u009bc","userId":"\u202eu"`, "track    a\uFFFD[2Jb\uFFFD\uFFFDc \uFFFDu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := activity(t, "{"+at+c.activity+"}")
			l, ok := lineOf(&a)
			require.True(t, ok)
			assert.Equal(t, clock+" "+c.want, l.plain())
		})
	}
}

func TestAnOutcomeThatAnAttemptTellsOfIsNoLine(t *testing.T) {
	for _, state := range []string{`"state":"delivered"`, `"state":"failed","attempted":true`} {
		a := activity(t, `{"kind":"outcome",`+state+`}`)
		_, ok := lineOf(&a)
		assert.False(t, ok, state)
	}
}

// pages is a Source of what a test prepares.
type pages struct {
	next    func(after string, limit int) (Page, error)
	limits  []int
	replays []string // the message IDs
	refuse  error    // the error of Replay
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

func TestPrintGoesOnWhereTheCollectorComesBack(t *testing.T) {
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
		assert.Contains(t, lines[0], "track    One")
		assert.Equal(t, "⋯ nothing listens", lines[1], "it says so once")
		assert.Equal(t, "⋯ 412 more", lines[2])
		assert.Contains(t, lines[3], "track    Two")
		assert.Equal(t, []int{printLimit, printLimit}, source.limits[:2])
	})
}

func TestPrintBeginsWithTheNewestLines(t *testing.T) {
	outcome := activity(t, `{"kind":"outcome","state":"delivered","attempted":true}`)
	one, two := activity(t, `{"kind":"call","title":"One"}`), activity(t, `{"kind":"call","title":"Two"}`)
	for form, want := range map[Form]int{Lines: printLimit, JSON: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		source := &pages{next: func(string, int) (Page, error) {
			cancel()
			return Page{Next: "1", Activity: []Activity{one, two, outcome}}, nil
		}}
		var out strings.Builder
		require.NoError(t, Print(ctx, source, 1, &out, form))
		assert.Equal(t, []int{want}, source.limits)
		if form == Lines {
			assert.Regexp(t, `^\S+ +Two\n$`, out.String(), "an outcome that an attempt tells of is no line")
		}
	}
}

func TestPrintFailsWhereNoCollectorIs(t *testing.T) {
	source := &pages{next: func(string, int) (Page, error) { return Page{}, errors.New("nothing listens") }}
	assert.EqualError(t, Print(t.Context(), source, 20, new(strings.Builder), Lines), "nothing listens")
}

func TestPrintsJSONAsItCame(t *testing.T) {
	const came = `{"kind":"call","more":12345678901234567890,"title":"a\u001b"}`
	page := Page{Skipped: 3, Activity: []Activity{activity(t, came), activity(t, "{\"title\":\"\u009b\U000E0001\"}")}}
	assert.Equal(t, came+"\n"+`{"title":"\u009b\udb40\udc01"}`+"\n", string(printed(&page, JSON, true)))
}

// picture is a model of a size with so many lines.
func picture(t *testing.T, width, height, lines int) *model {
	t.Helper()
	m := newModel(t.Context(), Config{Source: &pages{}, Title: "collector dev", URL: "http://127.0.0.1:8765"})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for n := range lines {
		m.Update(pageMsg{Page{Next: "x", Activity: []Activity{activity(t, fmt.Sprintf(`{"kind":"call","type":"track","title":"Event %d","userId":"日本","messageId":"m%d"}`, n, n))}}})
	}
	return m
}

// press presses keys and returns the command of the last one.
func press(m *model, keys ...string) (last tea.Cmd) {
	for _, k := range keys {
		switch k {
		case "up":
			_, last = m.Update(tea.KeyPressMsg{Code: tea.KeyUp})
		case "esc":
			_, last = m.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
		case "enter":
			_, last = m.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
		default:
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
	m.Update(quietMsg(m.noticed))
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

func TestPicturesFitAnySize(t *testing.T) {
	for width := 1; width < 130; width += 7 {
		for height := 1; height < 30; height += 3 {
			for _, keys := range [][]string{nil, {"up"}, {"?"}, {"/", "5"}, {"p"}} {
				m := picture(t, width, height, 40)
				press(m, keys...)
				drawn := m.draw()
				rows := strings.Split(drawn, "\n")
				assert.LessOrEqual(t, len(rows), height, "%d×%d %v", width, height, keys)
				for _, row := range rows {
					assert.LessOrEqual(t, terminal.Width(row), width, "%d×%d %v", width, height, keys)
				}
			}
		}
	}
}

func TestAFrameThatLeavesLinesOutSaysHowMany(t *testing.T) {
	m := picture(t, 80, 24, 1)
	m.Update(pageMsg{Page{Next: "y", Skipped: 412}})
	assert.Contains(t, m.draw(), "⋯ 412 more")
}

func TestLinesMakeRoomButNotWhereSomebodyLooks(t *testing.T) {
	m := picture(t, 80, 24, keptLines+10)
	assert.LessOrEqual(t, len(m.lines), keptLines)
	assert.Contains(t, m.draw(), fmt.Sprintf("Event %d", keptLines+9))
	press(m, "up")
	chosen := m.chosen().MessageID
	for range 2 * keptLines {
		m.append(messageLine("new", terminal.Normal))
	}
	assert.Len(t, m.lines, keptLines)
	assert.Equal(t, chosen, m.chosen().MessageID)
	assert.Positive(t, m.missed)
	assert.Contains(t, m.draw(), "newer")
	press(m, "esc")
	assert.Zero(t, m.missed)
	assert.Contains(t, m.draw(), " more")
}

func TestACollectorThatIsGoneIsSaidToBe(t *testing.T) {
	m := picture(t, 120, 24, 1)
	_, again := m.Update(lostMsg{errors.New("nothing listens")})
	assert.Contains(t, m.draw(), "not reached: nothing listens")
	assert.NotNil(t, again, "it is asked again")
	m.Update(pageMsg{Page{}})
	assert.Contains(t, m.draw(), "live")
}

func TestEntriesOfTheLogAreLines(t *testing.T) {
	l := logLine(`time=2026-11-23T02:07:00.392Z level=WARN msg="calls were given up" destination=crm`)
	assert.Equal(t, `log WARN "calls were given up" destination=crm`, l.plain())
	l = logLine("something \x1b[2J else")
	assert.Equal(t, "log something \uFFFD[2J else", l.plain())
}
