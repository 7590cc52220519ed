package analytics

import (
	"encoding/base64"
	"fmt"
	"log"
	"os"
	"strings"
)

// debugName is what DEBUG has to name to turn logging on.
const debugName = "analytics"

// debugEnabled reports whether list, the value of the DEBUG environment
// variable, names this package: a comma-separated list, each entry a name in
// which * stands for any characters.
func debugEnabled(list string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		if matchName(strings.TrimSpace(entry), debugName) {
			return true
		}
	}
	return false
}

// matchName matches name against a pattern in which * stands for any
// characters, none included.
func matchName(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	for _, part := range parts[1:last] {
		if ok { // the first place that a part fits leaves the most to the others
			_, rest, ok = strings.Cut(rest, part)
		}
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

// logger writes the client's log lines. It is safe for concurrent use, since
// log.Logger is, and it outlives a panic in a writer the caller gave.
type logger struct {
	out     *log.Logger
	verbose bool
	secrets *strings.Replacer
}

func defaultLogger() *log.Logger { return log.New(os.Stderr, "analytics ", log.LstdFlags) }

func newLogger(out *log.Logger, verbose bool, writeKey string) *logger {
	if out == nil {
		out = defaultLogger()
	}
	return &logger{
		out:     out,
		verbose: verbose || debugEnabled(os.Getenv("DEBUG")),
		secrets: redactor(writeKey),
	}
}

// redactor takes the write key out of a text, also as it stands in a Basic
// Authorization header, and leaves enough of it to tell two keys apart.
func redactor(writeKey string) *strings.Replacer {
	if writeKey == "" {
		return strings.NewReplacer()
	}
	mask := "***"
	if len(writeKey) >= 16 {
		mask = writeKey[:3] + mask
	}
	return strings.NewReplacer(writeKey, mask,
		base64.StdEncoding.EncodeToString([]byte(writeKey+":")), mask)
}

// logf writes one line. Text from outside comes as an argument, never as the
// format.
func (l *logger) logf(format string, args ...interface{}) {
	defer func() { _ = recover() }() // the caller's writer is not ours to die of
	_ = l.out.Output(2, l.secrets.Replace(fmt.Sprintf(format, args...)))
}

// debugf writes one line if DEBUG or Verbose asked for it.
func (l *logger) debugf(format string, args ...interface{}) {
	if l.verbose {
		l.logf(format, args...)
	}
}
