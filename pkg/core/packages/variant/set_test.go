package variant_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

const listOfTwo = "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n  - repositories: [{name: cluster-01}, {name: cluster-02}]\n"

// made returns a set with the PackageVariants that its plan creates, all of them ready.
func made(t *testing.T, text string) (*variant.SetInput, map[string]*configv1alpha1.PackageVariant) {
	t.Helper()
	in := setInput(t, named(parse[configv1alpha2.PackageVariantSet](t, text)))
	byName := map[string]*configv1alpha1.PackageVariant{}
	for _, pv := range variant.PlanSet(t.Context(), in).Create {
		pv.UID = types.UID("uid-" + pv.Name)
		pv.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "NoErrors"}}
		byName[pv.Name] = pv
		in.Variants = append(in.Variants, pv)
	}
	return in, byName
}

// summary is a plan in a few words.
func summary(plan *variant.SetPlan) string {
	var words []string
	for _, part := range []struct {
		sign string
		list []*configv1alpha1.PackageVariant
	}{{"+", plan.Create}, {"~", plan.Update}, {"-", plan.Delete}} {
		for _, pv := range part.list {
			words = append(words, part.sign+pv.Name)
		}
	}
	for _, c := range plan.Status.Conditions {
		words = append(words, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(words, " ")
}

func TestPlanSet(t *testing.T) {
	const fine = " Ready=True/Reconciled Stalled=False/Valid"
	const pending = " Ready=Unknown/Reconciling Stalled=False/Valid"
	const failed = " Ready=False/UnexpectedError Stalled=True/UnexpectedError"
	change := func(in *variant.SetInput, text string) {
		in.Set = named(parse[configv1alpha2.PackageVariantSet](t, text))
		in.Invalid = variant.ValidateSet(&in.Set.Spec)
		if len(in.Invalid) == 0 {
			in.Compiled, in.Invalid = variant.Compile(&in.Set.Spec)
		}
	}
	gone := func(in *variant.SetInput, name string) {
		in.Repositories = slices.DeleteFunc(in.Repositories, func(r variant.Repository) bool { return r.Name == name })
	}
	for name, tc := range map[string]struct {
		change func(in *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant)
		want   string
	}{
		"Unchanged": {func(*variant.SetInput, map[string]*configv1alpha1.PackageVariant) {}, fine},
		"Revision": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			change(in, strings.Replace(listOfTwo, "v1", "v2", 1))
		}, "~example-cluster-01-foo ~example-cluster-02-foo" + pending},
		"Replaced": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			change(in, strings.Replace(listOfTwo, "cluster-02", "cluster-03", 1))
		}, "+example-cluster-03-foo -example-cluster-02-foo" + pending},
		"FailingKeepsAll": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			change(in, strings.Replace(listOfTwo, "cluster-02", "cluster-03}, {name: nowhere", 1))
		}, "+example-cluster-03-foo +example-nowhere-foo" + failed},
		"Invalid": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			change(in, strings.Replace(listOfTwo, "cluster-02", "''", 1))
		}, " Ready=False/ValidationError Stalled=True/ValidationError"},
		"NoUpstream": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			in.Upstream, in.UpstreamErr = variantFound(in.Set)
		}, " Ready=False/UpstreamNotFound Stalled=True/UpstreamNotFound"},
		"UserMetadataStays": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].Labels["mine"] = "x"
			pvs["example-cluster-01-foo"].Annotations = map[string]string{"mine": "x"}
		}, fine},
		"LabelIsRepaired": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			delete(pvs["example-cluster-01-foo"].Labels, configv1alpha1.LabelPackageVariantSet)
		}, "~example-cluster-01-foo" + pending},
		"OwnerIsRepaired": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].OwnerReferences = nil
		}, "~example-cluster-01-foo" + pending},
		"SpecIsRepaired": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].Spec.DeletionPolicy = "orphan"
		}, "~example-cluster-01-foo" + pending},
		"Adopted": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pv := pvs["example-cluster-01-foo"]
			pv.OwnerReferences, pv.Labels, pv.Spec.DeletionPolicy = nil, nil, "orphan"
		}, "~example-cluster-01-foo" + pending},
		"AdoptsNoPolicy": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pv := pvs["example-cluster-01-foo"]
			pv.OwnerReferences, pv.Labels, pv.Annotations = nil, nil, map[string]string{configv1alpha1.AnnotationApprovalPolicy: "always"}
		}, failed},
		"AdoptsNoPolicyInTheSpec": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pv := pvs["example-cluster-01-foo"]
			pv.OwnerReferences, pv.Spec.Annotations = nil, map[string]string{configv1alpha1.AnnotationApprovalPolicy: "always"}
		}, failed},
		"ChangesNoPolicy": {func(in *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: "initial"}
			change(in, strings.Replace(listOfTwo, "v1", "v2", 1))
		}, "~example-cluster-02-foo" + failed},
		"PolicyOfAMember": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: "always"}
		}, fine},
		"RemovesAPolicyFromTheSpec": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].Spec.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: "always"}
		}, "~example-cluster-01-foo" + pending},
		"LabelOwnsNothing": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pv := pvs["example-cluster-01-foo"]
			pv.OwnerReferences, pv.Spec.Downstream.Package = nil, "another"
			pvs["example-cluster-01-foo"].Name = "by-hand"
		}, "+example-cluster-01-foo" + pending},
		"ForeignPackage": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pv := pvs["example-cluster-01-foo"]
			pv.Name, pv.OwnerReferences, pv.Labels = "by-hand", nil, nil
		}, failed},
		"OtherSet": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pv := pvs["example-cluster-01-foo"]
			pv.OwnerReferences[0].UID, pv.OwnerReferences[0].Name, pv.Labels = "other", "other", nil
		}, failed},
		"NameIsTaken": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pv := pvs["example-cluster-01-foo"]
			pv.OwnerReferences, pv.Labels, pv.Spec.Downstream.Package = nil, nil, "other"
		}, "+example-cluster-01-foo-32121efe" + pending},
		"BeingDeleted": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].DeletionTimestamp = &metav1.Time{}
		}, failed},
		"Doubled": {func(in *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			second := pvs["example-cluster-01-foo"].DeepCopy()
			second.Name = "twin"
			in.Variants = append(in.Variants, second)
		}, "-twin" + fine},
		"Detached": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			in.Repositories[1].Detached = true
			change(in, strings.Replace(listOfTwo, "{name: cluster-02}", "{name: team-a}", 1))
		}, "+example-team-a-foo" + pending},
		"NotReady": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].Status.Conditions = nil // one is enough
			pvs["example-cluster-02-foo"].Status.Conditions[0].Status = metav1.ConditionFalse
		}, " Ready=False/VariantsNotReady Stalled=False/Valid"},
		"ReadyBefore": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].Generation = 2
		}, pending},
		"NotReadyBefore": {func(_ *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-01-foo"].Generation = 2
			pvs["example-cluster-01-foo"].Status.Conditions[0].Status = metav1.ConditionFalse
		}, pending},
		"NotWantedAndNotReady": {func(in *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			pvs["example-cluster-02-foo"].Status.Conditions = nil
			change(in, strings.Replace(listOfTwo, ", {name: cluster-02}", "", 1))
		}, "-example-cluster-02-foo" + fine},
		"RepositoryIsGone": {func(in *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			gone(in, "cluster-02")
			change(in, strings.Replace(listOfTwo, ", {name: cluster-02}", "", 1))
		}, "-example-cluster-02-foo" + fine},
		"RepositoryIsGoneAndHasRevisions": {func(in *variant.SetInput, pvs map[string]*configv1alpha1.PackageVariant) {
			gone(in, "cluster-02")
			in.HasRevisions = func(pkg variant.Package) bool { return pkg == variant.Package{Repository: "cluster-02", Name: "foo"} }
			pvs["example-cluster-02-foo"].Status.Conditions[0].Status = metav1.ConditionFalse
			change(in, strings.Replace(listOfTwo, ", {name: cluster-02}", "", 1))
		}, " Ready=False/VariantsNotReady Stalled=False/Valid"},
		"NothingLeft": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			change(in, "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n  - repositorySelector: {matchLabels: {no: thing}}\n")
		}, " Ready=False/RemovalBlocked RemovalBlocked=True/RemovalLimitExceeded Stalled=False/Valid"},
		"HeldWhileSomeComeBack": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			change(in, strings.Replace(listOfTwo, ", {name: cluster-02}", "", 1))
			in.Set.Status.Conditions = []metav1.Condition{{Type: "RemovalBlocked", Status: metav1.ConditionTrue}}
		}, " Ready=False/RemovalBlocked RemovalBlocked=True/RemovalLimitExceeded Stalled=False/Valid"},
		"HeldAndAllAreBack": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			in.Set.Status.Conditions = []metav1.Condition{{Type: "RemovalBlocked", Status: metav1.ConditionTrue}}
		}, fine},
		"NothingLeftWithoutRemovalBlock": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			change(in, "metadata: {annotations: {starling.io/removal-block: 'off'}}\nspec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n  - repositorySelector: {matchLabels: {no: thing}}\n")
		}, "-example-cluster-01-foo -example-cluster-02-foo" + fine},
		"Unreadable": {func(in *variant.SetInput, _ map[string]*configv1alpha1.PackageVariant) {
			in.Objects = func(string, string) ([]variant.Metadata, error) { return nil, errors.New("forbidden") }
			change(in, "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n  - objectSelector: {apiVersion: v1, kind: Namespace}\n")
		}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			in, pvs := made(t, listOfTwo)
			tc.change(in, pvs)
			before := deepCopies(in.Variants)
			plan := variant.PlanSet(t.Context(), in)
			if got := strings.TrimSpace(summary(plan)); got != strings.TrimSpace(tc.want) {
				t.Errorf("got  %s\nwant %s\n%+v", got, tc.want, plan.Status)
			}
			if diff := cmp.Diff(before, in.Variants); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
			if plan.Retry != (name == "Unreadable") {
				t.Errorf("retry %t", plan.Retry)
			}
			for _, pv := range plan.Update {
				if pv.Labels[configv1alpha1.LabelPackageVariantSet] != "set-uid" || !metav1.IsControlledBy(pv, in.Set) {
					t.Errorf("%+v", pv.ObjectMeta)
				}
			}
		})
	}
}

