package directory

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

var (
	origin = plugin.Origin{Binding: "nginx", BindingUID: "binding-uid"}
	limits = packing.Limits{Count: 10, Bytes: 100000}
)

// recorder is a Handler that stores its arguments.
type recorder struct {
	works        map[string]*plan.Work
	destinations map[string]bool
	properties   map[string]*customize.Properties
	synced       int
}

func (r *recorder) OnWork(before, after *plan.Work) {
	if before != nil {
		delete(r.works, before.Mailbox+"/"+before.Name)
	}
	if after != nil {
		r.works[after.Mailbox+"/"+after.Name] = after
	}
}

func (r *recorder) OnDestination(name string, d *plugin.Destination) {
	r.destinations[name] = d != nil
	if d != nil {
		r.properties[name] = d.Properties
	}
}

func (r *recorder) OnReport(string, objref.Ref, *plugin.Report) {}

func (r *recorder) OnReports(plugin.Reports) {}

func (r *recorder) OnPartial(string, bool) {}

func (r *recorder) OnSynced() { r.synced++ }

func (r *recorder) of(mailbox string) (works []*plan.Work) {
	for _, work := range r.works {
		if work.Mailbox == mailbox {
			works = append(works, work)
		}
	}
	return works
}

// newPlugin returns a plugin on an empty space with one mailbox, and what it tells. Its time stands
// still: look by hand.
func newPlugin(t *testing.T) (*Plugin, *recorder) {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, Marker), "")
	if err := os.Mkdir(filepath.Join(root, "edge1"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Directory: root, WDSName: "wds1", WDSUID: "wds-uid", Clock: clocktesting.NewFakeClock(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{works: map[string]*plan.Work{}, destinations: map[string]bool{}, properties: map[string]*customize.Properties{}}
	p.handler = r
	look(t, p)
	return p, r
}

func look(t *testing.T, p *Plugin) {
	t.Helper()
	if err := p.scan(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func settings(t *testing.T, content string) plan.Object {
	t.Helper()
	ref := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	object, err := transform.Standard().Apply(ref, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "web", "name": "settings"},
		"data": map[string]any{"content": content},
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Object{Object: object, Known: true}
}

// deliver brings the mailbox to what is desired, and returns what was done.
func deliver(t *testing.T, p *Plugin, r *recorder, objects ...plan.Object) string {
	t.Helper()
	built := plan.Build(plan.NewDesired(objects, limits), &plan.Current{Mailbox: "edge1", Prefix: "uid", Works: r.of("edge1")})
	var trace []string
	for i := range built.Actions {
		trace = append(trace, built.Actions[i].String())
		if _, err := p.Do(t.Context(), origin, &built.Actions[i]); err != nil {
			t.Fatalf("%s: %v", &built.Actions[i], err)
		}
	}
	return strings.Join(trace, "; ")
}

// TestFile shows a file as somebody who carries it finds it.
func TestFile(t *testing.T) {
	p, r := newPlugin(t)
	object := settings(t, "line one\nline: two\n")
	object.CreateOnly = true
	deliver(t, p, r, object)
	text, err := os.ReadFile(filepath.Join(p.config.Directory, "edge1", "1-uid-1-0.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	work := r.of("edge1")[0]
	want := `# Written by Starling for the Binding "nginx". Edits are overwritten.
# starling.io/work: {"uid":"` + string(work.UID) + `","generation":1,"wds":"wds1","wdsUID":"wds-uid","binding":"nginx","bindingUID":"binding-uid","wave":1,"hash":"` +
		work.Recorded.String() + `","objects":[{"resource":"configmaps","kind":"ConfigMap","namespace":"web","name":"settings","createOnly":true}]}
---
apiVersion: v1
data:
  content: |
    line one
    line: two
kind: ConfigMap
metadata:
  name: settings
  namespace: web
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(p.config.Directory, "edge1", "1-uid-1-0.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v: others could read a Secret", info.Mode(), err)
	}
}

func TestEditsByHandArePutRight(t *testing.T) {
	p, r := newPlugin(t)
	deliver(t, p, r, settings(t, "1"))
	path := filepath.Join(p.config.Directory, "edge1", "1-uid-1-0.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const patched, added = "patch edge1/uid-1-0 (repair): ~[0] configmaps web/settings, rest", "patch edge1/uid-1-0 (repair): -[1] secrets web/x, rest"
	top, _, _ := strings.Cut(string(text), separator)
	for name, tc := range map[string]struct{ edited, want string }{
		"Content":    {strings.Replace(string(text), "content: \"1\"", "content: \"2\"", 1), patched},
		"Spelling":   {strings.Replace(string(text), "content: \"1\"", "content: '1' # one", 1), ""},
		"Options":    {strings.Replace(string(text), `"name":"settings"`, `"name":"settings","orphan":true`, 1), "patch edge1/uid-1-0 (repair): rest"},
		"Added":      {string(text) + "---\napiVersion: v1\nkind: Secret\nmetadata: {namespace: web, name: x}\n", added},
		"NoHash":     {strings.Replace(string(text), `"hash":"`, `"hash":"x`, 1), "patch edge1/uid-1-0 (repair): rest"},
		"NoObject":   {string(text) + "---\n[1, 2\n", "patch edge1/uid-1-0 (repair): -[1]  , rest"},
		"NoManifest": {top, "patch edge1/uid-1-0 (repair): +[0] configmaps web/settings, rest"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, path, tc.edited)
			look(t, p)
			if diff := cmp.Diff(tc.want, deliver(t, p, r, settings(t, "1"))); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
			if trace := deliver(t, p, r, settings(t, "1")); trace != "" {
				t.Errorf("and then again: %s", trace)
			}
		})
	}
}

// TestStale: what is on the disk is not what was planned on, though nobody has looked yet.
func TestStale(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path, text string){
		"Edited": func(t *testing.T, path, text string) { t.Helper(); write(t, path, text+"---\na: b\n") },
		"Gone":   func(t *testing.T, path, _ string) { t.Helper(); _ = os.Remove(path) },
		"Another": func(t *testing.T, path, text string) {
			t.Helper()
			write(t, path, strings.Replace(text, `"uid":"`, `"uid":"x`, 1))
		},
		"NotOurs": func(t *testing.T, path, _ string) { t.Helper(); write(t, path, "a: b\n") },
	} {
		t.Run(name, func(t *testing.T) {
			p, r := newPlugin(t)
			deliver(t, p, r, settings(t, "1"))
			path := filepath.Join(p.config.Directory, "edge1", "1-uid-1-0.yaml")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			built := plan.Build(plan.NewDesired([]plan.Object{settings(t, "2")}, limits), &plan.Current{Mailbox: "edge1", Prefix: "uid", Works: r.of("edge1")})
			change(t, path, string(text))
			if _, err := p.Do(t.Context(), origin, &built.Actions[0]); !errors.Is(err, plugin.ErrStale) {
				t.Errorf("Do() = %v, want ErrStale", err)
			}
		})
	}
}

// TestUnmounted: a space that is not there is no empty space.
func TestUnmounted(t *testing.T) {
	p, r := newPlugin(t)
	deliver(t, p, r, settings(t, "1"))
	mounted := p.config.Directory
	p.config.Directory = t.TempDir()
	if err := p.scan(); err == nil {
		t.Error("a directory without a marker is a space")
	}
	if len(r.works) != 1 || !r.destinations["edge1"] {
		t.Errorf("works %v, destinations %v: they are forgotten", r.works, r.destinations)
	}
	p.config.Directory = mounted
	if err := os.RemoveAll(filepath.Join(mounted, "edge1")); err != nil {
		t.Fatal(err)
	}
	look(t, p)
	if len(r.works) != 0 || r.destinations["edge1"] {
		t.Errorf("works %v, destinations %v: the mailbox was removed", r.works, r.destinations)
	}
}

func TestProperties(t *testing.T) {
	p, r := newPlugin(t)
	path := filepath.Join(p.config.Directory, "edge1", ".properties")
	reported := func(want *customize.Properties) {
		t.Helper()
		if got := r.properties["edge1"]; !got.Equal(want) {
			t.Errorf("properties %+v, want %+v", got, want)
		}
	}
	reported(customize.NewProperties("edge1"))
	write(t, path, "site: north\nsize: \"3\"\n")
	look(t, p)
	reported(customize.NewProperties("edge1", map[string]string{"site": "north", "size": "3"}))
	write(t, path, "site: [north]\n")
	if err := p.scan(); err == nil || !strings.Contains(err.Error(), ".properties of edge1") {
		t.Errorf("error %v, want one that names the file", err)
	}
	reported(nil)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(t, p)
	reported(customize.NewProperties("edge1"))
}

func TestPathsStayInside(t *testing.T) {
	p, _ := newPlugin(t)
	for _, action := range []plan.Action{
		{Verb: plan.Create, Mailbox: "..", Name: "w"},
		{Verb: plan.Create, Mailbox: "edge1", Name: "../w"},
		{Verb: plan.Delete, Mailbox: "edge1", Name: "a/b"},
		{Verb: plan.Create, Mailbox: "edge2", Name: "w"},
	} {
		if _, err := p.Do(t.Context(), origin, &action); err == nil || errors.Is(err, plugin.ErrStale) {
			t.Errorf("%s: error %v, want one that is not ErrStale", &action, err)
		}
	}
}

func TestFailedWriteLeavesWhatWas(t *testing.T) {
	p, r := newPlugin(t)
	deliver(t, p, r, settings(t, "1"))
	before := *r.of("edge1")[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	built := plan.Build(plan.NewDesired([]plan.Object{settings(t, "2")}, limits), &plan.Current{Mailbox: "edge1", Prefix: "uid", Works: r.of("edge1")})
	if _, err := p.Do(ctx, origin, &built.Actions[0]); err == nil {
		t.Error("Do() with an ended context succeeds")
	}
	look(t, p)
	if diff := cmp.Diff(&before, r.of("edge1")[0]); diff != "" {
		t.Errorf("work (-before +after):\n%s", diff)
	}
	leftovers, err := filepath.Glob(filepath.Join(p.config.Directory, "edge1", ".tmp-*"))
	if err != nil || len(leftovers) > 0 {
		t.Errorf("leftovers %v, error %v", leftovers, err)
	}
}

// FuzzFile checks that every object comes back from a file as it went in, whatever YAML makes of
// it.
func FuzzFile(f *testing.F) {
	f.Add(`{"a":"yes","b":"1e3","c":1e21,"d":"---\n...","e":"\u2028\u0000<&>","f":["",null,true,"0x1f","~"],"=":"<<"}`)
	f.Add(`{"a":" # x","b":"\ttab\n\n","c":9007199254740993,"d":-0.1,"e":{"on":"off","1":2},"f":"\ud83d\ude00\ufeff"}`)
	f.Fuzz(func(t *testing.T, raw string) {
		manifest, err := transform.CanonicalJSON([]byte(raw))
		var fields map[string]any
		if err != nil || json.Unmarshal(manifest, &fields) != nil || fields == nil {
			return
		}
		ref := objref.Ref{Group: "g", Resource: "things", Name: "n"}
		h := header{UID: "u", WDSUID: "w", BindingUID: "b", Objects: []object{newObject(ref, "Thing", plan.Options{}, manifest)}}
		text, err := encode(&h)
		if err != nil {
			return // refused, which is reported
		}
		back, ok := decode(text)
		if !ok || len(back.Objects) != 1 || string(back.Objects[0].manifest) != string(manifest) {
			t.Errorf("%s\nreads back as %+v", text, back)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{Directory: "x"}); err == nil {
		t.Error("New() takes a Config that is not complete")
	}
}
