package packages

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

const (
	upstream = "spec: {upstream: {repo: catalog, package: web, revision: %s}, targets: [%s]}"
	list     = "{repositories: [{name: c1}, {name: c2}]}"
)

// set sets a PackageVariantSet.
func (s *State) set(t *testing.T, name, text string) {
	t.Helper()
	set := &configv1alpha2.PackageVariantSet{}
	if err := yaml.UnmarshalStrict([]byte(text), set); err != nil {
		t.Fatal(err)
	}
	set.Namespace, set.Name, set.UID = s.Namespace, name, types.UID("uid-"+name)
	s.Sets[name] = set
}

// cluster sets a cluster with its Repository.
func (s *State) cluster(name, site string) {
	labels := map[string]string{"site": site}
	s.World.Clusters[name] = &forecast.Cluster{State: inventory.Accepted, Labels: labels}
	r := &configv1alpha1.Repository{Spec: configv1alpha1.RepositorySpec{Deployment: true}}
	r.Namespace, r.Name, r.Labels, r.Annotations = s.Namespace, name, labels, map[string]string{configv1alpha1.ClusterAnnotation: name}
	s.Repositories[name] = r
}

// revision adds a revision; one with a number is published. It is owned by a PackageVariant, and
// was created from an upstream, unless that is "".
func (s *State) revision(repository string, number int, owner, from string) {
	r := &storev1alpha1.PackageRevision{}
	r.Namespace, r.Name = s.Namespace, fmt.Sprintf("%s.web.v%d", repository, number)
	r.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: repository, PackageName: "web", WorkspaceName: fmt.Sprintf("v%d", number), Revision: number, Lifecycle: porchv1alpha1.LifecyclePublished}
	if number == 0 {
		r.Spec.Lifecycle = porchv1alpha1.LifecycleDraft
	}
	r.Content.Digest = "sha256:" + r.Name
	r.Status.Authors = []string{"controller"}
	if owner != "" {
		r.Served.OwnerReferences = []metav1.OwnerReference{{Kind: "PackageVariant", Name: owner, UID: types.UID("uid-" + owner)}}
	}
	if from != "" {
		r.Status.UpstreamLock = upgrade.LocateHere(s.Revisions[from])
	}
	s.Revisions[r.Name] = r
}

// start returns a State with clusters and a set of whose packages that of c1 is published, and that
// of c2 is a draft.
func start(t *testing.T) *State {
	t.Helper()
	s := &State{
		Namespace: "default", Sets: map[string]*configv1alpha2.PackageVariantSet{}, Variants: map[string]*configv1alpha1.PackageVariant{},
		Repositories: map[string]*configv1alpha1.Repository{}, Revisions: map[string]*storev1alpha1.PackageRevision{},
		World: &forecast.World{Clusters: map[string]*forecast.Cluster{}, Objects: map[objref.Ref]*forecast.Object{}, Unread: map[schema.GroupResource]bool{}},
		Kinds: func(kind schema.GroupVersionKind) (workload.Resource, bool, error) {
			switch kind.Kind {
			case "ConfigMap":
				return workload.Resource{Name: "configmaps", Namespaced: true}, true, nil
			case "Broken":
				return workload.Resource{}, false, errors.New("discovery failed")
			}
			return workload.Resource{}, false, nil
		},
	}
	s.World.Settings.Bindings.PackagesUser = "controller"
	s.cluster("c1", "edge")
	s.cluster("c2", "edge")
	s.cluster("c3", "core")
	s.Repositories["catalog"] = &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "catalog", Namespace: "default"}}
	s.revision("catalog", 1, "", "")
	s.set(t, "web", fmt.Sprintf(upstream, "1", list))
	s.Variants = s.settle(t.Context()).variants
	for name, pv := range s.Variants {
		pv.UID = types.UID("uid-" + name)
	}
	s.revision("c1", 1, "web-c1-web", "catalog.web.v1")
	s.revision("c2", 0, "web-c2-web", "catalog.web.v1")
	return s
}

