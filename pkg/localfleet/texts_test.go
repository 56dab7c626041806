package localfleet

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	clock := testclock.NewFakeClock(time.Now())
	f, err := New(Config{Dir: dir, Executable: "/bin/true", BinDir: dir, Out: &out, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	var texts []golden.Text
	add := func(heading, text string) {
		texts = append(texts, golden.Text{Heading: heading, Text: strings.ReplaceAll(text, dir, "/home/me/.starling")})
	}
	failed := func(heading string, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: no error", heading)
		}
		add(heading, "error: "+err.Error())
	}

	_, err = f.Load()
	failed("There is no fleet", err)
	f.state = &State{Nodes: true, WECs: []WEC{{Name: "cluster1"}}, NoPackages: true}
	failed("A program is missing", f.checkPrograms(f.desiredComponents()))
	failed("down --delete, in a directory without a fleet", f.Down(t.Context(), true))
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failed("up, in a directory with other files", checkEmpty(f.layout))
	state := func() *State {
		return &State{
			Layout: LayoutVersion, ITS: []string{"its1"}, WDS: []string{"wds1", "wds2"}, OCM: true, Controllers: true,
			WECs: []WEC{{Name: "cluster1"}},
		}
	}
	f.state = state()
	failed("up --wecs 101", state().apply(&UpOptions{WECs: new(101)}, 0))
	failed("up --spaces other", state().apply(&UpOptions{Spaces: []string{"other"}}, 0))
	failed("up --spaces wds1,wds1", state().apply(&UpOptions{Spaces: []string{"wds1", "wds1"}}, 0))
	failed("up, without disk space", notEnoughSpace(dir, 100<<20, 512<<20))
	failed("up, and the disk is full", f.explain(syscall.ENOSPC))
	port := listen(t)
	inUse := (&State{Ports: map[string]int{"wds1/kube-apiserver": port}}).checkPorts()
	failed("up, and the port of an API server is in use", errors.New(strings.ReplaceAll(inUse.Error(), strconv.Itoa(port), "20001")))
	failed("wec add Edge", f.state.checkNewWEC(&WEC{Name: "Edge"}))
	failed("wec add its1", f.state.checkNewWEC(&WEC{Name: "its1"}))
	failed("wec add edge --labels 'a b=c'", f.state.checkNewWEC(&WEC{Name: "edge", Labels: map[string]string{"a b": "c"}}))
	failed("A command needs a running fleet", errNeedsRunning)
	failed("The supervisor does not respond", &unresponsiveError{
		info: supervisorInfo{PID: 4711}, dir: dir, cause: errors.New("no response within 20s"),
	})
	failed("The supervisor does not respond, and its process is unknown", &unresponsiveError{
		dir: "/home/my fleet", cause: syscall.ECONNREFUSED,
	})

	log := f.layout.Log("etcd")
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte("Starting\nlisten tcp 127.0.0.1:20002: bind: address already in use\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	failed("A component ends before it is ready", f.withLog(errors.New(
		`start component "etcd": it ended 4 times before it was ready, at last with: exit status 1`), "etcd"))
	if err := f.state.save(f.layout); err != nil {
		t.Fatal(err)
	}
	_, err = f.findComponent("binding-controller")
	failed("logs binding-controller", err)
	_, err = f.findComponent("other")
	failed("logs other", err)
	other := state()
	other.Layout, other.Version = 9, "v9.9.9"
	if err := other.save(f.layout); err != nil {
		t.Fatal(err)
	}
	_, err = f.Load()
	failed("The fleet is another version's", err)
	damage := func(file string) {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage(f.layout.FleetFile())
	damage(f.layout.FleetCopy())
	_, err = f.Load()
	failed("The state of the fleet is lost", err)
	if err := state().save(f.layout); err != nil {
		t.Fatal(err)
	}
	damage(f.layout.FleetFile())
	said := func(heading string, do func() error) {
		t.Helper()
		out.Reset()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		add(heading, out.String())
	}
	said("status, with a damaged state", func() error { _, err := f.Load(); return err })
	said("up, with a damaged state", f.restore)
	authority := f.pki("its1")
	if _, err := authority.ca("ca"); err != nil {
		t.Fatal(err)
	}
	damage(authority.key("ca"))
	_, err = authority.ca("ca")
	failed("up, and the key of an authority is lost", err)
	unlock, err := f.lockCommands()
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.lockCommands()
	failed("Two commands at the same time", err)
	unlock()

	out.Reset()
	for _, step := range []string{"etcd is ready", "API server of wds1 is ready", "cluster1 has joined and is available"} {
		if err := f.out.step(step, func() error { clock.Step(1500 * time.Millisecond); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	add("Progress", out.String())
	f.state = other
	add("Acceptance of a pending cluster", f.acceptCommand("edge1"))
	said("down --delete, in a directory with other files", func() error { return f.Down(t.Context(), true) })
	golden.Texts(t, texts...)
}
