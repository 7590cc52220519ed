package e2e

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestReceiverSnippetsVerify runs the receiver programs that the page shows, and delivers
// valid and invalid calls to them.
func TestReceiverSnippetsVerify(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	b := newTab(t, srv.URL)
	b.open("/signatures")
	for _, v := range []struct {
		id, program, file string
		args              []string
	}{
		{"go", "go", "main.go", []string{"run"}},
		{"node", "node", "receiver.mjs", nil},
		{"python", "python3", "receiver.py", nil},
	} {
		t.Run(v.id, func(t *testing.T) {
			if _, err := exec.LookPath(v.program); err != nil {
				t.Skip(err)
			}
			code := eval[string](b, `document.querySelector('#code-verify-`+v.id+` code').textContent`)
			address, err := harness.FreeAddress()
			require.NoError(t, err)
			_, port, err := net.SplitHostPort(address)
			require.NoError(t, err)
			require.Contains(t, code, "8080")
			file := filepath.Join(t.TempDir(), v.file)
			require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(code, "8080", port)), 0o600))
			runReceiver(t, address, v.program, append(v.args, file)...)

			srv, collector := serve(t, engine.Config{Destinations: []tracking.Destination{
				to("hook", "http://"+address, "s3cret"), to("impostor", "http://"+address, "another"), to("unsigned", "http://"+address, ""),
			}}, "")
			post(t, srv.URL, "web", track("m1", "ada", "Sign & Seal <é>\u2028", `{"a b":1.0,"10":12345678901234567890}`))
			want := map[string]tracking.State{"hook": tracking.StateDelivered, "impostor": tracking.StateFailed, "unsigned": tracking.StateFailed}
			awaitEnds(t, collector.History(), len(want))
			record := collector.History().Records(nil)[0]
			for name, state := range want {
				o, _ := record.State(name)
				assert.Equal(t, state, o.State, "%s: %s", name, o.Reason)
			}
		})
	}
}

// awaitEnds waits until the only call of a history has n outcomes.
func awaitEnds(t *testing.T, h *history.History, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		changed := h.Changed()
		if records := h.Records(nil); len(records) == 1 && len(records[0].Ends) == n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.Fail(t, "the call has not ended", "%+v", h.Records(nil))
		}
	}
}

// runReceiver starts a program and waits until it listens.
func runReceiver(t *testing.T, address, program string, args ...string) {
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "SHARED_SECRET=s3cret")
	endWithItsChildren(cmd)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	for end := time.Now().Add(2 * patience); ; {
		res, err := http.Get("http://" + address + "/")
		if err == nil {
			_ = res.Body.Close()
			return
		}
		require.True(t, time.Now().Before(end), "%s does not listen: %v", program, err)
		time.Sleep(20 * time.Millisecond) // there is no event to wait for
	}
}
