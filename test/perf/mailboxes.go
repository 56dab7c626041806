package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// side distinguishes works of the measured implementation and bare works, by the marks in their
// content.
type side int

const (
	placed side = iota
	bare
)

// Each measured object has a mark: its number and the number of its edit. Both have a fixed width,
// so that an edit does not change the size.
var markBegins = map[side]string{placed: "perf-real-", bare: "perf-bare-"}

const markDigits = 6

type mark struct{ object, edit int }

func (m mark) of(s side) string {
	return fmt.Sprintf("%s%0*d-%0*d", markBegins[s], markDigits, m.object, markDigits, m.edit)
}

// marksIn returns the marks in the text of a work, and the side of the work. It returns none if the
// work is of neither side.
func marksIn(text []byte) (marks []mark, of side) {
	for of, begin := range markBegins {
		for rest := text; ; {
			at := bytes.Index(rest, []byte(begin))
			if at < 0 {
				break
			}
			rest = rest[at+len(begin):]
			if len(rest) < 2*markDigits+1 {
				break
			}
			object, err1 := strconv.Atoi(string(rest[:markDigits]))
			edit, err2 := strconv.Atoi(string(rest[markDigits+1 : 2*markDigits+1]))
			if err1 == nil && err2 == nil {
				marks = append(marks, mark{object, edit})
			}
		}
		if len(marks) > 0 {
			return marks, of
		}
	}
	return nil, placed
}

// mailbox has the marks in the works of one side in a mailbox, by name of the work.
type mailbox map[string][]mark

// edited reports whether the mailbox has an object at this edit or a later one.
func (m mailbox) edited(want mark) bool {
	for _, marks := range m {
		for _, has := range marks {
			if has.object == want.object && has.edit >= want.edit {
				return true
			}
		}
	}
	return false
}

func (m mailbox) empty() bool { return len(m) == 0 }

// objects returns the number of objects in the mailbox.
func (m mailbox) objects() (n int) {
	for _, marks := range m {
		n += len(marks)
	}
	return n
}

// watcher watches all mailboxes. It reads only the name and the marks of each event and decodes
// nothing else, because its CPU time slows down what is measured.
type watcher struct {
	mu        sync.Mutex
	mailboxes map[side]map[string]mailbox
	arrivals  *arrivals
	err       error
}

// arrivals has the times at which mailboxes had the expected content.
type arrivals struct {
	side      side
	there     func(mailbox) bool
	remaining map[string]struct{}
	first     time.Time
	last      time.Time
	complete  chan struct{}
}

func watchMailboxes(ctx context.Context, its *space) *watcher {
	w := &watcher{mailboxes: map[side]map[string]mailbox{placed: {}, bare: {}}}
	go func() {
		err := w.follow(ctx, its)
		w.mu.Lock()
		defer w.mu.Unlock()
		if ctx.Err() == nil {
			w.err = fmt.Errorf("watch mailboxes: %w", err)
		}
	}()
	return w
}

func (w *watcher) follow(ctx context.Context, its *space) error {
	version := ""
	for {
		stream, err := its.raw.Get().AbsPath("/apis/work.open-cluster-management.io/v1/manifestworks").
			Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", version).Stream(ctx)
		if err != nil {
			return err
		}
		lines := bufio.NewReaderSize(stream, 1<<20)
		for {
			line, err := lines.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				rest, restErr := lines.ReadBytes('\n')
				line, err = append(bytes.Clone(line), rest...), restErr
			}
			if err != nil {
				break // watches end sometimes; the next one continues at the version
			}
			if version, err = w.note(line); err != nil {
				stream.Close()
				return err
			}
		}
		stream.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// event has the fields of a watch event that are read.
type event struct {
	Type   string `json:"type"`
	Object struct {
		Metadata workMetadata `json:"metadata"`
		Message  string       `json:"message"`
	} `json:"object"`
}

type workMetadata struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
	ResourceVersion string `json:"resourceVersion"`
}

// note processes one event and returns its version.
func (w *watcher) note(line []byte) (version string, err error) {
	now := time.Now()
	e, err := parseEvent(line)
	if err != nil {
		return "", err
	}
	switch e.Type {
	case "BOOKMARK":
		return e.Object.Metadata.ResourceVersion, nil
	case "ERROR":
		return "", errors.New(e.Object.Message)
	}
	marks, of := marksIn(line)
	if len(marks) == 0 {
		return e.Object.Metadata.ResourceVersion, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	in := w.mailboxes[of][e.Object.Metadata.Namespace]
	if in == nil {
		in = mailbox{}
		w.mailboxes[of][e.Object.Metadata.Namespace] = in
	}
	if e.Type == "DELETED" {
		delete(in, e.Object.Metadata.Name)
	} else {
		in[e.Object.Metadata.Name] = marks
	}
	if w.arrivals != nil && w.arrivals.side == of {
		w.arrivals.look(e.Object.Metadata.Namespace, in, now)
	}
	return e.Object.Metadata.ResourceVersion, nil
}

// parseEvent reads type and metadata. API servers put both before the content, so little is
// decoded.
func parseEvent(line []byte) (event, error) {
	var e event
	const begin, metadata = `{"type":"`, `"metadata":`
	head := line[:min(len(line), 300)]
	at := bytes.Index(head, []byte(metadata))
	if bytes.HasPrefix(head, []byte(begin)) && at > 0 && !bytes.Contains(head[:at], []byte(`"spec":`)) {
		kind, _, _ := bytes.Cut(head[len(begin):], []byte(`"`))
		e.Type = string(kind)
		if e.Type != "ERROR" {
			err := json.NewDecoder(bytes.NewReader(line[at+len(metadata):])).Decode(&e.Object.Metadata)
			return e, err
		}
	}
	err := json.Unmarshal(line, &e)
	return e, err
}

func (a *arrivals) look(name string, in mailbox, now time.Time) {
	if _, waiting := a.remaining[name]; !waiting || !a.there(in) {
		return
	}
	delete(a.remaining, name)
	if a.first.IsZero() {
		a.first = now
	}
	a.last = now
	if len(a.remaining) == 0 {
		close(a.complete)
	}
}

// expect sets the expected content of each of the mailboxes. There is one expectation at a time.
func (w *watcher) expect(of side, mailboxes []string, there func(mailbox) bool) *arrivals {
	a := &arrivals{side: of, there: there, remaining: make(map[string]struct{}, len(mailboxes)), complete: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range mailboxes {
		a.remaining[name] = struct{}{}
	}
	w.arrivals = a
	return a
}

// wait blocks until the expectation is met.
func (w *watcher) wait(ctx context.Context, a *arrivals, within time.Duration) error {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-a.complete:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		w.mu.Lock()
		defer w.mu.Unlock()
		return errors.Join(w.err, fmt.Errorf("after %s, %d mailboxes do not have the expected content", within, len(a.remaining)))
	}
}

// missing returns the number of marks that are missing in the mailboxes, summed up.
func (w *watcher) missing(of side, mailboxes []string, marks []mark) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range mailboxes {
		in := w.mailboxes[of][name]
		has := make(map[int]int, in.objects())
		for _, marks := range in {
			for _, m := range marks {
				has[m.object] = max(has[m.object], m.edit)
			}
		}
		for _, m := range marks {
			if has[m.object] < m.edit {
				n++
			}
		}
	}
	return n
}
