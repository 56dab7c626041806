package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

const (
	draft     = porchv1alpha1.LifecycleDraft
	proposed  = porchv1alpha1.LifecycleProposed
	published = porchv1alpha1.LifecyclePublished
	deletion  = porchv1alpha1.LifecycleDeletionProposed
)

var points = []porchv1alpha1.PackageRevisionLifecycle{"", draft, proposed, published, deletion}

// TestTransitions: all transitions, by update and by approval. Those that are not listed are
// rejected.
func TestTransitions(t *testing.T) {
	updates := map[string]bool{
		"/": true, "/Draft": true, "/Proposed": true, "Draft/": true, "Draft/Draft": true, "Draft/Proposed": true,
		"Proposed/": true, "Proposed/Draft": true, "Proposed/Proposed": true,
		"Published/Published": true, "Published/DeletionProposed": true,
		"DeletionProposed/Published": true, "DeletionProposed/DeletionProposed": true,
	}
	approvals := map[string]bool{
		"Proposed/": true, "Proposed/Draft": true, "Proposed/Published": true, "Published/DeletionProposed": true, "DeletionProposed/Published": true,
	}
	for _, from := range append(points, "Nonsense") {
		for _, to := range append(points, "Nonsense") {
			step := string(from + "/" + to)
			if text := lifecycle.CheckUpdate(from, to); (text == "") != updates[step] {
				t.Errorf("update %s: %q", step, text)
			}
			if text := lifecycle.CheckApproval(from, to); (text == "") != approvals[step] {
				t.Errorf("approval %s: %q", step, text)
			}
			gated := step == "/Proposed" || step == "Draft/Proposed" || step == "Proposed/Published"
			if lifecycle.GatesOf(from, to) != gated {
				t.Errorf("%s: gates: %t", step, !gated)
			}
		}
	}
	for point, want := range map[porchv1alpha1.PackageRevisionLifecycle][3]bool{ // create, delete, change files
		"": {true, true, true}, draft: {true, true, true}, proposed: {false, true, false}, published: {false, false, false}, deletion: {false, true, false},
	} {
		got := [3]bool{lifecycle.CheckCreate(point) == "", lifecycle.CheckDelete(point) == "", lifecycle.CheckFiles(point) == ""}
		if got != want {
			t.Errorf("%q: create, delete, files %v, want %v", point, got, want)
		}
	}
}

