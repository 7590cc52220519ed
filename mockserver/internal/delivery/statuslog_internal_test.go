package delivery

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestStatusLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		handler := slog.NewTextHandler(&lines, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "destination" {
				return slog.Attr{}
			}
			return a
		}})
		s := statusLog{log: slog.New(handler), destination: "d"}
		const (
			recovered = "level=INFO msg=\"destination recovered\"\n"
			down      = "level=WARN msg=\"destination unreachable: its calls wait; probing once per second\" error=refused\n"
			slow      = "level=WARN msg=\"destination failing: reduced rate of attempts\" error="
			gaveUp    = "level=WARN msg=\"calls failed permanently; they can be replayed\" "
			pause     = "level=WARN msg=\"a response requires a pause: the destination's calls wait\" for=1s error=busy\n"
		)
		for i, step := range []struct {
			do   func()
			want string
		}{
			{func() { s.changed(working, "") }, ""},
			{func() { s.changed(unreachable, "refused") }, down},
			{func() { s.changed(working, "") }, recovered},
			{func() { s.changed(working, "") }, ""},
			{func() { s.changed(failing, "busy") }, slow + "busy\n"},
			{func() { s.changed(failing, "late") }, ""}, // until a minute after the last message
			{func() { time.Sleep(statusEvery); s.flush(time.Now()) }, slow + "late\n"},
			{func() { s.flush(time.Now()) }, ""},
			{func() { s.changed(unreachable, "refused") }, down},
			{func() { s.changed(failing, "busy") }, ""},
			{func() { s.changed(working, "") }, recovered},
			{func() { s.changed(failing, "busy") }, ""},
			{func() { s.changed(working, "") }, ""}, // the failure was not logged
			{func() { time.Sleep(statusEvery); s.flush(time.Now()) }, ""},
			{func() { s.gaveUp(time.Now(), 2, "refused") }, gaveUp + "calls=2 error=refused \"failed since the last message\"=0\n"},
			{func() { s.gaveUp(time.Now(), 3, "refused") }, ""},
			{func() { time.Sleep(statusEvery); s.gaveUp(time.Now(), 1, "gone") }, gaveUp + "calls=1 error=gone \"failed since the last message\"=3\n"},
			{func() { s.pauseRequested(time.Now(), time.Second, "busy") }, pause},
			{func() { s.pauseRequested(time.Now(), time.Second, "busy") }, ""},
		} {
			lines.Reset()
			step.do()
			assert.Equal(t, step.want, lines.String(), "step %d", i)
		}
	})
}
