package disk

import (
	"fmt"
	"regexp"
	"strconv"
)

// layout returns the ranges that contain the log and the file contents of a file system.
func layout(fs, medium string, size int64) (log, data []Range, err error) {
	if fs == "xfs" {
		return xfsLayout(medium, size)
	}
	return ext4Layout(medium, size)
}

// ext4Layout returns the layout of ext4. mkfs must have placed all metadata at the start.
func ext4Layout(medium string, size int64) (log, data []Range, err error) {
	text, err := output("dumpe2fs", medium)
	if err != nil {
		return nil, nil, err
	}
	block, err := number(text, `Block size: +(\d+)`)
	if err != nil {
		return nil, nil, err
	}
	free, err := number(text, `Free blocks: (\d+)-`)
	if err != nil {
		return nil, nil, err
	}
	text, err = output("debugfs", "-R", "stat <8>", medium)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range regexp.MustCompile(`\(\d+-\d+\):(\d+)-(\d+)`).FindAllStringSubmatch(text, -1) {
		from, _ := strconv.ParseInt(e[1], 10, 64)
		to, _ := strconv.ParseInt(e[2], 10, 64)
		log = append(log, Range{from * block, (to + 1) * block})
	}
	if len(log) == 0 {
		return nil, nil, fmt.Errorf("disk: debugfs reports no journal blocks:\n%s", text)
	}
	return log, []Range{{free * block, size}}, nil
}

func xfsLayout(medium string, size int64) (log, data []Range, err error) {
	text, err := output("xfs_db", "-r", "-c", "sb 0", "-c", "p", medium)
	if err != nil {
		return nil, nil, err
	}
	var block, start, blocks, agBlocks, agLog int64
	for name, n := range map[string]*int64{"blocksize": &block, "logstart": &start, "logblocks": &blocks, "agblocks": &agBlocks, "agblklog": &agLog} {
		if *n, err = number(text, `(?m)^`+name+` = (\d+)$`); err != nil {
			return nil, nil, err
		}
	}
	from := (start>>agLog*agBlocks + start&(1<<agLog-1)) * block
	to := from + blocks*block
	return []Range{{from, to}}, []Range{{0, from}, {to, size}}, nil
}

func number(text, pattern string) (int64, error) {
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("disk: output without %s:\n%s", pattern, text)
	}
	return strconv.ParseInt(found[1], 10, 64)
}

var extent = regexp.MustCompile(`(?m)^ +\d+: +\d+\.\. *\d+: +(\d+)\.\. *(\d+):`)

// Extents returns the ranges of a file on its disk. They do not include unwritten data.
func Extents(path string) (all []Range, err error) {
	text, err := output("filefrag", "-ve", "-b1", path)
	if err != nil {
		return nil, err
	}
	for _, e := range extent.FindAllStringSubmatch(text, -1) {
		from, _ := strconv.ParseInt(e[1], 10, 64)
		to, _ := strconv.ParseInt(e[2], 10, 64)
		all = append(all, Range{from, to + 1})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("disk: %s has no data on the disk yet", path)
	}
	return all, nil
}
