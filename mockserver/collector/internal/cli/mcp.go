package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/service"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
)

const (
	// maxMessage is the maximum size of a message from an MCP client, in bytes. Larger plans can be
	// read from a file.
	maxMessage = 4 << 20
	// mcpPath is the path of the MCP endpoint.
	mcpPath = "/mcp"
	// httpEnd limits the wait for responses to HTTP clients at the end.
	httpEnd = 5 * time.Second
)

// mcpFlags are the values of the flags of collector mcp.
type mcpFlags struct {
	client
	writeKey     string
	allowChanges bool

	embedded bool
	dev      devFlags

	http, httpTokenFile string
	httpHosts           []string
}

func newMCP() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the collector's data to coding agents (Model Context Protocol)",
		Long: `Run an MCP server (Model Context Protocol). A coding agent that writes tracking code uses
it to wait for expected calls, read calls and their deliveries, check calls against a
tracking plan, and list events and problems.

The server uses the collector at --url. With --dev, it runs its own collector, with the
flags of collector dev. The queue of this collector is empty at the start, and is deleted
at the end.

By default, the agent starts this command, and uses its standard input and output. With
--http, the command serves streamable HTTP at the path ` + mcpPath + `. HTTP clients must send the
token in --http-token-file. This flag is required if other machines can connect, or if the
collector has an admin token.

By default, the tools only read. With --allow-changes, there are also tools that send test
calls, test destinations and replay calls. Results contain no secrets and no write keys.
Anyone with a write key can choose the values of calls, so results mark them as untrusted.`,
		Example: `  collector mcp --dev --allow-changes
  collector mcp --dev --forward crm=http://localhost:3000/hook
  collector mcp --url https://collector.example.com --token-file token.txt
  collector mcp --http 127.0.0.1:8766`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.allowChanges, "allow-changes", false, "add tools that send calls, test destinations and replay calls")
	flags.BoolVar(&f.embedded, "dev", false, "run a collector for development")
	flags.StringVar(&f.writeKey, "write-key", "", "the write key for test calls (default $COLLECTOR_WRITE_KEY, or \"dev\", which works with collector dev)")
	flags.StringVar(&f.http, "http", "", "serve streamable HTTP at this `address` instead of using standard input and output")
	flags.StringVar(&f.httpTokenFile, "http-token-file", "", "a `file` with the token that HTTP clients must send")
	flags.StringArrayVar(&f.httpHosts, "http-host", nil, "accept HTTP requests to this host `name`, in addition to localhost and IP addresses (repeatable)")
	_ = cmd.MarkFlagFilename("http-token-file")
	f.addAccessTo(cmd)
	devOnly := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.dev.addTo(devOnly)
	devOnly.VisitAll(func(flag *pflag.Flag) { flag.Usage = "with --dev: " + flag.Usage })
	flags.AddFlagSet(devOnly)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return f.check(devOnly) }
	return cmd
}

// check checks the combination of flags.
func (f *mcpFlags) check(devOnly *pflag.FlagSet) (err error) {
	if f.embedded && f.url != "" {
		return usagef("--dev and --url cannot be used together: --dev runs its own collector")
	}
	devOnly.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && !f.embedded {
			err = usagef("--%s requires --dev", flag.Name)
		}
	})
	if f.http == "" && (f.httpTokenFile != "" || len(f.httpHosts) > 0) {
		return usagef("--http-token-file and --http-host require --http")
	}
	// Errors at the start are easier to see than errors of each tool.
	_, badKey := usedKey(f.writeKey)
	if err = errors.Join(err, badKey); err != nil || f.embedded {
		return err
	}
	_, badURL := f.base()
	_, badToken := f.token()
	_, badCA := f.client.http()
	return errors.Join(badURL, badToken, badCA)
}