// TestTextsOfPorch: clients of Porch know these texts.
func TestTextsOfPorch(t *testing.T) {
	for got, want := range map[string]string{
		lifecycle.CheckApproval(draft, published):  "cannot approve package with Draft lifecycle value; only Proposed packages can be approved",
		lifecycle.CheckDelete(published):           "published PackageRevisions must be proposed for deletion by setting spec.lifecycle to 'DeletionProposed' prior to deletion",
		lifecycle.CheckUpdate(proposed, published): "Forbidden: only the subresource approval can change Proposed to Published",
		lifecycle.CheckUpdate(published, draft):    `Invalid value: "Draft": Published can change to Published or DeletionProposed only`,
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestUnmet(t *testing.T) {
	gates := []porchv1alpha1.ReadinessGate{{ConditionType: "B"}, {ConditionType: "A"}, {ConditionType: "C"}, {ConditionType: "A"}}
	conditions := []porchv1alpha1.Condition{
		{Type: "A", Status: "False", Reason: "Failed", Message: "function x failed"}, {Type: "C", Status: "True"}, {Type: "D", Status: "False"},
	}
	want := []string{"A (False: Failed: function x failed)", "B (no such condition)"}
	unmet := func(deployment bool, gates ...porchv1alpha1.ReadinessGate) []string {
		return lifecycle.Unmet(&porchv1alpha1.PackageRevisionSpec{ReadinessGates: gates}, &porchv1alpha1.PackageRevisionStatus{Conditions: conditions, Deployment: deployment})
	}
	if diff := cmp.Diff(want, unmet(false, gates...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := unmet(false, gates[2]); got != nil {
		t.Errorf("a met gate: %q", got)
	}
	injection := porchv1alpha1.ReadinessGate{ConditionType: "config.injection.ConfigMap.site"}
	if got := unmet(false, injection); got != nil {
		t.Errorf("an injection point of a blueprint: %q", got)
	}
	if diff := cmp.Diff([]string{"config.injection.ConfigMap.site (no such condition)"}, unmet(true, injection)); diff != "" {
		t.Errorf("an injection point of a package for a cluster (-want +got):\n%s", diff)
	}
	if got := lifecycle.NotReady(want); !strings.Contains(got, "A (False: Failed: function x failed), B (") {
		t.Errorf("text %q", got)
	}
}

func TestNames(t *testing.T) {
	spec := func(repository, packageName, workspace string) *porchv1alpha1.PackageRevisionSpec {
		return &porchv1alpha1.PackageRevisionSpec{RepositoryName: repository, PackageName: packageName, WorkspaceName: workspace}
	}
	if got := lifecycle.Name("edge1", "team/web", "v1"); got != "edge1.team.web.v1" {
		t.Errorf("name %s", got)
	}
	for name, tc := range map[string]struct {
		spec *porchv1alpha1.PackageRevisionSpec
		want []string
	}{
		"Good":  {spec("edge1", "team/web", "v1"), nil},
		"Empty": {spec("", "", ""), []string{"spec.repository: Required value", "spec.workspaceName: Required value", "spec.packageName: Required value"}},
		"Dots":  {spec("edge1", "team/web.v2", "v1"), []string{`spec.packageName: Invalid value: "team/web.v2": each part between slashes must `}},
		"Slash": {spec("edge1", "/web", "v1"), []string{`spec.packageName: Invalid value: "/web": each part between slashes must `}},
		"Climb": {spec("edge1", "../web", "v1"), []string{`spec.packageName: Invalid value: "../web": each part between slashes must `}},
		"Space": {spec("edge1", "web", "v 1"), []string{`spec.workspaceName: Invalid value: "v 1": a lowercase RFC 1123 label`}},
		"Long":  {spec("edge1", strings.Repeat("aaaaaaaaa/", 30)+"a", "v1"), []string{"spec.packageName: Too long: the revision's name "}},
	} {
		got := lifecycle.CheckNames(tc.spec).Strings()
		ok := len(got) == len(tc.want)
		for i := range min(len(got), len(tc.want)) {
			ok = ok && strings.HasPrefix(got[i], tc.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		if tc.want == nil {
			if errs := validation.IsDNS1123Subdomain(lifecycle.Name(tc.spec.RepositoryName, tc.spec.PackageName, tc.spec.WorkspaceName)); len(errs) > 0 {
				t.Errorf("%s: %q", name, errs)
			}
		}
	}
}

func TestCheckTasks(t *testing.T) {
	ref := func(name string) porchv1alpha1.PackageRevisionRef {
		return porchv1alpha1.PackageRevisionRef{Name: name}
	}
	clone := func(u porchv1alpha1.UpstreamPackage) []porchv1alpha1.Task {
		return []porchv1alpha1.Task{{Type: "clone", Clone: &porchv1alpha1.PackageCloneTaskSpec{Upstream: u}}}
	}
	source := ref("a.b.c")
	for name, tc := range map[string]struct {
		tasks []porchv1alpha1.Task
		want  []string
	}{
		"None":    {nil, nil},
		"Init":    {[]porchv1alpha1.Task{{Type: "init", Init: &porchv1alpha1.PackageInitTaskSpec{}}}, nil},
		"Two":     {make([]porchv1alpha1.Task, 2), []string{"spec.tasks: Too many: a revision is created with at most one task"}},
		"Unknown": {[]porchv1alpha1.Task{{Type: "eval"}}, []string{`spec.tasks[0].type: Unsupported value: "eval": supported values: init, clone, edit, upgrade`}},
		"Missing": {[]porchv1alpha1.Task{{Type: "clone"}}, []string{"spec.tasks[0].clone: Required value"}},
		"Other": {
			[]porchv1alpha1.Task{{Type: "init", Init: &porchv1alpha1.PackageInitTaskSpec{}, Edit: &porchv1alpha1.PackageEditTaskSpec{}}},
			[]string{"spec.tasks[0].edit: Forbidden: the type is init"},
		},
		"CloneGood":    {clone(porchv1alpha1.UpstreamPackage{UpstreamRef: &source}), nil},
		"CloneNothing": {clone(porchv1alpha1.UpstreamPackage{}), []string{"spec.tasks[0].clone.upstreamRef: Required value: set exactly one of git, oci and upstreamRef"}},
		"CloneType": {
			clone(porchv1alpha1.UpstreamPackage{Type: "oci", Git: &porchv1alpha1.GitPackage{Repo: "x"}}),
			[]string{`spec.tasks[0].clone.upstreamRef.type: Invalid value: "oci": does not match the field that is set`},
		},
		"ClonePassword": {
			clone(porchv1alpha1.UpstreamPackage{Git: &porchv1alpha1.GitPackage{Repo: "https://me:secret@host/r"}}),
			[]string{"spec.tasks[0].clone.upstreamRef.git.repo: Invalid value: must not have a user name or password: the Repository with this address names a Secret"},
		},
		"CloneNoRepo": {clone(porchv1alpha1.UpstreamPackage{Git: &porchv1alpha1.GitPackage{}}), []string{"spec.tasks[0].clone.upstreamRef.git.repo: Required value"}},
		"EditNoName": {
			[]porchv1alpha1.Task{{Type: "edit", Edit: &porchv1alpha1.PackageEditTaskSpec{}}},
			[]string{"spec.tasks[0].edit.sourceRef.name: Required value"},
		},
		"Upgrade": {[]porchv1alpha1.Task{{Type: "upgrade", Upgrade: &porchv1alpha1.PackageUpgradeTaskSpec{
			OldUpstream: ref("a"), NewUpstream: ref("b"), LocalPackageRevisionRef: ref("c"), Strategy: "copy-merge",
		}}}, nil},
		"UpgradeNoNames": {
			[]porchv1alpha1.Task{{Type: "upgrade", Upgrade: &porchv1alpha1.PackageUpgradeTaskSpec{OldUpstream: ref("a"), Strategy: "rebase"}}},
			[]string{
				"spec.tasks[0].upgrade.newUpstreamRef.name: Required value", "spec.tasks[0].upgrade.localPackageRevisionRef.name: Required value",
				`spec.tasks[0].upgrade.strategy: Unsupported value: "rebase": supported values: resource-merge, fast-forward, force-delete-replace, copy-merge`,
			},
		},
	} {
		if diff := cmp.Diff(tc.want, lifecycle.CheckTasks(tc.tasks).Strings(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCheckSpecUpdate(t *testing.T) {
	base := porchv1alpha1.PackageRevisionSpec{RepositoryName: "r", PackageName: "p", WorkspaceName: "w"}
	for name, tc := range map[string]struct {
		at     porchv1alpha1.PackageRevisionLifecycle
		change func(*porchv1alpha1.PackageRevisionSpec)
		want   []string
	}{
		"Same":      {published, func(*porchv1alpha1.PackageRevisionSpec) {}, nil},
		"Identity":  {draft, func(s *porchv1alpha1.PackageRevisionSpec) { s.PackageName, s.Revision = "q", 3 }, []string{"spec.packageName: Invalid value: field is immutable", "spec.revision: Invalid value: field is immutable"}},
		"Tasks":     {draft, func(s *porchv1alpha1.PackageRevisionSpec) { s.Tasks = []porchv1alpha1.Task{{Type: "init"}} }, []string{"spec.tasks: Invalid value: field is immutable"}},
		"EmptyList": {published, func(s *porchv1alpha1.PackageRevisionSpec) { s.ReadinessGates = []porchv1alpha1.ReadinessGate{} }, nil},
		"GateOfDraft": {draft, func(s *porchv1alpha1.PackageRevisionSpec) {
			s.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "A"}}
		}, nil},
		"GateOfPublished": {published, func(s *porchv1alpha1.PackageRevisionSpec) {
			s.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "A"}}
		}, []string{"spec.readinessGates: Forbidden: can be changed only in a Draft; the revision is Published"}},
	} {
		before := base
		before.Lifecycle = tc.at
		after := *before.DeepCopy()
		tc.change(&after)
		if diff := cmp.Diff(tc.want, lifecycle.CheckSpecUpdate(&before, &after).Strings(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
