package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
)

func newHealth() *cobra.Command {
	var c client
	var path string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Report by exit code whether a collector is ready",
		Long: `Check whether a collector accepts calls and can store them. The exit code is 0 if it
can; it is 1 if it cannot, is starting or stopping, or does not respond in time, and the
error names the reason. The check requires no token and suits container health checks:
the exit code is never 2, because Docker reserves it.

With --config, check the listener of that configuration on this machine. The name in
its certificate is then not verified, because nothing secret is sent.`,
		Example: `  collector health
  collector health --config collector.yaml
  collector health --url https://collector.example.com:8765 --timeout 1s`,
		Annotations: map[string]string{neverExits2: "Docker reserves this exit code"},
		Args:        noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path != "" {
				if c.url != "" {
					return usagef("--url and --config cannot be used together")
				}
				if err := c.useListenerOf(cmd, path); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return c.health(ctx, cmd.OutOrStdout())
		},
	}
	c.addAddressTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&path, "config", "", "check the collector that uses this configuration `file`")
	flags.DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the response")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// useListenerOf sets the URL of the client to the address of the listener in a configuration file.
func (c *client) useListenerOf(cmd *cobra.Command, path string) error {
	settings, err := config.Load(path)
	if err != nil {
		return reportProblems(cmd, err)
	}
	scheme := "http"
	if settings.TLS.CertFile != "" {
		scheme = "https"
		c.requester = tlsClient(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate's name is unknown here, and the request contains no secret
	}
	c.url = config.LocalURL(scheme, settings.Listen)
	return nil
}

// health prints "ready". If the collector is not ready, it returns an error with the reason.
func (c *client) health(ctx context.Context, out io.Writer) error {
	base, err := c.base()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/ready", nil)
	if err != nil {
		return err
	}
	status, body, err := c.exchange(req)
	if err != nil {
		return err
	}
	var health struct{ Status, Message string }
	switch err := json.Unmarshal(body, &health); {
	case err != nil || health.Status == "":
		return notCollectorError(status, body)
	case status != http.StatusOK:
		return errors.New("not ready: " + cmp.Or(health.Message, health.Status))
	}
	_, err = fmt.Fprintln(out, "ready")
	return err
}
