// Collector receives analytics calls over HTTP, stores them on disk or on a NATS cluster, and
// forwards them to webhooks.
//
//	collector dev --webhook http://localhost:3000/hook
//	collector serve --config collector.yaml
//	collector --help
//
// See docs/operating.md in the repository.
package main

import (
	"context"
	"os"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
