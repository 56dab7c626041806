package repositories

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// revision makes one that is published; a tag or branch makes it one that is outside, too.
func revision(pkg, workspace string, number int, ref, id string) *storev1alpha1.PackageRevision {
	cr := &storev1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "r." + pkg + "." + workspace, UID: types.UID("uid-" + pkg + workspace)},
		Spec: porchv1alpha1.PackageRevisionSpec{
			RepositoryName: "r", PackageName: pkg, WorkspaceName: workspace, Revision: number, Lifecycle: porchv1alpha1.LifecyclePublished,
		},
		External: storev1alpha1.External{Ref: ref, ID: id, Branch: ref == "main"},
	}
	cr.Content.Imported = ref == "main"
	return cr
}

func deleting(cr *storev1alpha1.PackageRevision) *storev1alpha1.PackageRevision {
	cr.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	cr.Finalizers = []string{Finalizer}
	return cr
}

func draft(cr *storev1alpha1.PackageRevision) *storev1alpha1.PackageRevision {
	cr.Spec.Lifecycle, cr.Spec.Revision = porchv1alpha1.LifecycleDraft, 0
	return cr
}

func tag(name, id string) remote.Ref {
	at := strings.LastIndex(name, "/")
	ref := remote.Ref{Name: name, ID: id, Package: name[:at], Workspace: remote.Workspace(name[at+1:]), Number: remote.NotNumbered}
	if n, ok := remote.Number(name[at+1:]); ok {
		ref.Number = n
	}
	return ref
}

func TestToLoad(t *testing.T) {
	listing := &remote.Listing{Tags: []remote.Ref{
		tag("a/v1", "1"), tag("b/v1", "1"), tag("c/v1", "2"), tag("d/rc1", "1"), tag("e/v1", "1"), tag("Not.A/v1", "1"), tag("g/v1", "1"), tag("h/v1", "1"),
	}}
	here := newRevisions([]*storev1alpha1.PackageRevision{
		revision("b", "v1", 1, "b/v1", "1"), revision("c", "v1", 1, "c/v1", "1"), revision("d", "rc1", -1, "d/rc1", "1"),
		revision("e", "mine", 1, "", ""), revision("h", "v1", 1, "h/v1", "0"),
	})
	findings := validFindings(&configv1alpha1.Repository{}, map[string]finding{
		"g/v1": {id: "1", problem: "x"}, "h/v1": {id: "1", uid: "uid-hv1", moved: "x"}, "a/v1": {id: "0"}, "c/v1": {id: "2", uid: "another"}, "gone/v1": {id: "1"},
	}, listing, here)
	var got []string
	for _, ref := range toLoad("r", listing, here, findings) {
		got = append(got, ref.Name)
	}
	// a is new and was looked at when it was elsewhere; c moved, and was compared with another
	// revision; e was published here, under its number.
	if diff := cmp.Diff([]string{"a/v1", "c/v1", "e/v1"}, got); diff != "" {
		t.Errorf("to load (-want +got):\n%s", diff)
	}
	if len(findings) != 2 {
		t.Errorf("standing: %v", findings)
	}
}