// variantFound returns the error for the upstream of a set if there are no revisions.
func variantFound(set *configv1alpha2.PackageVariantSet) (*variant.Metadata, error) {
	_, err := variant.FindUpstream(set.Spec.Upstream, nil)
	return nil, err
}

func deepCopies(all []*configv1alpha1.PackageVariant) []*configv1alpha1.PackageVariant {
	var out []*configv1alpha1.PackageVariant
	for _, pv := range all {
		out = append(out, pv.DeepCopy())
	}
	return out
}

// TestAllowRemoval: a token allows exactly the blocked deletions, even if they take several writes.
func TestAllowRemoval(t *testing.T) {
	var list []string
	for i := range 20 {
		list = append(list, fmt.Sprintf("{name: r%02d}", i))
	}
	in, _ := made(t, "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n  - repositories: ["+strings.Join(list, ", ")+"]\n")
	in.Repositories = nil
	for i := range 20 {
		in.Repositories = append(in.Repositories, variant.Repository{Metadata: object(fmt.Sprintf("r%02d", i))})
	}
	in.Set.Spec.Targets[0].Repositories = in.Set.Spec.Targets[0].Repositories[:5]
	plan := variant.PlanSet(t.Context(), in)
	if len(plan.Delete) != 0 || len(plan.Status.Conditions) != 3 {
		t.Fatal(summary(plan))
	}
	_, token, _ := strings.Cut(meta.FindStatusCondition(plan.Status.Conditions, "RemovalBlocked").Message, "starling.io/allow-removal=")
	in.Set.Annotations = map[string]string{"starling.io/allow-removal": token}
	plan = variant.PlanSet(t.Context(), in)
	if len(plan.Delete) != 15 || plan.Allowed == nil || plan.AllowanceUsed {
		t.Fatal(summary(plan))
	}
	in.Allowed = plan.Allowed
	in.Variants = in.Variants[:17] // three are gone; twelve of seventeen would be held by themselves
	plan = variant.PlanSet(t.Context(), in)
	if len(plan.Delete) != 12 || plan.AllowanceUsed || !cmp.Equal(plan.Allowed, in.Allowed) {
		t.Fatal(summary(plan))
	}
	more := *in
	more.Set = in.Set.DeepCopy()
	more.Set.Spec.Targets[0].Repositories = more.Set.Spec.Targets[0].Repositories[:4] // one that was not shown
	if plan = variant.PlanSet(t.Context(), &more); len(plan.Delete) != 0 {
		t.Fatal(summary(plan))
	}
	in.Variants = in.Variants[:5]
	if plan = variant.PlanSet(t.Context(), in); len(plan.Delete) != 0 || !plan.AllowanceUsed || plan.Allowed != nil {
		t.Fatal(summary(plan))
	}
}

