package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scheduleTrim calls trim a few times after the start. All components are this one large program.
// Its start reads code and constants of all of them, of which each component needs few later.
func scheduleTrim() {
	const first, second, last = 5 * time.Second, 15 * time.Second, time.Minute
	for _, after := range []time.Duration{first, second, last} {
		time.AfterFunc(after, trim)
	}
}

// trim unmaps the pages of this program's file, which saves memory. The next access to a page maps
// it again from the page cache. Mappings that are writable or have private pages stay, so nothing
// can be lost.
func trim() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer smaps.Close()
	var from, to uintptr
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		const addresses, permissions, file = 0, 1, 5
		switch {
		case len(fields) > file && fields[file] == exe && !strings.Contains(fields[permissions], "w"):
			from, to = parseRange(fields[addresses])
		case len(fields) > permissions && len(fields[permissions]) == len("rwxp") && strings.Contains(fields[addresses], "-"):
			from, to = 0, 0 // another mapping begins
		case len(fields) > 1 && fields[0] == "Anonymous:" && fields[1] == "0" && from < to:
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) // it is advice only
		}
	}
}

func parseRange(s string) (from, to uintptr) {
	const hex, bits = 16, 64
	first, last, _ := strings.Cut(s, "-")
	begin, err := strconv.ParseUint(first, hex, bits)
	if err != nil {
		return 0, 0
	}
	end, err := strconv.ParseUint(last, hex, bits)
	if err != nil {
		return 0, 0
	}
	return uintptr(begin), uintptr(end)
}
