package terminal

// A Style is how a text looks. The colours are the sixteen that the reader's terminal
// defines, so that they can be read on a light background and on a dark one.
type Style string

// Styles.
const (
	Normal  Style = ""
	Bold    Style = "1"
	Faint   Style = "2"
	Reverse Style = "7"
	Red     Style = "31"
	Green   Style = "32"
	Yellow  Style = "33"
	Blue    Style = "34"
	Magenta Style = "35"
	Cyan    Style = "36"
)

// Paint returns the text in the style.
func (s Style) Paint(text string) string {
	if s == Normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}
