package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
)

// Maximum sizes of files, in bytes.
const (
	maxSecret       = 64 << 10
	maxCertificates = 4 << 20
)

// openFile opens a file, or standard input for "-". If standard input is a terminal, openFile prints a
// message, which names the content. The size is -1 if it is unknown.
func openFile(cmd *cobra.Command, path, content string) (io.ReadCloser, int64, error) {
	if path == "-" {
		in := cmd.InOrStdin()
		if live.IsTerminal(in) {
			fmt.Fprintf(cmd.ErrOrStderr(), "reading %s from standard input; press Ctrl-D to finish\n", content)
		}
		return cancelable(cmd.Context(), in), -1, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	size := int64(-1)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

var errCanceled = errors.New("canceled")

// cancelable returns a reader that reads from in. After ctx ends, its reads fail with errCanceled. Reads of a
// terminal cannot be canceled.
func cancelable(ctx context.Context, in io.Reader) io.ReadCloser {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(errCanceled) })
	go func() {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err)
	}()
	return r
}

// readSecret reads a file with a secret, without surrounding white space.
func readSecret(flag, path string) (string, error) {
	data, err := config.ReadFile(path, maxSecret)
	if err != nil {
		return "", usagef("%s: %w", flag, err)
	}
	secret := strings.TrimSpace(string(data))
	switch {
	case secret == "":
		return "", usagef("%s is empty: use a file that contains the secret", flag)
	case strings.Contains(secret, "\n"):
		return "", usagef("%s has more than one line: use a file that contains only the secret", flag)
	}
	return secret, checkSecret(flag, secret)
}

// checkSecret returns an error for a secret that contains invisible characters.
func checkSecret(from, secret string) error {
	if p := settings.CheckSecret(from, secret); p != nil {
		return usageError{p}
	}
	return nil
}
