package agent

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

func newWork(name, wds string, age time.Duration) *metav1.PartialObjectMetadata {
	w := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)), Labels: map[string]string{"other": "x"},
	}}
	if wds != "" {
		w.Labels[controlv1alpha1.LabelWDSUID] = wds
	}
	return w
}

// claiming returns the work with claims to these objects.
func claiming(work *metav1.PartialObjectMetadata, refs ...objref.Ref) *metav1.PartialObjectMetadata {
	work.Annotations = map[string]string{controlv1alpha1.AnnotationClaims: string(corestatus.NewClaims(refs))}
	return work
}

func newApplied(work string, versions map[objref.Ref]string) *workv1.AppliedManifestWork {
	a := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "hash-" + work}}
	a.Spec.ManifestWorkName = work
	for ref, version := range versions {
		a.Status.AppliedResources = append(a.Status.AppliedResources, workv1.AppliedManifestResourceMeta{
			ResourceIdentifier: workv1.ResourceIdentifier{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name},
			Version:            version,
		})
	}
	return a
}

var (
	nginx    = objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	settings = objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
)

// TestIndexAbandoned counts works that OCM's agent did not find on the hub.
func TestIndexAbandoned(t *testing.T) {
	x := newIndex(corestatus.Excluded{})
	evicted := newApplied("gone", map[objref.Ref]string{nginx: "v1"})
	evicted.Status.EvictionStartTime = &metav1.Time{Time: time.Unix(1e9, 0)}
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"Delivered", func() { x.setApplied(newApplied("gone", map[objref.Ref]string{nginx: "v1"})) }, 0},
		{"Another", func() { x.setApplied(newApplied("stays", map[objref.Ref]string{settings: "v1"})) }, 0},
		{"NotOnTheHub", func() { x.setApplied(evicted) }, 1},
		{"FoundAgain", func() { x.setApplied(newApplied("gone", map[objref.Ref]string{nginx: "v1"})) }, 0},
		{"LostAgain", func() { x.setApplied(evicted) }, 1},
		{"Deleted", func() { x.deleteApplied(evicted.Name) }, 0},
	} {
		step.do()
		if got := x.abandoned(); got != step.want {
			t.Errorf("%s: %d abandoned works, want %d", step.name, got, step.want)
		}
	}
}

