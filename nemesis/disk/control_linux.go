package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Usage describes the commands that Do executes.
const Usage = `  fail write|read|sync [data|log|FILE] [skip=N] [count=N] [tear]
              make operations fail with EIO: everywhere, or only in file
              contents (data), in the file system's log (log), or in one file;
              N operations, or all until heal. tear: a failed write stores some
              of its sectors
  heal        remove all faults
  unplug      make all operations fail until cut
  cut [all|some|none]
              cut the power and mount the remaining data. The disk loses all,
              some or none of its unflushed writes; by default the seed decides
  drop-cache  drop clean pages from the kernel's cache
  remount     unmount cleanly and mount again
  fill [but=BYTES]
              use all free space of the file system, except for BYTES
  empty       free the space used by fill
  read-only   reject writes with EROFS until cut or remount; xfs then also
              rejects reads, with EIO
  stats       print the counts of operations
  close       unmount and remove the disk`

// errClosed is returned after a command has closed the disk.
var errClosed = errors.New("closed")

// Do executes a command of Usage and returns its output.
func (d *Disk) Do(line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", errors.New("no command")
	}
	option := ""
	if len(words) > 1 {
		option = words[1]
	}
	switch words[0] {
	case "fail":
		f, err := d.parseFault(words[1:])
		if err == nil {
			d.Fail(f)
		}
		return "", err
	case "heal":
		d.Heal()
		return "", nil
	case "unplug":
		d.Unplug()
		return "", nil
	case "cut":
		loss := slices.Index([]string{"", "all", "some", "none"}, option)
		if loss < 0 {
			return "", fmt.Errorf("invalid loss %q: use all, some or none", option)
		}
		return "", d.PowerCut(Loss(loss))
	case "drop-cache":
		return "", d.DropCache()
	case "remount":
		return "", d.Remount()
	case "fill":
		but, _ := strconv.ParseInt(strings.TrimPrefix(option, "but="), 10, 64)
		return "", d.Fill(but)
	case "empty":
		return "", d.Empty()
	case "read-only":
		return "", d.ReadOnly()
	case "stats":
		return fmt.Sprintf("%+v", d.Stats()), nil
	case "help":
		return "\n" + Usage, nil
	case "close":
		return "", errClosed
	}
	return "", fmt.Errorf("unknown command %q. Commands:\n%s", words[0], Usage)
}

// parseFault parses the arguments of the command fail.
func (d *Disk) parseFault(words []string) (f Fault, err error) {
	if len(words) == 0 {
		return f, errors.New("missing operation: use fail write, fail read or fail sync")
	}
	op := slices.Index([]string{"write", "sync", "read"}, words[0])
	if op < 0 {
		return f, fmt.Errorf("invalid operation %q: use write, read or sync", words[0])
	}
	f.Op = Op(op)
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "data":
			f.Ranges = d.Data()
		case "log":
			f.Ranges = d.Log()
		case "tear":
			f.Tear = true
		case "skip":
			f.Skip, err = strconv.Atoi(value)
		case "count":
			f.Count, err = strconv.Atoi(value)
		default:
			f.Ranges, err = Extents(w)
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", w, err)
		}
	}
	return f, nil
}

// Listen executes commands from the connections of a Unix socket until it receives the command
// close. A command is one line. A response is one line that starts with ok or error. Listen serves
// one connection at a time.
func (d *Disk) Listen(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		closed := d.serve(conn)
		_ = conn.Close()
		if closed {
			return nil
		}
	}
}

// serve executes the commands of one connection. It returns true after the command close.
func (d *Disk) serve(conn net.Conn) bool {
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		output, err := d.Do(lines.Text())
		response := "ok " + output
		if errors.Is(err, errClosed) {
			response += err.Error()
		} else if err != nil {
			response = "error: " + strings.ReplaceAll(err.Error(), "\n", "\n  ")
		}
		fmt.Fprintln(conn, strings.TrimSpace(response))
		if errors.Is(err, errClosed) {
			return true
		}
	}
	return false
}

// Send sends a command to the socket of a disk and returns the response.
func Send(socket, command string) (string, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintln(conn, command)
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return "", err
	}
	response, err := io.ReadAll(conn)
	output, ok := strings.CutPrefix(strings.TrimSpace(string(response)), "ok")
	if err == nil && !ok {
		err = errors.New(strings.TrimPrefix(output, "error: "))
	}
	return strings.TrimSpace(output), err
}
