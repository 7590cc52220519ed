// Collector takes analytics calls over HTTP, keeps them on disk or on a NATS
// cluster, and forwards each to the webhooks that are to get it.
//
//	collector dev --webhook http://localhost:3000/hook
//	collector serve --config collector.yaml
//	collector --help
//
// docs/operating.md in the repository says how to run and to watch it.
package main

import (
	"context"
	"os"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
