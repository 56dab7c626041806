package localfleet

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSaveAndLoadState(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	if _, _, err := loadState(l); !errors.Is(err, errNoFleet) {
		t.Errorf("an empty directory: want errNoFleet, got %v", err)
	}
	s := &State{
		Layout: LayoutVersion, ITS: []string{"its1"}, WDS: []string{"wds1"}, OCM: true,
		WECs:  []WEC{{Name: "cluster1", Labels: map[string]string{"a": "b"}, Pending: true}},
		Ports: map[string]int{"etcd": 20001},
	}
	if err := s.save(l); err != nil {
		t.Fatal(err)
	}
	got, _, err := loadState(l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoadStateOfAnotherLayout(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	if err := (&State{Layout: LayoutVersion + 1, Version: "v9"}).save(l); err != nil {
		t.Fatal(err)
	}
	if _, _, err := loadState(l); err == nil || !strings.Contains(err.Error(), "was created by Starling v9") {
		t.Errorf("got %v", err)
	}
}

func TestApplyOptions(t *testing.T) {
	yes, no := true, false
	number := func(n int) *int { return &n }
	cases := map[string]struct {
		state   State
		options UpOptions
		want    State
		wantErr string
	}{
		"adds clusters, keeps others": {
			state:   State{WECs: []WEC{{Name: "edge"}, {Name: "cluster1"}}},
			options: UpOptions{WECs: number(2)},
			want:    State{WECs: []WEC{{Name: "edge"}, {Name: "cluster1"}, {Name: "cluster2"}}},
		},
		"fewer removes none": {
			state:   State{WECs: []WEC{{Name: "cluster1"}, {Name: "cluster2"}}},
			options: UpOptions{WECs: number(1)},
			want:    State{WECs: []WEC{{Name: "cluster1"}, {Name: "cluster2"}}},
		},
		"no options": {
			state: State{ITS: []string{"its1"}, WDS: []string{"wds1"}, OCM: true, Controllers: true, Nodes: true},
			want:  State{ITS: []string{"its1"}, WDS: []string{"wds1"}, OCM: true, Controllers: true, Nodes: true},
		},
		"controllers need OCM": {
			state:   State{ITS: []string{"its1"}, WDS: []string{"wds1"}, OCM: true, Controllers: true},
			options: UpOptions{OCM: &no, Nodes: &yes},
			want:    State{ITS: []string{"its1"}, WDS: []string{"wds1"}, Nodes: true},
		},
		"spaces": {
			options: UpOptions{Spaces: []string{"wds1", "wds2", "its1"}},
			want:    State{ITS: []string{"its1"}, WDS: []string{"wds1", "wds2"}},
		},
		"an unknown space":  {options: UpOptions{Spaces: []string{"other"}}, wantErr: "start with its or wds"},
		"too many clusters": {options: UpOptions{WECs: number(1000)}, wantErr: "between 0 and 100"},
		"a negative number": {options: UpOptions{WECs: number(-1)}, wantErr: "between 0 and 100"},
		"a duplicate space": {options: UpOptions{Spaces: []string{"wds1", "wds1"}}, wantErr: "duplicate"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.state.apply(&c.options, 0)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("want an error with %q, got %v", c.wantErr, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.state); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckNewWEC(t *testing.T) {
	s := &State{ITS: []string{"its1"}, WECs: []WEC{{Name: "cluster1"}}}
	cases := map[string]struct {
		wec  WEC
		want string
	}{
		"fine":       {wec: WEC{Name: "edge", Labels: map[string]string{"site": "edge"}}},
		"taken":      {wec: WEC{Name: "cluster1"}, want: "already"},
		"a space":    {wec: WEC{Name: "its1"}, want: "already"},
		"a bad name": {wec: WEC{Name: "../up"}, want: "name"},
		"no name":    {wec: WEC{}, want: "name"},
		"bad label":  {wec: WEC{Name: "edge", Labels: map[string]string{"a b": "c"}}, want: "label"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := s.checkNewWEC(&c.wec)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

func TestPortsAreKept(t *testing.T) {
	s := &State{}
	if err := s.choosePorts([]string{"wds1/kube-apiserver"}, nil); err != nil {
		t.Fatal(err)
	}
	first := s.Ports["wds1/kube-apiserver"]
	if first < firstPort || first >= lastPort {
		t.Errorf("port %d is not between %d and %d", first, firstPort, lastPort)
	}
	if err := s.choosePorts([]string{"wds1/kube-apiserver", "wds1/kube-controller-manager"}, nil); err != nil {
		t.Fatal(err)
	}
	if again := s.Ports["wds1/kube-apiserver"]; again != first {
		t.Errorf("port: was %d, is %d", first, again)
	}
	if other := s.Ports["wds1/kube-controller-manager"]; other == first {
		t.Errorf("two components have port %d", other)
	}
}

// listen listens at a port until the test ends, and returns the port.
func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is TCP
}

func TestCheckPorts(t *testing.T) {
	inUse := listen(t)
	fixed := &State{Ports: map[string]int{"wds1/kube-apiserver": inUse}}
	if err := fixed.checkPorts(); err == nil || !strings.Contains(err.Error(), "of \"wds1/kube-apiserver\"") {
		t.Errorf("the port of an API server is in use: %v", err)
	}
	free := &State{Ports: map[string]int{"wds1/kube-controller-manager": inUse}}
	if err := free.checkPorts(); err != nil {
		t.Error(err)
	}
	if _, kept := free.Ports["wds1/kube-controller-manager"]; kept {
		t.Error("a port that is in use was kept, although it may change")
	}
}

func TestLockIsExclusive(t *testing.T) {
	path := t.TempDir() + "/lock"
	first, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockFile(path); !errors.Is(err, errLocked) {
		t.Errorf("a second lock: %v", err)
	}
	first.Close()
	second, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

func TestWriteFileReplacesAtOnce(t *testing.T) {
	path := t.TempDir() + "/deep/file"
	for _, content := range []string{"one", "two"} {
		if err := writeFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("want %q, got %q (%v)", content, got, err)
		}
	}
	left, err := os.ReadDir(t.TempDir() + "/..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), ".file") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestLockOfADeletedFile takes a lock whose file its last holder has deleted.
func TestLockOfADeletedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := os.Open(path) // another command has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	first.Close()
	second, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if sameFile(waiting, path) {
		t.Error("the lock of the deleted file would count")
	}
	if _, err := lockFile(path); !errors.Is(err, errLocked) {
		t.Errorf("a second lock: %v", err)
	}
}
