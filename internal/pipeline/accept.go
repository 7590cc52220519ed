package pipeline

import "context"

// Open makes a pipeline, and opens its spool if there is one. Start starts it.
func Open(config Config) (*Pipeline, error) {
	p := newPipeline(config)
	if config.Spool == "" {
		return p, nil
	}
	return p, p.openSpool()
}

// Start starts the loop and, with a spool, its worker.
func (p *Pipeline) Start() {
	if p.spool != nil {
		go p.spool.run()
	}
	go p.run()
}

// Accept copies an encoded call into a batch, with a spool after it is on the disk. An error
// means that the call was not accepted. Only Block uses ctx.
func (p *Pipeline) Accept(ctx context.Context, c *Call) (err error) {
	if p.spool != nil {
		err = p.spool.add(ctx, c)
	} else {
		err = p.add(ctx, c)
	}
	if err == nil && p.log.verbose {
		p.log.log(ctx, queued(c.Kind, c.Encoded()))
	}
	return err
}