func (f *mcpFlags) run(cmd *cobra.Command) (err error) {
	ctx, end := context.WithCancel(cmd.Context())
	defer end()
	if f.embedded {
		stop, err := f.startDev(ctx, end, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	server := newToolServer(ctx, &f.client, f.writeKey, f.allowChanges)
	if f.http != "" {
		return f.serveHTTP(ctx, cmd.OutOrStdout(), server)
	}
	if live.IsTerminal(cmd.InOrStdin()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "waiting for an MCP client on standard input; press Ctrl-D to quit")
	}
	// The end of ctx ends the input and the tools. Run then returns after the last response.
	if err := server.Run(context.WithoutCancel(ctx), newStdio(cancelable(ctx, cmd.InOrStdin()), cmd.OutOrStdout())); err != nil {
		return fmt.Errorf("standard input or output: %w: let an MCP client start this command", err)
	}
	return nil
}

// startDev starts a collector with an empty queue. It calls failed if the collector stops early. The
// function that it returns stops the collector and deletes the queue.
func (f *mcpFlags) startDev(ctx context.Context, failed func(), log io.Writer) (stop func() error, err error) {
	if f.dev.data, err = os.MkdirTemp("", "collector-mcp-"); err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(f.dev.data) }
	c, end, err := f.dev.start(ctx, newLogger(log, "text", slog.LevelWarn), nil, failed)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	f.client.url, f.client.secret, f.client.requester = c.url, c.secret, c.requester
	return func() error { return errors.Join(end(), remove()) }, nil
}

// serveHTTP serves streamable HTTP until ctx ends, and then sends the responses to running tools.
func (f *mcpFlags) serveHTTP(ctx context.Context, out io.Writer, server *mcp.Server) error {
	guard, err := f.guard()
	if err != nil {
		return err
	}
	l, err := service.Listen("--http", f.http)
	if err != nil {
		return err
	}
	srv := access.NewHTTPServer(mcpHandler(guard, server))
	var unused sync.Map // connections without a request, which Shutdown would wait for
	srv.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			unused.Store(c, nil)
		} else {
			unused.Delete(c)
		}
	}
	srv.RegisterOnShutdown(func() {
		for c := range unused.Range {
			_ = c.(net.Conn).Close()
		}
	})
	fmt.Fprintf(out, "MCP server at http://%s%s\n", l.Addr(), mcpPath)
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpEnd)
	defer cancel()
	if srv.Shutdown(ending) != nil {
		return srv.Close()
	}
	return nil
}

// guard returns the guard of the HTTP endpoint.
func (f *mcpFlags) guard() (*access.Guard, error) {
	var token string
	var err error
	if f.httpTokenFile != "" {
		if token, err = readSecret("--http-token-file", f.httpTokenFile); err != nil {
			return nil, err
		}
	}
	if !config.IsAddress(f.http) {
		return nil, usagef("invalid --http %q: use an address such as 127.0.0.1:8766", f.http)
	}
	admin, err := f.token()
	if err != nil {
		return nil, err
	}
	if token == "" && admin != "" {
		return nil, usagef("--http requires --http-token-file if the collector has an admin token: otherwise every program that can connect would have the token's access")
	}
	guard, err := access.NewGuard(access.GuardConfig{Token: token, Loopback: config.Loopback(f.http), Hosts: f.httpHosts})
	if err != nil {
		return nil, usagef("--http %s accepts connections from other machines: set --http-token-file, or use an address such as 127.0.0.1:8766", f.http)
	}
	return guard, nil
}

// mcpHandler serves an MCP server at mcpPath. The guard checks the token, and the Host and Origin
// headers as the MCP specification requires.
func mcpHandler(guard *access.Guard, server *mcp.Server) http.Handler {
	endpoint := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // the guard checks the Host header
	})
	mux := http.NewServeMux()
	mux.HandleFunc(mcpPath, func(w http.ResponseWriter, r *http.Request) {
		if refused := guard.Check(r); refused != nil {
			switch refused.Code {
			case "host_unknown":
				refused.Message = "unknown host; use localhost or the server's address, or add the name with --http-host"
			case "token_missing_or_wrong":
				refused.Message = "missing or invalid token; send Authorization: Bearer with the token in --http-token-file"
			}
			access.Refuse(w, r, refused)
			return
		}
		r.Body = access.NewLongBody(w, r)
		endpoint.ServeHTTP(w, r)
	})
	return mux
}
