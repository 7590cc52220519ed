package live

import (
	"context"

	tea "charm.land/bubbletea/v2"
)

// Show shows what happens until the reader ends it or ctx ends. The terminal is then as it
// was.
func Show(ctx context.Context, c Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(newModel(ctx, c), tea.WithInput(c.In), tea.WithOutput(c.Out), tea.WithoutSignalHandler())
	// A program that is killed, as it would be by a context of its own, closes its input while
	// that is being read.
	defer context.AfterFunc(ctx, p.Quit)()
	if c.Log != nil {
		c.Log.divert(func(entry string) { p.Send(logMsg(entry)) })
		defer c.Log.divert(nil)
	}
	_, err := p.Run()
	return err
}
