package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
)

// reportProblems prints one problem of a configuration per line, and returns a usageError.
func reportProblems(cmd *cobra.Command, err error) error {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return usageError{fmt.Errorf("--config: %w", err)}
	}
	fmt.Fprintln(cmd.ErrOrStderr(), problems)
	return usageError{errReported}
}

// count formats a number with a noun, which is thing or its plural.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// second formats a time as local time, with a precision of seconds.
func second(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// zoned returns the name of a column that contains local times. It includes the time zone.
func zoned(column string) string {
	zone, _ := time.Now().Zone()
	return column + " " + zone
}

func age(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return max(0, time.Since(since)).Round(time.Second).String() + " ago" // the clock may have been set back
}