func TestExportsAndRemovals(t *testing.T) {
	all := []*storev1alpha1.PackageRevision{
		revision("b", "w2", 2, "", ""), revision("b", "w1", 1, "", ""), revision("a", "v1", 1, "a/v1", "1"), revision("a", "main", -1, "main", "1"),
		draft(revision("a", "draft", 0, "", "")), deleting(revision("c", "v1", 1, "c/v1", "1")), deleting(revision("d", "w", 1, "", "")),
	}
	here := newRevisions(all)
	spec := &configv1alpha1.RepositorySpec{Type: configv1alpha1.RepositoryTypeGit}
	if diff := cmp.Diff([]string{"r.b.w1", "r.b.w2"}, names(toExport(spec, here))); diff != "" {
		t.Errorf("to export (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"r.c.v1", "r.d.w"}, names(terminating(here))); diff != "" {
		t.Errorf("leaving (-want +got):\n%s", diff)
	}
	var waits []string
	for _, cr := range here.all {
		if wantsFinalizer(spec, cr) {
			waits = append(waits, cr.Name)
		}
	}
	if diff := cmp.Diff([]string{"r.a.v1", "r.b.w1", "r.b.w2"}, waits); diff != "" {
		t.Errorf("to wait (-want +got):\n%s", diff)
	}
	for _, spec := range []*configv1alpha1.RepositorySpec{
		{Type: configv1alpha1.RepositoryTypeHub}, {Type: configv1alpha1.RepositoryTypeGit, Export: configv1alpha1.ExportDisabled},
	} {
		if got := toExport(spec, here); len(got) > 0 {
			t.Errorf("%s exports %v", spec.Type, names(got))
		}
	}
	if diff := cmp.Diff([]string{"r.a.main"}, names(stale(here, map[string]bool{"b": true}))); diff != "" {
		t.Errorf("stale (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a/v1"}, refsOf(missing(&remote.Listing{Tags: []remote.Ref{tag("c/v1", "1")}}, here))); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

// Each package ends with one labelled revision, the latest, whatever was labelled before and in
// whatever order they are seen; and then nothing is left to be done.
func TestRelabelled(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var all []*storev1alpha1.PackageRevision
		for pkg := range 3 {
			for n := range 1 + rnd.IntN(4) {
				cr := revision(fmt.Sprint("p", pkg), fmt.Sprint("v", n+1), n+1, "x", "1")
				if pkg == 0 { // imported from tags
					cr = revision("p0", fmt.Sprint("v0-", n), -1, fmt.Sprintf("p0/v0.%d.0", n), "1")
				}
				if rnd.IntN(2) == 0 {
					cr.Labels = map[string]string{porchv1alpha1.LatestRevisionLabel: "true"}
				}
				all = append(all, cr)
			}
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		byName := map[string]*storev1alpha1.PackageRevision{}
		for _, cr := range all {
			byName[cr.Name] = cr
		}
		changed := relabelled(newRevisions(all))
		for _, cr := range changed {
			byName[cr.Name] = cr
			latest := 0
			for _, other := range byName {
				if other.Spec.PackageName == cr.Spec.PackageName && other.Labels[porchv1alpha1.LatestRevisionLabel] == "true" {
					latest++
				}
			}
			if latest == 0 {
				t.Fatalf("after the change of %s its package has no latest revision", cr.Name)
			}
		}
		var after []*storev1alpha1.PackageRevision
		labelled := map[string]int{}
		for _, cr := range byName {
			after = append(after, cr)
			if cr.Labels[porchv1alpha1.LatestRevisionLabel] == "true" {
				labelled[cr.Spec.PackageName]++
			}
		}
		if diff := cmp.Diff(map[string]int{"p0": 1, "p1": 1, "p2": 1}, labelled); diff != "" {
			t.Fatalf("labelled (-want +got):\n%s", diff)
		}
		if left := relabelled(newRevisions(after)); len(left) > 0 {
			t.Fatalf("left to be done: %v", names(left))
		}
	}
}

// TestLatestOfListing: the latest revision is known before it is imported.
func TestLatestOfListing(t *testing.T) {
	listing := &remote.Listing{Tags: []remote.Ref{
		tag("a/v1.2.3", "1"), tag("a/v1.3.0", "1"), tag("a/v1.10.0-rc.1", "1"), tag("b/v1.3.0", "1"), tag("b/v1", "1"), tag("c/v1.0.0", "1"), tag("d/next", "1"),
	}}
	here := newRevisions([]*storev1alpha1.PackageRevision{
		revision("a", "main", -1, "main", "1"), revision("b", "w", 2, "", ""), revision("c", "v1-1-0", -1, "c/v1.1.0", "1"), deleting(revision("c", "w", 1, "", "")),
	})
	want := map[string]version.Version{"a": {Tag: "v1.3.0"}, "b": {Number: 2}, "c": {Tag: "v1.1.0"}}
	if diff := cmp.Diff(want, latest(listing, here)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSchedule(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 3, 20, 0, time.UTC)
	for name, tc := range map[string]struct {
		schedule string
		failures int
		want     string
		wantErr  string
	}{
		"Default":        {"", 0, "5m0s", ""},
		"Cron":           {"*/10 * * * *", 0, "6m40s", ""},
		"Every":          {"@every 30s", 0, "30s", ""},
		"TooOften":       {"@every 1s", 0, "10s", ""},
		"FailedOnce":     {"@every 1h", 1, "10s", ""},
		"FailedTwice":    {"@every 1h", 2, "20s", ""},
		"FailedOften":    {"@every 1h", 50, "5m0s", ""},
		"FailedNearNext": {"@every 30s", 9, "30s", ""},
		"Never":          {"0 0 30 2 *", 0, "24h0m0s", ""},
		"Wrong":          {"often", 0, "", `spec.sync.schedule "often"`},
		"Zone":           {"TZ=UTC", 0, "", "TZ= is not supported"},
		"Seconds":        {"* * * * * *", 0, "", "spec.sync.schedule"},
	} {
		t.Run(name, func(t *testing.T) {
			schedule, err := parseSchedule(&configv1alpha1.RepositorySync{Schedule: tc.schedule})
			if (tc.wantErr == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if err != nil {
				return
			}
			if got := nextSync(schedule, now, tc.failures, DefaultMinInterval).Sub(now).String(); got != tc.want {
				t.Errorf("next in %s, want %s", got, tc.want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	git := configv1alpha1.RepositorySpec{Type: configv1alpha1.RepositoryTypeGit, Git: &configv1alpha1.GitRepository{Branch: "main"}}
	many := map[string]finding{}
	for i := range 100 {
		many[fmt.Sprintf("p%03d/v1", i)] = finding{id: "1", problem: strings.Repeat("x", 5000)}
		many[fmt.Sprintf("q%03d/v1", i)] = finding{id: "1", moved: fmt.Sprintf("q%03d/v1", i)}
	}
	for name, tc := range map[string]struct {
		result result
		want   []string
	}{
		"Fine":     {result{}, []string{"Ready=True Ready", "Consistent=True Consistent", "Exported=True Exported"}},
		"Failed":   {result{failed: remote.Errorf(remote.Unauthorized, "no")}, []string{"Ready=False Unauthorized", "Exported=True Exported"}},
		"Moved":    {result{findings: map[string]finding{"a": {moved: "a"}}}, []string{"Ready=True Ready", "Consistent=False TagsMoved", "Exported=True Exported"}},
		"Several":  {result{rewritten: "x", missing: []string{"a"}}, []string{"Ready=True Ready", "Consistent=False Several", "Exported=True Exported"}},
		"Conflict": {result{conflicts: []string{"a"}, findings: map[string]finding{"a": {moved: "a", conflict: true}}}, []string{"Ready=True Ready", "Consistent=True Consistent", "Exported=False Conflict"}},
		"Waiting":  {result{waiting: 3}, []string{"Ready=True Ready", "Consistent=True Consistent", "Exported=False Exporting"}},
		"Push":     {result{exportFailed: errors.New("hook declined")}, []string{"Ready=True Ready", "Consistent=True Consistent", "Exported=False Failed"}},
		"Many":     {result{findings: many}, []string{"Ready=True Ready", "Consistent=False TagsMoved", "Exported=True Exported"}},
	} {
		t.Run(name, func(t *testing.T) {
			repo := &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "r", Generation: 2}, Spec: git}
			here := newRevisions([]*storev1alpha1.PackageRevision{revision("a", "v1", 1, "a/v1", "1"), revision("a", "main", -1, "main", "1")})
			status := desiredStatus(repo, here, &tc.result, now, now.Add(time.Minute))
			var got []string
			for _, c := range status.Conditions {
				got = append(got, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
				if len(c.Message) > 4096 || c.ObservedGeneration != 2 {
					t.Errorf("condition %+v", c)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if status.PackageCount != 2 || status.Packages != 1 || len(status.Errors) > maxErrors {
				t.Errorf("status %+v", status)
			}
			for _, e := range status.Errors {
				if len(e.Message) > 1024 {
					t.Errorf("an error of %d bytes", len(e.Message))
				}
			}
			// The same again is the same, until the heartbeat; a failure is not a look.
			repo.Status = status
			if diff := cmp.Diff(status, desiredStatus(repo, here, &tc.result, now.Add(10*time.Minute), now.Add(11*time.Minute))); diff != "" {
				t.Errorf("again (-first +second):\n%s", diff)
			}
			later := desiredStatus(repo, here, &tc.result, now.Add(heartbeat), now.Add(heartbeat+time.Minute))
			if beats := !later.LastFullSyncTime.Equal(status.LastFullSyncTime); beats != (tc.result.failed == nil) {
				t.Errorf("after an hour lastFullSyncTime is %v, was %v", later.LastFullSyncTime, status.LastFullSyncTime)
			}
		})
	}
	hub := &configv1alpha1.Repository{Spec: configv1alpha1.RepositorySpec{Type: configv1alpha1.RepositoryTypeHub}}
	if s := desiredStatus(hub, newRevisions(nil), &result{}, now, now); !meta.IsStatusConditionTrue(s.Conditions, configv1alpha1.RepositoryConditionReady) || len(s.Conditions) != 1 || s.LastFullSyncTime != nil {
		t.Errorf("a hub repository has %+v", s)
	}
}

func TestOrderDoesNotMatter(t *testing.T) {
	all := []*storev1alpha1.PackageRevision{revision("b", "w", 2, "", ""), revision("a", "w", 1, "", ""), revision("b", "v", 1, "", "")}
	spec := &configv1alpha1.RepositorySpec{Type: configv1alpha1.RepositoryTypeGit}
	want := names(toExport(spec, newRevisions(all)))
	slices.Reverse(all)
	if diff := cmp.Diff(want, names(toExport(spec, newRevisions(all)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
