package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/service"
)

//go:embed example.yaml
var exampleConfig string

func newServe() *cobra.Command {
	var path string
	var example, acceptLoss, acceptLazySync bool
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run a collector from a configuration file",
		Long: `Run a collector from a configuration file, which defines the sources that send calls
and the destinations that receive them. collector serve --example prints a
configuration that explains every setting.

SIGHUP, or a change to the configuration or to a secret, certificate or plan file it
names, reloads the configuration without losing calls. Sources and their plans,
destinations, alerts, telemetry, the certificate, the log level, and the admin token,
hosts and proxies take effect immediately; the log names settings that require a
restart. An invalid file is rejected and the current configuration stays in effect. A
destination that is removed from the file is deleted with its pending calls; the log
contains their number.

Collectors that share a NATS cluster should have the same sources and destinations.
Removing a destination from a running collector deletes its pending calls for all of
them; a collector that still has the destination delivers only later calls. A
destination that is missing after a restart is deleted once no collector has had it
for four hours. Until then its calls wait for a collector that has it.

SIGTERM stops the collector gracefully: requests and deliveries in flight have 15
seconds to finish, and pending calls stay in the queue. In this time, /ready responds
with 503.

In addition to the tracking API, the collector serves the inspector at /, Prometheus
metrics at /metrics, and the admin API under /api/v1, documented by
/api/v1/openapi.yaml. These require an admin token if other machines can reach the
listener.`,
		Example: `  collector serve --example > collector.yaml
  collector serve --config collector.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if example {
				_, err := io.WriteString(cmd.OutOrStdout(), exampleConfig)
				return err
			}
			if path == "" {
				return usagef("--config is not set: name a file, or start with collector serve --example > collector.yaml")
			}
			return serve(cmd, path, service.Options{AcceptLoss: acceptLoss, AcceptLazySync: acceptLazySync})
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration `file`")
	cmd.Flags().BoolVar(&example, "example", false, "print a configuration that explains every setting")
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "continue without corrupted data that a previous start reported; the ledger counts the affected calls as lost")
	cmd.Flags().BoolVar(&acceptLazySync, "accept-lazy-sync", false, "use a cluster whose servers acknowledge calls before they are on disk")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

func serve(cmd *cobra.Command, path string, o service.Options) error {
	c, err := config.Load(path)
	if err != nil {
		return reportProblems(cmd, err)
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	level := new(slog.LevelVar)
	level.Set(c.Log.SlogLevel())
	log := newLogger(cmd.ErrOrStderr(), c.Log.Format, level)
	for _, w := range c.Warnings() {
		log.Warn(w.Error())
	}
	o.Config, o.Log, o.Level, o.Version = c, log, level, version()
	s, err := service.Start(cmd.Context(), o)
	if err != nil {
		return err
	}
	log.Info("listening", "url", s.URL(), "admin", s.AdminURL(), "sources", len(c.Sources), "destinations", len(c.Destinations), "version", version())
	var following sync.WaitGroup
	following.Go(func() {
		if err := s.Follow(cmd.Context(), path, hangup); err != nil {
			log.Warn("cannot watch the configuration for changes; send SIGHUP to reload it", "error", err)
		}
	})
	err = s.Run(cmd.Context())
	if cmd.Context().Err() != nil {
		following.Wait()
	}
	return err
}

func newCheck() *cobra.Command {
	var path string
	var form output
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a configuration file",
		Long: `Read a configuration file as collector serve does, with the files and variables it
refers to, and list all problems: file:line:column, the field, the problem and the fix.
Misspelled settings and values of the wrong type are reported first, and the other
problems once those are fixed. The exit code is 1 if there are problems. Nothing is
started. Webhook host names are resolved to find addresses that egress does not allow.
Secrets that every user of the machine can read cause a warning. With --json, the output is
{right, problems, warnings: [{file, line, column, field, wrong, mend}]}.`,
		Example: `  collector check --config collector.yaml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usagef("--config is not set: name a file")
			}
			c, err := config.Check(cmd.Context(), path)
			problems, warnings := config.Problems{}, config.Problems{}
			if err == nil {
				warnings = append(warnings, c.Warnings()...)
			} else if !errors.As(err, &problems) {
				return reportProblems(cmd, err)
			}
			data := map[string]any{"right": err == nil, "problems": problems, "warnings": warnings}
			err = form.write(cmd, data, "problems", func(out *printer) {
				if len(problems) > 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), problems)
					return
				}
				for _, w := range warnings {
					fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
				}
				fmt.Fprintf(out, "config OK: %s, %s, listening on %s\n", count(len(c.Sources), "source"), count(len(c.Destinations), "destination"), c.Listen)
			})
			if err == nil && len(problems) > 0 {
				err = errReported
			}
			return err
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration `file`")
	form.addOutputTo(cmd)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}
