package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/directory"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/test/testenv"
)

// subject is a plugin that conform tests.
type subject struct {
	// plugin makes a Plugin for the WDS of that UID, over the same space every time.
	plugin func(wds types.UID) plugin.Plugin
	// mailbox is an empty mailbox of an accepted destination.
	mailbox string
	// vandalize changes something of the first object in a work, as somebody else would.
	vandalize func(work string)
	// forget removes the work, whatever holds it.
	forget func(work string)
}

// mirror is a Handler that stores what it receives.
type mirror struct {
	t            *testing.T
	mu           sync.Mutex
	works        map[string]*plan.Work
	destinations map[string]bool
	synced       bool
	reports      plugin.Reports
}

func (m *mirror) OnReport(mailbox string, ref objref.Ref, _ *plugin.Report) {
	m.t.Errorf("%s: a report on %s that no agent made", mailbox, ref)
}

func (m *mirror) OnPartial(mailbox string, _ bool) {
	m.t.Errorf("%s: has more reports than are read, but no agent made any", mailbox)
}

func (m *mirror) OnReports(state plugin.Reports) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reports = state
}

func (m *mirror) OnWork(before, after *plan.Work) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before != nil {
		known := *m.works[before.Name]
		known.ResourceVersion = before.ResourceVersion
		if diff := cmp.Diff(known, *before); diff != "" {
			m.t.Errorf("%s is not what was reported before (-reported +now):\n%s", before.Name, diff)
		}
		delete(m.works, before.Name)
	}
	if after != nil {
		m.works[after.Name] = after
	}
}

func (m *mirror) OnDestination(name string, d *plugin.Destination) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.destinations[name] = d != nil && d.Accepted
}

func (m *mirror) OnSynced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.synced {
		m.t.Error("OnSynced was called twice")
	}
	m.synced = true
}

func (m *mirror) of(binding types.UID, mailbox string) []*plan.Work {
	m.mu.Lock()
	defer m.mu.Unlock()
	var works []*plan.Work
	for _, work := range m.works {
		if work.BindingUID == binding && work.Mailbox == mailbox {
			works = append(works, work)
		}
	}
	return works
}