func TestCounts(t *testing.T) {
	in, pvs := made(t, strings.Replace(listOfTwo, "{name: cluster-02}", "{name: cluster-02}, {name: cluster-03}, {name: cluster-04}, {name: team-a}", 1))
	state := func(name string, state configv1alpha1.VariantState, conditions ...string) {
		pv := pvs["example-"+name+"-foo"]
		pv.Status.State, pv.Status.Conditions = state, nil
		for _, c := range conditions {
			kind, status, _ := strings.Cut(c, "=")
			pv.Status.Conditions = append(pv.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: "Because", Message: "of this"})
		}
	}
	state("cluster-01", "Draft", "Applied=True", "Healthy=True", "Ready=True", "Stalled=False")
	state("cluster-02", "Proposed", "Applied=False", "Healthy=True")
	state("cluster-03", "Published", "Applied=True", "Healthy=False")
	state("cluster-04", "", "Stalled=True", "Ready=False")
	state("team-a", "Published", "Ready=False")
	got := variant.PlanSet(t.Context(), in).Status
	got.Conditions = nil
	want := configv1alpha2.PackageVariantSetStatus{
		ObservedGeneration: 1, Targets: 5, Draft: 1, Proposed: 1, Published: 1, Applied: 2, Healthy: 1,
		Problems: []configv1alpha2.Problem{
			{Target: "PackageVariant example-cluster-03-foo", Message: "cluster-03/foo: Because: of this"},
			{Target: "PackageVariant example-cluster-04-foo", Message: "cluster-04/foo: Because: of this"},
			{Target: "PackageVariant example-team-a-foo", Message: "team-a/foo: Because: of this"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSetModel: sets, repositories and objects change in any order, writes are lost and done twice,
// other PackageVariants are in the way; in the end there is what an oracle that knows none of the
// code wants. No plan deletes what the oracle keeps.
func TestSetModel(t *testing.T) {
	for seed := range int64(60) {
		m := &setModel{t: t, rnd: rand.New(rand.NewSource(seed)), variants: map[string]*configv1alpha1.PackageVariant{}}
		m.repositories = map[string]map[string]string{}
		for range 40 {
			m.step()
			m.reconcile(m.rnd.Intn(4)) // some writes, and then the end of the process
		}
		m.settle()
	}
}

type setModel struct {
	t            *testing.T
	rnd          *rand.Rand
	repositories map[string]map[string]string // labels by name
	targets      []modelTarget
	variants     map[string]*configv1alpha1.PackageVariant
	uids         int
}

// modelTarget is a list of repositories, or a label that repositories have.
type modelTarget struct {
	list     []string
	label    string
	packages []string
	// suffix is a label whose value is appended to the name of the package; a repository without it
	// fails.
	suffix string
}

func (m *setModel) pick(of ...string) string { return of[m.rnd.Intn(len(of))] }

func (m *setModel) step() {
	repository := m.pick("a", "b", "a-b", "c", "b-c", "d")
	switch m.rnd.Intn(6) {
	case 0, 1:
		m.repositories[repository] = map[string]string{m.pick("x", "y"): "1", m.pick("s", "u"): m.pick("p", "q", "c-d")}
	case 2:
		delete(m.repositories, repository)
	case 3:
		m.targets = nil
		for range 1 + m.rnd.Intn(3) {
			target := modelTarget{packages: []string{m.pick("p", "q", "c-d", "d")}}
			if m.rnd.Intn(2) == 0 {
				target.list = []string{repository, m.pick("a", "b", "c")}
			} else {
				target.label = m.pick("x", "y")
			}
			if m.rnd.Intn(3) == 0 {
				target.suffix = m.pick("s", "u")
			}
			m.targets = append(m.targets, target)
		}
	case 4: // a user creates one
		name := m.pick("set-a-p", "set-b-c-d", "by-hand")
		if m.variants[name] == nil {
			m.put(&configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: configv1alpha1.PackageVariantSpec{
				Downstream: &configv1alpha1.Downstream{Repo: m.pick("a", "b"), Package: m.pick("p", "q")},
			}})
		}
	case 5: // a user edits or deletes one
		for _, name := range m.names() {
			if m.rnd.Intn(4) == 0 {
				pv := m.variants[name].DeepCopy()
				switch m.rnd.Intn(3) {
				case 0:
					pv.Spec.DeletionPolicy = "orphan"
				case 1:
					delete(pv.Labels, configv1alpha1.LabelPackageVariantSet)
				case 2:
					delete(m.variants, name)
					continue
				}
				m.variants[name] = pv
			}
		}
	}
}

func (m *setModel) names() []string {
	var names []string
	for name := range m.variants {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (m *setModel) put(pv *configv1alpha1.PackageVariant) {
	m.uids++
	pv = pv.DeepCopy()
	pv.UID = types.UID(fmt.Sprint("uid-", m.uids))
	m.variants[pv.Name] = pv
}

func (m *setModel) input() *variant.SetInput {
	set := &configv1alpha2.PackageVariantSet{ObjectMeta: metav1.ObjectMeta{
		Name: "set", UID: "set-uid", Annotations: map[string]string{"starling.io/removal-block": "off"},
	}}
	revision := parse[configv1alpha1.Upstream](m.t, "{repo: up, package: p, revision: 1}")
	set.Spec.Upstream = revision
	for _, target := range m.targets {
		out := configv1alpha2.Target{PackageNames: target.packages}
		if target.label != "" {
			out.RepositorySelector = &configv1alpha2.RepositorySelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{target.label: "1"}}}
		}
		for _, r := range target.list {
			out.Repositories = append(out.Repositories, configv1alpha2.RepositoryTarget{Name: r})
		}
		if target.suffix != "" {
			expr := "packageDefault + '-' + repository.labels['" + target.suffix + "']"
			out.Template = &configv1alpha2.PackageVariantTemplate{Downstream: &configv1alpha2.DownstreamTemplate{PackageExpr: &expr}}
		}
		set.Spec.Targets = append(set.Spec.Targets, out)
	}
	in := &variant.SetInput{
		Set: set, Objects: objects, Upstream: &variant.Metadata{Name: "up.p.v1"}, Invalid: variant.ValidateSet(&set.Spec), HasRevisions: noRevisions,
	}
	if len(in.Invalid) == 0 {
		in.Compiled, in.Invalid = variant.Compile(&set.Spec)
	}
	for name, labels := range m.repositories {
		in.Repositories = append(in.Repositories, variant.Repository{Metadata: variant.Metadata{Name: name, Labels: labels}})
	}
	for _, pv := range m.variants {
		in.Variants = append(in.Variants, pv)
	}
	m.rnd.Shuffle(len(in.Variants), func(i, j int) { in.Variants[i], in.Variants[j] = in.Variants[j], in.Variants[i] })
	return in
}

// reconcile plans, and carries out so many writes of the plan; what is planned is held against the
// oracle.
func (m *setModel) reconcile(writes int) *variant.SetPlan {
	plan := variant.PlanSet(m.t.Context(), m.input())
	wanted, certain := m.oracle()
	for _, pv := range plan.Delete {
		p := variant.Package{Repository: pv.Spec.Downstream.Repo, Name: pv.Spec.Downstream.Package}
		if !certain || !ours(pv) || wanted[p] && m.count(p) < 2 {
			m.t.Fatalf("%s of %s is deleted; certain %t, wanted %v, targets %+v, repositories %v, variants %s; planned %s", pv.Name, p, certain, wanted, m.targets, m.repositories, m.names(), summary(plan))
		}
	}
	for _, pv := range plan.Create {
		writes--
		if writes < 0 {
			return plan
		}
		if m.variants[pv.Name] != nil {
			m.t.Fatalf("%s is created, but already exists", pv.Name)
		}
		m.put(pv)
	}
	for _, pv := range plan.Update {
		writes--
		if writes < 0 {
			return plan
		}
		if before := m.variants[pv.Name]; before.UID != pv.UID || cmp.Equal(before, pv) {
			m.t.Fatalf("%s is updated: %s", pv.Name, cmp.Diff(before, pv))
		}
		m.variants[pv.Name] = pv
	}
	for _, pv := range plan.Delete {
		writes--
		if writes < 0 {
			return plan
		}
		delete(m.variants, pv.Name)
	}
	return plan
}

func ours(pv *configv1alpha1.PackageVariant) bool {
	return len(pv.OwnerReferences) > 0 && pv.OwnerReferences[0].UID == "set-uid"
}

func (m *setModel) count(p variant.Package) int {
	n := 0
	for _, pv := range m.variants {
		if d := pv.Spec.Downstream; ours(pv) && d.Repo == p.Repository && d.Package == p.Name {
			n++
		}
	}
	return n
}

// oracle returns the packages that the set asks for, and whether all of it can be understood.
func (m *setModel) oracle() (wanted map[variant.Package]bool, certain bool) {
	wanted, certain = map[variant.Package]bool{}, len(m.targets) > 0
	times := map[variant.Package]int{}
	for _, target := range m.targets {
		list := target.list
		for name, labels := range m.repositories {
			if target.label != "" && labels[target.label] == "1" {
				list = append(list, name)
			}
		}
		for _, name := range list {
			labels, there := m.repositories[name]
			p := variant.Package{Repository: name, Name: target.packages[0]}
			if !there {
				certain = false
			}
			if target.suffix != "" {
				if labels[target.suffix] == "" {
					certain = false
					continue
				}
				p.Name += "-" + labels[target.suffix]
			}
			wanted[p] = true
			times[p]++
		}
	}
	for _, n := range times {
		certain = certain && n == 1
	}
	for name, pv := range m.variants {
		p := variant.Package{Repository: pv.Spec.Downstream.Repo, Name: pv.Spec.Downstream.Package}
		if wanted[p] && !ours(pv) && m.count(p) == 0 && name != "set-"+p.Repository+"-"+p.Name {
			certain = false // it has another owner
		}
	}
	return wanted, certain
}

// settle carries everything out, and looks at what has become.
func (m *setModel) settle() {
	for range 3 {
		m.reconcile(1000)
	}
	if plan := m.reconcile(0); len(plan.Create)+len(plan.Update)+len(plan.Delete) > 0 {
		m.t.Fatalf("it does not come to rest: %s", summary(plan))
	}
	wanted, certain := m.oracle()
	got := map[variant.Package]bool{}
	for _, pv := range m.variants {
		if p := (variant.Package{Repository: pv.Spec.Downstream.Repo, Name: pv.Spec.Downstream.Package}); ours(pv) {
			got[p] = true
		}
	}
	if certain && !cmp.Equal(wanted, got) {
		m.t.Fatalf("wanted %v, got %v", wanted, got)
	}
}

// TestOrderDoesNotMatter: whatever the order in which things are listed, the plan is the same.
func TestOrderDoesNotMatter(t *testing.T) {
	text, err := os.ReadFile("testdata/TestExamples/repository-selector.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in, pvs := made(t, string(text))
	for _, name := range []string{"example-cluster-01-foo", "example-cluster-02-foo-b", "example-cluster-04-foo-c"} {
		pvs[name].Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: "True", Reason: "Because", Message: name}}
	}
	for range 2 {
		extra := in.Variants[0].DeepCopy()
		extra.Name, extra.Spec.Downstream.Package = fmt.Sprint("extra", len(in.Variants)), "gone"
		in.Variants = append(in.Variants, extra)
	}
	in.Variants = slices.DeleteFunc(in.Variants, func(pv *configv1alpha1.PackageVariant) bool { return pv.Name == "example-cluster-03-foo" })
	first := variant.PlanSet(t.Context(), in)
	if len(first.Create) != 1 || len(first.Delete) != 2 || len(first.Status.Problems) != 3 {
		t.Fatal(summary(first), first.Status.Problems)
	}
	rnd := rand.New(rand.NewSource(3))
	for range 50 {
		rnd.Shuffle(len(in.Variants), func(i, j int) { in.Variants[i], in.Variants[j] = in.Variants[j], in.Variants[i] })
		rnd.Shuffle(len(in.Repositories), func(i, j int) { in.Repositories[i], in.Repositories[j] = in.Repositories[j], in.Repositories[i] })
		if diff := cmp.Diff(first, variant.PlanSet(t.Context(), in)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// TestInterruptedEvaluationIsUnknown: what is not evaluated in time changes and deletes nothing,
// and is evaluated the next time.
func TestInterruptedEvaluationIsUnknown(t *testing.T) {
	const spec = "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n"
	in, _ := made(t, spec+"  - repositories: [{name: cluster-01}, {name: cluster-02}]")
	in.Set = named(parse[configv1alpha2.PackageVariantSet](t, spec+"  - repositories: [{name: cluster-01}]\n    template: {downstream: {packageExpr: target.repo}}"))
	in.Compiled, in.Invalid = variant.Compile(&in.Set.Spec)
	in.Cache = &variant.RenderCache{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	plan := variant.PlanSet(ended, in)
	stalled := meta.FindStatusCondition(plan.Status.Conditions, configv1alpha1.ConditionStalled)
	if n := len(plan.Create) + len(plan.Update) + len(plan.Delete); n != 0 || !plan.Retry || stalled == nil || stalled.Reason != configv1alpha1.ReasonEvaluationInterrupted {
		t.Errorf("%d writes, retried: %t, %v", n, plan.Retry, stalled)
	}
	plan = variant.PlanSet(t.Context(), in)
	if len(plan.Create) != 1 || plan.Retry {
		t.Errorf("the next time: %d creations, retried: %t", len(plan.Create), plan.Retry)
	}
}
