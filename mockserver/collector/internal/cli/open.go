package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

func newOpen() *cobra.Command {
	var c client
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "open [MESSAGE-ID]",
		Short: "Open the inspector, or a call in it, in the browser",
		Long: `Open the inspector in the browser, or the page of a call. Without a browser, or with
--print, print the URL.`,
		Example:           "  collector open\n  collector open --print",
		Args:              atMostOne,
		ValidArgsFunction: onlyFirst(c.messageIDs()),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
		defer cancel()
		page, err := c.base()
		if err != nil {
			return err
		}
		page += "/"
		if len(args) == 1 {
			found, err := c.mustFind(ctx, args[0])
			if err != nil {
				return err
			}
			page += "calls/" + found[0].Ref
		}
		if c.output.data() {
			return c.output.print(cmd.OutOrStdout(), map[string]any{"url": page}, "")
		}
		if printOnly {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), page)
			return err
		}
		if err := openPage(page); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "collector:", err)
			_, err := fmt.Fprintln(cmd.OutOrStdout(), page)
			return err
		}
		return nil
	}
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the URL instead of opening it")
	return c.addTo(cmd)
}

// openPage opens a URL in the browser.
func openPage(page string) error {
	program, args := "xdg-open", []string{page}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", page}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("no display to open a browser on")
		}
	}
	cmd := exec.Command(program, args...) //nolint:gosec // the page is the collector's
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot open a browser: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