// conform tests what every plugin must do.
func conform(t *testing.T, s subject) {
	ctx := t.Context()
	origin := plugin.Origin{Binding: "a.binding-" + strings.Repeat("x", 100), BindingUID: types.UID("binding-of-" + s.mailbox)}
	p, m, stop := observe(t, s, "wds")

	holds := func(wants ...plan.Object) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			var got []string
			for _, work := range m.of(origin.BindingUID, s.mailbox) {
				if work.Deleting {
					continue
				}
				if work.Recorded != work.Actual || work.Binding != origin.Binding {
					return false, fmt.Sprintf("%+v is not as it was written", work)
				}
				for _, item := range work.Items {
					got = append(got, fmt.Sprint(item.Ref, item.Kind, item.Hash, item.Size, item.Options))
				}
			}
			var want []string
			for _, o := range wants {
				want = append(want, fmt.Sprint(o.Ref, o.Kind.Kind, o.Hash, o.Size(), o.Options))
			}
			slices.Sort(got)
			slices.Sort(want)
			return slices.Equal(want, got), cmp.Diff(want, got)
		})
	}
	site := func() *plan.Current {
		return &plan.Current{Mailbox: s.mailbox, Prefix: string(origin.BindingUID), Works: m.of(origin.BindingUID, s.mailbox)}
	}
	build := func(objects ...plan.Object) []plan.Action {
		d := plan.NewDesired(slices.Clone(objects), packing.Limits{Count: 3, Bytes: 10000})
		return plan.Build(d, site()).Actions
	}
	deliver := func(objects ...plan.Object) {
		t.Helper()
		actions := build(objects...)
		if len(actions) == 0 {
			t.Error("nothing is to be done")
		}
		for i := range actions {
			receipt, err := p.Do(ctx, origin, &actions[i])
			if err != nil {
				t.Fatalf("%s: %v", &actions[i], err)
			}
			if actions[i].Verb != plan.Delete && (receipt.UID == "" || receipt.Generation == 0 || receipt.Recorded == transform.Hash{}) {
				t.Errorf("%s: receipt %+v", &actions[i], receipt)
			}
		}
		holds(objects...)
		for _, a := range build(objects...) {
			t.Errorf("planned again: %s", &a)
		}
	}
	reported := func() {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			for work, item := range plan.Items(m.of(origin.BindingUID, s.mailbox)) {
				if item.State == plan.Pending {
					return false, fmt.Sprintf("%s of %s is not reported", item.Ref, work.Name)
				}
			}
			return true, ""
		})
	}
	flagged := func(o plan.Object) plan.Object { o.CreateOnly, o.Orphan = true, true; return o }
	observed := func(o plan.Object) plan.Object { o.Observe = true; return o }
	a, b, c, d := cm(t, "a", "1"), cm(t, "b", "1"), cm(t, "c", "1"), cm(t, "d", "1")

	testenv.Eventually(t, patience, func() (bool, string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.destinations[s.mailbox], "the destination is not known"
	})
	deliver(a, b, c)
	deliver(a, cm(t, "b", "2"), c)
	reported() // only then is an object orphaned that came without the option
	deliver(a, flagged(b), c)
	deliver(flagged(a), b, observed(c), d)
	// An object that is orphaned leaves when the cluster has reported that.
	reported()
	deliver(b, d)
	deliver(a, b, c, d)

	// What was planned on an old view is refused.
	works := m.of(origin.BindingUID, s.mailbox)
	old := *works[slices.IndexFunc(works, func(w *plan.Work) bool { return len(w.Items) > 1 })]
	deliver(cm(t, "a", "3"), cm(t, "b", "3"), cm(t, "c", "3"), cm(t, "d", "3"))
	for _, change := range []func(*plan.Action){
		func(*plan.Action) {}, func(a *plan.Action) { a.UID = "another" },
	} {
		action := plan.Action{
			Verb: plan.Patch, Mailbox: s.mailbox, Name: old.Name, UID: old.UID, Generation: old.Generation, Recorded: old.Recorded,
			Changes: []plan.Change{{Op: plan.OpRemove, At: 0, Ref: old.Items[0].Ref}},
		}
		change(&action)
		if _, err := p.Do(ctx, origin, &action); !errors.Is(err, plugin.ErrStale) {
			t.Errorf("a patch on an old view: error %v, want ErrStale", err)
		}
	}

	// Somebody else edits.
	s.vandalize(old.Name)
	testenv.Eventually(t, patience, func() (bool, string) {
		i := slices.IndexFunc(m.of(origin.BindingUID, s.mailbox), func(w *plan.Work) bool { return w.Recorded != w.Actual })
		return i >= 0, "the edit does not show"
	})
	deliver(cm(t, "a", "3"), cm(t, "b", "3"), cm(t, "c", "3"), cm(t, "d", "3"))

	// A nudge changes no content.
	before := m.of(origin.BindingUID, s.mailbox)[0]
	nudge := plan.NudgeOf(before, plan.ReasonRetry)
	if _, err := p.Do(ctx, origin, &nudge); err != nil {
		t.Fatal(err)
	}
	if before.ResourceVersion != "" { // which some transports do not have
		action := plan.Action{
			Verb: plan.Patch, Mailbox: s.mailbox, Name: before.Name, UID: before.UID, Generation: before.Generation, Recorded: before.Recorded,
			ResourceVersion: before.ResourceVersion, Changes: []plan.Change{{Op: plan.OpRemove, At: 0, Ref: before.Items[0].Ref}},
		}
		if _, err := p.Do(ctx, origin, &action); !errors.Is(err, plugin.ErrStale) {
			t.Errorf("a patch on an old version: error %v, want ErrStale", err)
		}
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		return slices.ContainsFunc(m.of(origin.BindingUID, s.mailbox), func(w *plan.Work) bool { return w.Nudges == 1 }), "the nudge does not show"
	})
	holds(cm(t, "a", "3"), cm(t, "b", "3"), cm(t, "c", "3"), cm(t, "d", "3"))

	// Another WDS sees nothing of it, or sees it as what it is, with all that an owner is made of;
	// after a restart all is known.
	_, other, stopOther := observe(t, s, "another-wds")
	ours := m.of(origin.BindingUID, s.mailbox)
	for _, theirs := range other.of(origin.BindingUID, s.mailbox) {
		work := ours[slices.IndexFunc(ours, func(w *plan.Work) bool { return w.Name == theirs.Name })]
		if !strings.HasPrefix(string(theirs.Foreign.UID), "wds") || theirs.Foreign.Name == "" || work.Foreign != (plan.WDS{}) || theirs.Created == 0 {
			t.Errorf("another WDS sees %+v", theirs)
		}
		for i := range theirs.Items {
			want, got := plan.OwnerOf(work, &work.Items[i]), plan.OwnerOf(theirs, &theirs.Items[i])
			if diff := cmp.Diff(decisive(&want), decisive(&got)); diff != "" || got.WDS != theirs.Foreign || theirs.Items[i].Message != "" {
				t.Errorf("another WDS sees another owner (-ours +theirs):\n%s", diff)
			}
		}
	}
	stopOther()
	stop()
	p, m, stop = observe(t, s, "wds")
	holds(cm(t, "a", "3"), cm(t, "b", "3"), cm(t, "c", "3"), cm(t, "d", "3"))

	// A work that exists is not created; one that is gone is stale to patch, and deleted.
	works = m.of(origin.BindingUID, s.mailbox)
	exists := plan.Action{Verb: plan.Create, Mailbox: s.mailbox, Name: works[0].Name, Wave: 1, After: entries(a)}
	if _, err := p.Do(ctx, origin, &exists); err == nil {
		t.Error("a work was created twice")
	}
	gone := *works[0]
	s.forget(gone.Name)
	testenv.Eventually(t, patience, func() (bool, string) {
		return len(m.of(origin.BindingUID, s.mailbox)) == len(works)-1, "the work is still reported"
	})
	patch := plan.Action{Verb: plan.Patch, Mailbox: s.mailbox, Name: gone.Name, UID: gone.UID, Generation: gone.Generation, Recorded: gone.Recorded}
	if _, err := p.Do(ctx, origin, &patch); !errors.Is(err, plugin.ErrStale) {
		t.Errorf("a patch of nothing: error %v, want ErrStale", err)
	}
	removed := func(works ...*plan.Work) []plan.Action { // where no agent reports
		return plan.Build(&plan.Desired{}, &plan.Current{Mailbox: s.mailbox, Works: works, Unattended: true}).Actions
	}
	for _, action := range removed(append(m.of(origin.BindingUID, s.mailbox), &gone)...) {
		if _, err := p.Do(ctx, origin, &action); err != nil {
			t.Errorf("%s: %v", &action, err)
		}
	}
	holds()

	// A mailbox that does not exist.
	nowhere := plan.Action{Verb: plan.Create, Mailbox: s.mailbox + "-missing", Name: "w", Wave: 1, After: entries(a)}
	if _, err := p.Do(ctx, origin, &nowhere); err == nil || errors.Is(err, plugin.ErrStale) {
		t.Errorf("a mailbox that does not exist: error %v, want one that is not ErrStale", err)
	}
	stop()
}