func TestIndexOwnership(t *testing.T) {
	holds := map[objref.Ref]string{nginx: "v1"}
	type answer struct {
		Held      bool
		Ownership ownership
		WDS       string
	}
	for name, tc := range map[string]struct {
		works   []*metav1.PartialObjectMetadata
		applied []*workv1.AppliedManifestWork
		want    answer
	}{
		"NotHeld":  {works: []*metav1.PartialObjectMetadata{newWork("w", "u1", 0)}},
		"Ours":     {works: []*metav1.PartialObjectMetadata{newWork("w", "u1", 0)}, applied: []*workv1.AppliedManifestWork{newApplied("w", holds)}, want: answer{true, ours, "u1"}},
		"Foreign":  {works: []*metav1.PartialObjectMetadata{newWork("w", "", 0)}, applied: []*workv1.AppliedManifestWork{newApplied("w", holds)}, want: answer{true, foreign, ""}},
		"Unseen":   {applied: []*workv1.AppliedManifestWork{newApplied("w", holds)}, want: answer{true, unknown, ""}},
		"Excluded": {works: []*metav1.PartialObjectMetadata{newWork("w", "u1", 0)}, applied: []*workv1.AppliedManifestWork{newApplied("w", map[objref.Ref]string{settings: "v1"})}},
		"OursAndForeign": {
			works:   []*metav1.PartialObjectMetadata{newWork("w", "u1", 0), newWork("f", "", 0)},
			applied: []*workv1.AppliedManifestWork{newApplied("w", holds), newApplied("f", holds)}, want: answer{true, ours, "u1"},
		},
		"ForeignAndUnseen": {
			works:   []*metav1.PartialObjectMetadata{newWork("f", "", 0)},
			applied: []*workv1.AppliedManifestWork{newApplied("f", holds), newApplied("w", holds)}, want: answer{true, unknown, ""},
		},
		"OursAndUnseen": {
			works:   []*metav1.PartialObjectMetadata{newWork("w", "u1", 0)},
			applied: []*workv1.AppliedManifestWork{newApplied("w", holds), newApplied("x", holds)}, want: answer{true, ours, "u1"},
		},
		"TwoWDSesDeliver": {
			works:   []*metav1.PartialObjectMetadata{newWork("w1", "u2", time.Minute), newWork("w2", "u1", time.Hour), newWork("w3", "u1", 0)},
			applied: []*workv1.AppliedManifestWork{newApplied("w1", holds), newApplied("w2", holds), newApplied("w3", holds)},
			want:    answer{true, ours, "several: u1,u2"},
		},
		"TheEarlierOneClaims": {
			works:   []*metav1.PartialObjectMetadata{newWork("w1", "u1", time.Minute), claiming(newWork("w2", "u2", time.Hour), nginx)},
			applied: []*workv1.AppliedManifestWork{newApplied("w1", holds), newApplied("w2", holds)}, want: answer{true, ours, "u1"},
		},
		"AnotherObjectIsClaimed": {
			works:   []*metav1.PartialObjectMetadata{claiming(newWork("w", "u1", 0), settings)},
			applied: []*workv1.AppliedManifestWork{newApplied("w", holds)}, want: answer{true, ours, "u1"},
		},
		"OneWDSDeliversAndClaims": {
			works:   []*metav1.PartialObjectMetadata{newWork("w1", "u1", 0), claiming(newWork("w2", "u1", time.Hour), nginx)},
			applied: []*workv1.AppliedManifestWork{newApplied("w1", holds), newApplied("w2", holds)}, want: answer{true, ours, "u1"},
		},
		"OnlyClaimed": {
			works:   []*metav1.PartialObjectMetadata{claiming(newWork("w", "u1", 0), nginx)},
			applied: []*workv1.AppliedManifestWork{newApplied("w", holds)}, want: answer{true, foreign, ""},
		},
		"ClaimedAndUnseen": {
			works:   []*metav1.PartialObjectMetadata{claiming(newWork("w", "u1", 0), nginx)},
			applied: []*workv1.AppliedManifestWork{newApplied("w", holds), newApplied("x", holds)}, want: answer{true, unknown, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			excluded, err := corestatus.ParseExcluded(corestatus.DefaultExcludeKinds())
			if err != nil {
				t.Fatal(err)
			}
			x := newIndex(excluded)
			for _, w := range tc.works {
				x.setWork(w)
			}
			for _, a := range tc.applied {
				x.setApplied(a)
			}
			h, held := x.lookup(corestatus.ReportName(nginx))
			got := answer{Held: held, Ownership: h.ownership, WDS: h.labels[controlv1alpha1.LabelWDSUID]}
			if h.wdses != "" {
				got.WDS += ": " + h.wdses
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lookup (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIndexReturnsAffectedReports(t *testing.T) {
	x := newIndex(corestatus.Excluded{})
	nginxName, settingsName := corestatus.ReportName(nginx), corestatus.ReportName(settings)
	step := func(what string, got []string, want ...string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	step("applied", x.setApplied(newApplied("w", map[objref.Ref]string{nginx: "v1", settings: "v1"})), nginxName, settingsName)
	step("the same again", x.setApplied(newApplied("w", map[objref.Ref]string{nginx: "v1", settings: "v1"})))
	step("its work", x.setWork(newWork("w", "u", 0)), nginxName, settingsName)
	step("the same work again", x.setWork(newWork("w", "u", 0)))
	step("it claims one", x.setWork(claiming(newWork("w", "u", 0), nginx)), nginxName, settingsName)
	step("another work", x.setWork(newWork("other", "u", 0)))
	step("one object less", x.setApplied(newApplied("w", map[objref.Ref]string{nginx: "v1"})), settingsName)
	step("held twice", x.setApplied(newApplied("w2", map[objref.Ref]string{nginx: "v1"})), nginxName)
	step("label gone", x.setWork(newWork("w", "", 0)), nginxName)
	step("work gone", x.deleteWork("w"), nginxName)
	step("released once", x.deleteApplied("hash-w"), nginxName)
	if _, held := x.lookup(nginxName); !held {
		t.Error("no longer held, though another work holds it")
	}
	step("released twice", x.deleteApplied("hash-w2"), nginxName)
	if _, held := x.lookup(nginxName); held {
		t.Error("still held")
	}
	step("released thrice", x.deleteApplied("hash-w2"))
}

func TestIndexWanted(t *testing.T) {
	x := newIndex(corestatus.Excluded{})
	other := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "other"}
	secret := objref.Ref{Resource: "secrets", Namespace: "web", Name: "s"}
	x.setWork(newWork("w", "u", 0))
	x.setWork(newWork("foreign", "", 0))
	x.setApplied(newApplied("w", map[objref.Ref]string{nginx: "v1beta1", other: "v1"}))
	x.setApplied(newApplied("foreign", map[objref.Ref]string{secret: "v1"}))
	x.setApplied(newApplied("unseen", map[objref.Ref]string{settings: "v1"}))
	deployments := map[schema.GroupResource]dynamicinformer.Resource{
		nginx.GroupResource(): {GroupVersionResource: nginx.GroupResource().WithVersion("v1")},
	}
	if diff := cmp.Diff(deployments, x.wanted(nil)); diff != "" {
		t.Errorf("wanted (-want +got):\n%s", diff)
	}
	deployments[settings.GroupResource()] = dynamicinformer.Resource{GroupVersionResource: settings.GroupResource().WithVersion("v1")}
	if diff := cmp.Diff(deployments, x.wanted(map[schema.GroupResource]struct{}{settings.GroupResource(): {}})); diff != "" {
		t.Errorf("wanted with reports of an unseen work (-want +got):\n%s", diff)
	}
}

// TestIndexReturnsReportsOfANewVersion: otherwise an object whose kind is no longer served in the
// version through which it was applied would not be reported any more.
func TestIndexReturnsReportsOfANewVersion(t *testing.T) {
	x := newIndex(corestatus.Excluded{})
	x.setWork(newWork("w", "u1", 0))
	x.setApplied(newApplied("w", map[objref.Ref]string{nginx: "v1beta1", settings: "v1"}))
	got := x.setApplied(newApplied("w", map[objref.Ref]string{nginx: "v1", settings: "v1"}))
	if diff := cmp.Diff([]string{corestatus.ReportName(nginx)}, got); diff != "" {
		t.Errorf("concerned (-want +got):\n%s", diff)
	}
	if got := x.wanted(nil)[nginx.GroupResource()].Version; got != "v1" {
		t.Errorf("watched in %s", got)
	}
}

// TestIndexDependsOnlyOnCurrentInput: after any changes in any order, the index equals one that
// received only the last state.
func TestIndexDependsOnlyOnCurrentInput(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	refs := make([]objref.Ref, 6)
	for i := range refs {
		refs[i] = objref.Ref{Resource: "things", Name: strconv.Itoa(i)}
	}
	for range 50 {
		x := newIndex(corestatus.Excluded{})
		works, applied := map[string]*metav1.PartialObjectMetadata{}, map[string]*workv1.AppliedManifestWork{}
		for range 60 {
			name := strconv.Itoa(random.IntN(4))
			switch random.IntN(4) {
			case 0:
				works[name] = newWork(name, []string{"", "u1", "u2"}[random.IntN(3)], time.Duration(random.IntN(3))*time.Second)
				if random.IntN(2) == 0 {
					claiming(works[name], refs[:random.IntN(len(refs))]...)
				}
				x.setWork(works[name])
			case 1:
				delete(works, name)
				x.deleteWork(name)
			case 2:
				versions := map[objref.Ref]string{}
				for _, ref := range refs {
					if random.IntN(2) == 0 {
						versions[ref] = "v1"
					}
				}
				applied[name] = newApplied(name, versions)
				x.setApplied(applied[name])
			default:
				delete(applied, name)
				x.deleteApplied("hash-" + name)
			}
		}
		fresh := newIndex(corestatus.Excluded{})
		for _, a := range applied {
			fresh.setApplied(a)
		}
		for _, w := range works {
			fresh.setWork(w)
		}
		for _, ref := range refs {
			name := corestatus.ReportName(ref)
			want, wantHeld := fresh.lookup(name)
			got, gotHeld := x.lookup(name)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(holding{})); diff != "" || wantHeld != gotHeld {
				t.Fatalf("lookup of %s: held %v, want %v (-want +got):\n%s", ref, gotHeld, wantHeld, diff)
			}
		}
		if diff := cmp.Diff(fresh.wanted(nil), x.wanted(nil)); diff != "" {
			t.Fatalf("wanted (-want +got):\n%s", diff)
		}
	}
}
