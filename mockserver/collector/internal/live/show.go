package live

import (
	"context"

	tea "charm.land/bubbletea/v2"
)

// Show runs the terminal UI until the user quits or ctx ends, and restores the terminal.
func Show(ctx context.Context, c Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(newModel(ctx, c), tea.WithInput(c.In), tea.WithOutput(c.Out), tea.WithoutSignalHandler())
	// Quit stops the program cleanly. If its context were canceled, its input would be closed
	// during a read.
	defer context.AfterFunc(ctx, p.Quit)()
	if c.Log != nil {
		c.Log.divert(func(entry string) { p.Send(logMsg(entry)) })
		defer c.Log.divert(nil)
	}
	_, err := p.Run()
	return err
}