// observe runs a plugin until stop, with a Handler that stores what it receives.
func observe(t *testing.T, s subject, wds types.UID) (plugin.Plugin, *mirror, func()) {
	t.Helper()
	p := s.plugin(wds)
	m := &mirror{t: t, works: map[string]*plan.Work{}, destinations: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, m) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	t.Cleanup(stop)
	testenv.Eventually(t, patience, func() (bool, string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.synced && m.reports != plugin.ReportsUnread, "the plugin has not told everything"
	})
	return p, m, stop
}

func cm(t *testing.T, name, content string) plan.Object {
	t.Helper()
	ref := objref.Ref{Resource: "configmaps", Namespace: "web", Name: name}
	o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"content": content, "odd": "<&> \u2028"}}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	o.SetNamespace(ref.Namespace)
	o.SetName(ref.Name)
	object, err := transform.Standard().Apply(ref, o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Object{Object: object, Known: true}
}

func entries(o plan.Object) []plan.Entry {
	return []plan.Entry{{Ref: o.Ref, Kind: o.Kind.Kind, Hash: o.Hash, Size: o.Size(), Object: &o}}
}

func TestConformanceOCM(t *testing.T) {
	e := newEnvironment(t)
	mailbox := e.clusters(1)[0]
	works := e.its.Resource(ocm.ManifestWorks).Namespace(mailbox)
	conform(t, subject{
		mailbox: mailbox,
		plugin: func(wds types.UID) plugin.Plugin {
			p, err := ocm.New(ocm.Config{
				Space: "its1", Hub: e.fleet.Config(t, "its1"), WDSName: "wds1", WDSUID: wds + types.UID(e.name), ReportLimits: e.reportLimits,
			})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		vandalize: func(work string) {
			patch := `[{"op":"replace","path":"/spec/workload/manifests/0/data/content","value":"other"}]`
			if _, err := works.Patch(t.Context(), work, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		forget: func(work string) { e.remove(e.its.Resource(ocm.ManifestWorks), mailbox, work) },
	})
}

func TestConformanceDir(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(root, directory.Marker), "")
	if err := os.Mkdir(filepath.Join(root, "edge1"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := func(work string) string { return filepath.Join(root, "edge1", "1-"+work+".yaml") }
	conform(t, subject{
		mailbox: "edge1",
		plugin: func(wds types.UID) plugin.Plugin {
			p, err := directory.New(directory.Config{Directory: root, WDSName: "wds1", WDSUID: wds})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		vandalize: func(work string) {
			text, err := os.ReadFile(path(work))
			if err != nil {
				t.Fatal(err)
			}
			put(path(work), strings.Replace(string(text), "content: ", "content: other ", 1))
		},
		forget: func(work string) {
			if err := os.Remove(path(work)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// decisive returns what of an owner all WDSes must see alike.
func decisive(o *plan.Owner) []any {
	return []any{o.Binding, o.Work.Name, o.Work.UID, o.Work.Created, o.Item.Ref, o.Content(), o.Item.Bare, o.Delivers()}
}
