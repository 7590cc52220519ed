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
		Short: "Run a collector by a configuration file",
		Long: `Run a collector by a configuration file, which names the sources that may send
and the destinations that get their calls. collector serve --example prints one
with every setting explained.

SIGHUP, or a change of the file or of one with a secret or a certificate that it
names, reloads it without losing a call: sources, destinations, alerts, the
admin token and hosts, the certificate and the log level are taken on at once; the log
names settings that need a restart. A file that is wrong is refused and what was stays. A
destination that is taken out of the file is forgotten with the calls that it had
pending, and the log says how many.

Collectors that share a NATS cluster should have the same sources and destinations.
Where one that runs has a destination taken out, what was pending is forgotten for
all; one that still has it gets the calls that come from then on. What is gone from
the files when they are started again is forgotten once no collector has had it for
four hours: until then its calls wait, since the one that has it may be restarting.

SIGTERM ends it gracefully: requests and deliveries under way end, for at most 15
seconds, and what is pending stays in the queue. /ready answers 503 from then on.

Beside the tracking API it serves the inspector at /, metrics for Prometheus at
/metrics, and the admin API under /api/v1, which /api/v1/openapi.yaml describes. For
these an admin token is needed where other machines can reach the listener.`,
		Example: `  collector serve --example > collector.yaml
  collector serve --config collector.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if example {
				_, err := io.WriteString(cmd.OutOrStdout(), exampleConfig)
				return err
			}
			if path == "" {
				return usagef("--config is not set: name a file, or begin with collector serve --example > collector.yaml")
			}
			return serve(cmd, path, service.Options{AcceptLoss: acceptLoss, AcceptLazySync: acceptLazySync})
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration `file`")
	cmd.Flags().BoolVar(&example, "example", false, "print a configuration with every setting explained")
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "go on without what is damaged, once a start has said what that is; the account counts the calls in it as lost")
	cmd.Flags().BoolVar(&acceptLazySync, "accept-lazy-sync", false, "go on with a cluster whose servers acknowledge calls before they are on a disk")
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
	o.Config, o.Log, o.Level = c, log, level
	s, err := startService(cmd.Context(), o, "")
	if err != nil {
		return err
	}
	log.Info("listening", "url", s.URL(), "admin", s.AdminURL(), "sources", len(c.Sources), "destinations", len(c.Destinations), "version", version())
	var following sync.WaitGroup
	following.Go(func() {
		if err := s.Follow(cmd.Context(), path, hangup); err != nil {
			log.Warn("changes of the configuration are not noticed; SIGHUP is", "error", err)
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
		Short: "Say what is wrong with a configuration file, line by line",
		Long: `Read a configuration file as collector serve would, with the files and variables
that it refers to, and say all that is wrong with it: file:line:column, the field,
and what would be right. Settings that are misspelled come first, and the rest once
they are mended. The exit code is 1 then. Nothing is started. The names of webhooks are
resolved, to find those that lead to addresses where egress allows no connection.
Secrets that every user of the machine can read are warned of. As data it is {right,
problems, warnings: [{file, line, column, field, wrong, mend}]}.`,
		Example: `  collector check --config collector.yaml`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usagef("--config is not set: name a file")
			}
			c, err := config.Check(cmd.Context(), path)
			if form.data() {
				return printProblems(cmd, form, c, err)
			}
			if err != nil {
				return reportProblems(cmd, err)
			}
			for _, w := range c.Warnings() {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is right: %s, %s, listening on %s\n",
				path, count(len(c.Sources), "source"), count(len(c.Destinations), "destination"), c.Listen)
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration `file`")
	form.addOutputTo(cmd)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// printProblems prints what is wrong as data.
func printProblems(cmd *cobra.Command, form output, c *config.Config, err error) error {
	problems, warnings := config.Problems{}, config.Problems{}
	if err == nil {
		warnings = append(warnings, c.Warnings()...)
	}
	if err != nil && !errors.As(err, &problems) {
		return fmt.Errorf("--config: %w", err)
	}
	if e := form.print(cmd.OutOrStdout(), map[string]any{"right": err == nil, "problems": problems, "warnings": warnings}, "problems"); e != nil || err == nil {
		return e
	}
	return errReported
}
