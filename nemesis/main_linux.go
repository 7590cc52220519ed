package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/seed-45eadc4a/analytics-go/nemesis/disk"
)

const usage = `usage:
  nemesis disk serve [-fs ext4|xfs] [-size MB] [-seed N] DIR
  nemesis disk tell DIR COMMAND

commands:
` + disk.Usage

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	switch {
	case len(args) > 2 && args[0] == "disk" && args[1] == "serve":
		return serveDisk(args[2:])
	case len(args) > 3 && args[0] == "disk" && args[1] == "tell":
		output, err := disk.Send(filepath.Join(args[2], "socket"), strings.Join(args[3:], " "))
		if output != "" && err == nil {
			fmt.Println(output)
		}
		return err
	}
	return errors.New(usage)
}

// serveDisk creates a disk and executes commands for it until the command close.
func serveDisk(args []string) error {
	flags := flag.NewFlagSet("disk serve", flag.ExitOnError)
	fs := flags.String("fs", "ext4", "file system: ext4 or xfs")
	size := flags.Int64("size", 512, "size in megabytes")
	seed := flags.Uint64("seed", 1, "decides which data power cuts and torn writes preserve")
	_ = flags.Parse(args)
	if flags.NArg() != 1 {
		return errors.New(usage)
	}
	dir := flags.Arg(0)
	if err := disk.Supported(); err != nil {
		return err
	}
	d, err := disk.New(disk.Options{Dir: dir, Size: *size << 20, FS: *fs, Seed: *seed})
	if err != nil {
		return err
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		return errors.Join(err, d.Close())
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = socket.Close()
	}()
	fmt.Printf("%s is mounted on %s, seed %d\n", *fs, d.Path(), *seed)
	err = d.Listen(socket)
	_ = socket.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
