package documents

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Command is one command of a line of shell code.
type Command struct {
	Env  []string // variables set for the command, NAME=value
	Args []string // the program name and its arguments
	In   string   // the file redirected to standard input, or empty
	Out  string   // the file that receives standard output, or empty
}

// Commands parses shell code, one line at a time. It supports words, quotes, comments, variable
// assignments before a command, pipes, and redirections with < and > at the end of a command.
// Other syntax is an error.
func Commands(text string) ([]Command, error) {
	var commands []Command
	for line := range strings.Lines(text) {
		words, err := split(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
		for len(words) > 0 {
			end := slices.Index(words, "|")
			if end < 0 {
				end = len(words)
			}
			commands = append(commands, command(words[:end]))
			words = words[min(end+1, len(words)):]
		}
	}
	return commands, nil
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

func command(words []string) Command {
	var c Command
	for len(words) > 1 && assignment.MatchString(words[0]) {
		c.Env, words = append(c.Env, words[0]), words[1:]
	}
	for n := len(words); n > 2 && (words[n-2] == "<" || words[n-2] == ">"); n = len(words) {
		if words[n-2] == "<" {
			c.In = words[n-1]
		} else {
			c.Out = words[n-1]
		}
		words = words[:n-2]
	}
	c.Args = words
	return c
}

// split splits a line into words.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var inWord bool
	var quote rune
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			end()
		case quote == 0 && r == '#' && !inWord:
			return words, nil
		case quote == 0 && strings.ContainsRune("&;`$\\()*?~", r), quote == '"' && strings.ContainsRune("`$\\", r):
			return nil, fmt.Errorf("the shell syntax %q is not supported: use plain commands", r)
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	if quote != 0 {
		return nil, fmt.Errorf("the quote %q is not closed", quote)
	}
	return words, nil
}
