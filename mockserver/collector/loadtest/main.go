package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := &cobra.Command{
		Use: "loadtest", Short: "Measure the command collector on this machine",
		SilenceUsage: true,
	}
	root.AddCommand(newIngest(), newDeliver(), newDead(), newStart(), newVerify(), newChurn(), newCompare(), newModerate(), newCluster(), newNullServer(), newBareRelay(), newBareSender(), newNATSServer())
	if err := root.ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}
