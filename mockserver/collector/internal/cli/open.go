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
			found, err := c.mustFind(ctx, byID(args[0]))
			if err != nil {
				return err
			}
			page += "calls/" + found[0].Ref
		}
		if !printOnly && !c.output.data() {
			err := openPage(page)
			if err == nil {
				return nil
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "collector:", err)
		}
		return c.output.write(cmd, map[string]any{"url": page}, "", func(out *printer) { fmt.Fprintln(out, page) })
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
			return errors.New("no display for a browser: use --print")
		}
	}
	cmd := exec.Command(program, args...) //nolint:gosec // the page is the collector's
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot open a browser: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