func lines(sets []Set) []string {
	var all []string
	for i := range sets {
		s := &sets[i]
		all = append(all, strings.TrimSpace("set "+s.Name))
		add := func(format string, args ...any) { all = append(all, "  "+fmt.Sprintf(format, args...)) }
		for _, target := range s.TargetsGained {
			add("+ target %s", target)
		}
		for _, target := range s.TargetsLost {
			add("- target %s", target)
		}
		for _, v := range s.Variants {
			text := strings.TrimSpace(string(v.Verb) + " " + v.Name)
			if len(v.Steps) > 0 {
				text += ": " + strings.Join(v.Steps, "; ")
			}
			if v.Problem != "" {
				text += " PROBLEM " + v.Problem
			}
			add("%s", text)
		}
		if len(s.Drafts) > 0 {
			add("drafts %s", strings.Join(s.Drafts, ", "))
		}
		if s.Unknown != "" {
			add("UNKNOWN %s", s.Unknown)
		}
		if s.Mistake+s.Blocked != "" {
			add("%s", strings.TrimSpace(s.Mistake+" "+s.Blocked))
		}
	}
	return all
}

// TestCompare: what a change of each kind does to sets, variants and packages.
func TestCompare(t *testing.T) {
	t.Parallel()
	draft := func(owner, repository, base string) string {
		return repository + ".web." + variant.Workspace(owner, variant.Package{Repository: repository, Name: "web"}, base)
	}
	c3, c1 := draft("web-c3-web", "c3", ""), draft("web-c1-web", "c1", "c1.web.v1")
	edge := fmt.Sprintf(upstream, "1", "{repositorySelector: {matchLabels: {site: edge}}}")
	cases := map[string]struct {
		before, after func(s *State)
		want          []string
	}{
		"Nothing": {},
		"ATargetMore": {
			after: func(s *State) {
				s.set(t, "web", fmt.Sprintf(upstream, "1", "{repositories: [{name: c1}, {name: c2}, {name: c3}]}"))
			},
			want: []string{"set web", "  + target c3/web", "  create web-c3-web: create " + c3, "  drafts " + c3},
		},
		"ATargetLess": {
			after: func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "1", "{repositories: [{name: c2}]}")) },
			want:  []string{"set web", "  - target c1/web", "  delete web-c1-web: propose deletion c1.web.v1"},
		},
		"ATargetLessWhoseDraftIsDeleted": {
			after: func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "1", "{repositories: [{name: c1}]}")) },
			want:  []string{"set web", "  - target c2/web", "  delete web-c2-web: delete c2.web.v0"},
		},
		"ATargetLessWhoseDraftWasEdited": {
			before: func(s *State) { s.Revisions["c2.web.v0"].Status.Authors = []string{"controller", "ann"} },
			after:  func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "1", "{repositories: [{name: c1}]}")) },
			want:   []string{"set web", "  - target c2/web", "  delete web-c2-web: leave c2.web.v0"},
		},
		"ATargetLessAndAuthorsAreUnknown": {
			before: func(s *State) { s.World.Settings.Bindings.PackagesUser = "" },
			after:  func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "1", "{repositories: [{name: c1}]}")) },
			want:   []string{"set web", "  - target c2/web", "  delete web-c2-web: delete c2.web.v0, unless a person has changed it"},
		},
		"APackageThatIsReleased": {
			before: func(s *State) { s.Variants["web-c1-web"].Spec.DeletionPolicy = configv1alpha1.DeletionPolicyOrphan },
			after:  func(s *State) { delete(s.Sets, "web") },
			want: []string{
				"set web", "  - target c1/web", "  - target c2/web", "  delete web-c1-web: release c1.web.v1", "  delete web-c2-web: delete c2.web.v0",
			},
		},
		"AnotherUpstream": {
			before: func(s *State) { s.revision("catalog", 2, "", "") },
			after:  func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "2", list)) },
			want: []string{
				"set web", "  update web-c1-web: create " + c1,
				"  update web-c2-web: merge catalog.web.v2 into c2.web.v0, and mutate it", "  drafts " + c1,
			},
		},
		"ANewRevisionOfTheUpstream": {
			before: func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "latest", list)) },
			after:  func(s *State) { s.revision("catalog", 2, "", "") },
			want: []string{
				"set web", "  web-c1-web: create " + c1, "  web-c2-web: merge catalog.web.v2 into c2.web.v0, and mutate it",
				"  drafts " + c1,
			},
		},
		"AnUpstreamThatDoesNotExist": {
			after: func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "7", list)) },
			want:  []string{"set web", "  could not find upstream package revision 'web/7' in repo 'catalog'"},
		},
		"AnInvalidSet": {
			after: func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "1", "{}")) },
			want:  []string{"set web", "  spec.targets[0] must specify one of `repositories`, `repositorySelector`, or `objectSelector`"},
		},
		"ALabelOfACluster": {
			before: func(s *State) { s.set(t, "web", edge) },
			after: func(s *State) {
				c := *s.World.Clusters["c3"]
				c.Labels = map[string]string{"site": "edge"}
				s.World.Clusters["c3"] = &c
			},
			want: []string{"set web", "  + target c3/web", "  create web-c3-web: create " + c3, "  drafts " + c3},
		},
		"NothingIsSelectedAnyMore": {
			after: func(s *State) {
				s.set(t, "web", fmt.Sprintf(upstream, "1", "{repositorySelector: {matchLabels: {site: none}}}"))
			},
			want: []string{
				"set web", "  - target c1/web", "  - target c2/web",
				"  blocked: this change would delete 2 of 2 PackageVariants (web-c1-web, web-c2-web). Revert it, or allow it with: " +
					"kubectl annotate packagevariantset -n default web starling.io/allow-removal=0a464173112c",
			},
		},
		"ClustersThatAreSelected": {
			after: func(s *State) {
				s.set(t, "more", fmt.Sprintf(upstream, "1", "{objectSelector: {apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, matchLabels: {site: core}}}"))
			},
			want: []string{"set more", "  + target c3/web", "  create more-c3-web: create " + draft("more-c3-web", "c3", ""), "  drafts " + draft("more-c3-web", "c3", "")},
		},
		"ObjectsThatAreSelected": {
			before: func(s *State) {
				s.set(t, "more", fmt.Sprintf(upstream, "1", "{objectSelector: {apiVersion: v1, kind: ConfigMap, matchLabels: {is: target}}}"))
			},
			after: func(s *State) {
				for _, namespace := range []string{"default", "other"} {
					o := &unstructured.Unstructured{Object: map[string]any{}}
					o.SetName("c3")
					o.SetNamespace(namespace)
					o.SetLabels(map[string]string{"is": "target"})
					s.World.Objects[objref.Ref{Resource: "configmaps", Namespace: namespace, Name: "c3"}] = &forecast.Object{Meta: o}
				}
			},
			want: []string{"set more", "  + target c3/web", "  create more-c3-web: create " + draft("more-c3-web", "c3", ""), "  drafts " + draft("more-c3-web", "c3", "")},
		},
		"ObjectsThatAreNotKnown": {
			after: func(s *State) {
				s.set(t, "web", fmt.Sprintf(upstream, "1", "{objectSelector: {apiVersion: v1, kind: Broken, matchLabels: {is: target}}}"))
			},
			want: []string{"set web", "  UNKNOWN which objects it selects: v1 Broken: discovery failed"},
		},
		"APackageThatExists": {
			before: func(s *State) { s.revision("c3", 1, "", "") },
			after:  func(s *State) { s.set(t, "web", fmt.Sprintf(upstream, "1", list+", {repositories: [{name: c3}]}")) },
			want: []string{
				"set web", "  + target c3/web", "  create web-c3-web PROBLEM package c3/web already has revisions, such as c3.web.v1: set spec.adoptionPolicy to adoptExisting, or choose another package",
			},
		},
		"APackageThatIsAdopted": {
			before: func(s *State) { s.revision("c3", 1, "", "") },
			after: func(s *State) {
				s.set(t, "web", fmt.Sprintf(upstream, "1", list+", {repositories: [{name: c3}], template: {adoptionPolicy: adoptExisting}}"))
			},
			want: []string{"set web", "  + target c3/web", "  create web-c3-web: adopt c3.web.v1"},
		},
		"AVariantOfNoSet": {
			after: func(s *State) {
				pv := s.Variants["web-c1-web"].DeepCopy()
				pv.Name, pv.UID, pv.OwnerReferences, pv.Labels, pv.Spec.Downstream.Repo = "own", "uid-own", nil, nil, "c3"
				s.Variants["own"] = pv
			},
			want: []string{"set", "  create own: create " + draft("own", "c3", ""), "  drafts " + draft("own", "c3", "")},
		},
	}
	for name, tc := range cases {
		before := start(t)
		if tc.before != nil {
			tc.before(before)
		}
		after := before.Clone()
		world := *before.World
		after.World = world.Clone()
		if tc.after != nil {
			tc.after(after)
		}
		if diff := cmp.Diff(tc.want, lines(Compare(t.Context(), before, after))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
