package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A sample is one measurement.
type sample struct {
	result
	tally
}

// lost is how many calls did not reach the collector.
func (s sample) lost() int64 { return s.Made - s.Calls }

// timeLimit ends a driver that does not end by itself.
const timeLimit = 3 * time.Minute

// measure runs a driver and a collector, and meanwhile what happens to the
// collector.
func (o *options) measure(round int, j job, happens func(*process) error) (s sample, err error) {
	collector, err := startCollector()
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, collector.stop()) }()
	j.Endpoint = "http://" + collector.addr
	if o.profile != "" && round == 0 {
		size := "S"
		if j.Large {
			size = "L"
		}
		j.Profile = fmt.Sprintf("%s/%s-%s-%d-%d", o.profile, j.Client, size, j.Batch, j.Rate)
	}
	fate := make(chan error, 1)
	go func() {
		if happens != nil {
			fate <- happens(collector)
		} else {
			fate <- nil
		}
	}()
	s.result, err = drive(j)
	if err != nil {
		return s, err
	}
	if err = <-fate; err != nil {
		return s, err
	}
	if s.tally, err = collector.tell("tally"); err != nil {
		return s, err
	}
	if slices.Contains(referenceNames, j.Client) {
		s.Calls = s.Made
	}
	if s.Lost >= 0 && s.lost() > s.Lost { // a request that was cut off may have come, and comes again
		return s, fmt.Errorf("%s says that it lost %d calls, the collector lacks %d", j.Client, s.Lost, s.lost())
	}
	return s, nil
}

// drive runs a driver's process to its end.
func drive(j job) (r result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	in, err := json.Marshal(j)
	if err != nil {
		return r, err
	}
	cmd, err := self(ctx, "driver")
	if err != nil {
		return r, err
	}
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("the driver of %s: %w", j.Client, err)
	}
	return r, json.Unmarshal(out, &r)
}

// roleVariable is set in the environment of a process that this program starts
// of itself.
const roleVariable = "BENCH_ROLE"

// runRole does what such a process is for, and reports whether this is one.
func runRole() (ended bool, err error) {
	switch os.Getenv(roleVariable) {
	case "driver":
		return true, runDriver()
	case "collector":
		return true, runCollector()
	}
	return false, nil
}

// self is a command that runs this program in a role.
func self(ctx context.Context, role string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// A process is a collector's.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr string
}

func startCollector() (*process, error) {
	cmd, err := self(context.Background(), "collector")
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := p.out.ReadString('\n')
	p.addr = strings.TrimSpace(line)
	return p, err
}

// tell gives the collector a command and returns its counts.
func (p *process) tell(command string) (t tally, err error) {
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		return t, err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(line, &t)
}

// stop ends the collector, which ends when its input does.
func (p *process) stop() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}
