// Package journal records when a peer leads, in a form that many processes can share and a test can check
// for overlaps.
//
// It assumes one machine: the moments are of its boot-time clock, which all processes share and nobody can set.
// It guarantees that a recorded term lies within the real one as far as the peer itself knows: its beginning is
// read after the election was won, its end before the leadership is given up. It does not guarantee that a term
// whose holder was killed has an end.
//
// On request a peer also records when its lease was last renewed, so that the end of a killed one's lease is known.
package journal

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Journal appends one line for each beginning and end: "start IDENTITY NS" and "stop IDENTITY NS"; and for each
// renewal that is to be known, "kept IDENTITY NS TTL-S".
type Journal struct {
	identity string
	file     *os.File
}

// Open appends to the file at path, or writes to standard output if path is empty.
func Open(path, identity string) (*Journal, error) {
	if path == "" {
		return &Journal{identity, os.Stdout}, nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &Journal{identity, file}, nil
}

// Term is one leadership. Start and Stop may come from different goroutines, in any order and more than once: each
// is recorded once, and nothing is recorded of a term that was stopped before it started.
type Term struct {
	journal          *Journal
	mutex            sync.Mutex
	started, stopped bool
}

// Term is a leadership that has not begun.
func (j *Journal) Term() *Term {
	return &Term{journal: j}
}

// Start records that the leadership began, and tells whether it did.
func (t *Term) Start() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.started || t.stopped {
		return false
	}
	t.started = true
	t.journal.write("start", "")
	return true
}

// Stop records that the leadership ended. Call it before giving up what others wait for.
func (t *Term) Stop() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.started && !t.stopped {
		t.journal.write("stop", "")
	}
	t.stopped = true
}

// Kept records that the server just answered a renewal: the lease lasts for so many seconds more, at most.
func (j *Journal) Kept(ttl int64) {
	j.write("kept", fmt.Sprintf(" %d", ttl))
}

// One write for each line, so that lines of several processes do not mix.
func (j *Journal) write(what, more string) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	if _, err := fmt.Fprintf(j.file, "%s %s %d%s\n", what, j.identity, now.Nano(), more); err != nil {
		fmt.Fprintln(os.Stderr, "error: cannot write the journal:", err)
		os.Exit(1)
	}
}
