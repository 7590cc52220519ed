package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestInterruptedWaitNamesWhatContinues(t *testing.T) {
	for args, want := range map[string]string{
		"delete-user u1 --wait 1m":                         "deletion request r1",
		"send page --user-id u1 --message-id m1 --wait 1m": "delivery of the call m1",
		"replay crm": "replay r1",
		"audience sync Spenders --source web --destination crm": "sync r1",
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"success":true,"id":"r1","destinations":[{"name":"crm"}],"calls":[{"messageId":"m1"}]}`)
			if r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/destinations") {
				interrupt()
			}
		}))
		t.Cleanup(srv.Close)
		var errOut bytes.Buffer
		code := Main(ctx, append(strings.Fields(args), "--url", srv.URL), strings.NewReader("u1\n"), io.Discard, &errOut)
		assert.Equal(t, 1, code)
		assert.Equal(t, "collector: stopped waiting; "+want+" continues in the collector\n", errOut.String())
	}
}
