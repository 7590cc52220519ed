package terminal

// A Style is an ANSI style. Its color is one of the 16 colors of the terminal's theme, which are
// readable on light and dark backgrounds.
type Style string

const (
	Normal  Style = ""
	Bold    Style = "1"
	Faint   Style = "2"
	Reverse Style = "7"
	Red     Style = "31"
	Green   Style = "32"
	Yellow  Style = "33"
	Cyan    Style = "36"
)

// Paint returns text with the escape sequences of the style.
func (s Style) Paint(text string) string {
	if s == Normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}
