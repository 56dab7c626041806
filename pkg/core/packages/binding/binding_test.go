package binding_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
)

var web = binding.Package{Namespace: "default", Repository: "edge1", Name: "apps/web"}

func revision(number int, lifecycle porchv1alpha1.PackageRevisionLifecycle) *storev1alpha1.PackageRevision {
	r := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("edge1.apps.web.w%d", number)}}
	r.Spec.Revision, r.Spec.Lifecycle = number, lifecycle
	r.Content.Digest = fmt.Sprintf("sha256:%d", number)
	return r
}

// tagged is a revision that was imported from a tag without a number.
func tagged(tag string) *storev1alpha1.PackageRevision {
	r := revision(-1, porchv1alpha1.LifecyclePublished)
	r.Name, r.External.Ref, r.Content.Digest = "edge1.apps.web."+strings.ReplaceAll(tag, ".", "-"), "apps/web/"+tag, "sha256:"+tag
	return r
}

// brief describes a Binding: the revision that it carries, and where to.
func brief(b *controlv1alpha1.Binding) string {
	if b == nil {
		return ""
	}
	text := "nothing"
	for _, p := range b.Spec.Workload.Packages {
		text = fmt.Sprintf("v%d %s %s", p.Revision, p.Name, p.Digest)
	}
	for _, d := range b.Spec.Destinations {
		text += " to " + d.ClusterID
	}
	return text
}

func TestPlanBinding(t *testing.T) {
	const published, draft, proposed, leaving = porchv1alpha1.LifecyclePublished, porchv1alpha1.LifecycleDraft, porchv1alpha1.LifecycleProposed, porchv1alpha1.LifecycleDeletionProposed
	type revisions = []*storev1alpha1.PackageRevision
	v1, v2 := revision(1, published), revision(2, published)
	repository := &configv1alpha1.Repository{Spec: configv1alpha1.RepositorySpec{Deployment: true}}
	catalogue := &configv1alpha1.Repository{}
	stored := func(change ...func(*controlv1alpha1.Binding)) *controlv1alpha1.Binding {
		b := binding.PlanBinding(&binding.Input{Package: web, Revisions: revisions{v1}, Repository: repository, Cluster: inventory.Accepted}).Create
		for _, f := range change {
			f(b)
		}
		return b
	}
	nowhere := func(b *controlv1alpha1.Binding) { b.Spec.Destinations = nil }
	held := func(b *controlv1alpha1.Binding) { b.Annotations[controlv1alpha1.AnnotationHold] = "*" }
	unlabelled := func(b *controlv1alpha1.Binding) { b.Labels = map[string]string{"mine": "x"} }
	foreign := func(b *controlv1alpha1.Binding) { b.Annotations = nil }
	going := func(b *controlv1alpha1.Binding) { b.DeletionTimestamp = &metav1.Time{} }
	delivers := func(r *storev1alpha1.PackageRevision) func(*controlv1alpha1.Binding) {
		return func(b *controlv1alpha1.Binding) {
			p := &b.Spec.Workload.Packages[0]
			p.Revision, p.Name, p.Digest = r.Spec.Revision, r.Name, r.Content.Digest
		}
	}
	deleted := revision(2, leaving)
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{}, []string{"starling.io/repository-tag"}
	const one, two = "v1 edge1.apps.web.w1 sha256:1", "v2 edge1.apps.web.w2 sha256:2"
	for name, tc := range map[string]struct {
		revisions  revisions
		repository *configv1alpha1.Repository
		cluster    inventory.State
		drained    bool
		stored     *controlv1alpha1.Binding
		create     string
		update     string
		delete     bool
		taken      bool
		back       bool
	}{
		"First":                      {revisions: revisions{v1}, repository: repository, cluster: inventory.Accepted, create: one + " to edge1"},
		"Unchanged":                  {revisions: revisions{v1}, repository: repository, cluster: inventory.Accepted, stored: stored()},
		"TheLatest":                  {revisions: revisions{v2, v1}, repository: repository, cluster: inventory.Accepted, stored: stored(), update: two + " to edge1"},
		"DraftsDoNotTravel":          {revisions: revisions{v1, revision(0, draft), revision(0, proposed)}, repository: repository, cluster: inventory.Accepted, stored: stored()},
		"DraftsAlone":                {revisions: revisions{revision(0, draft), revision(0, proposed)}, repository: repository, cluster: inventory.Accepted},
		"PlaceholdersDoNotTravel":    {revisions: revisions{revision(-1, published)}, repository: repository, cluster: inventory.Accepted},
		"TheHighestVersion":          {revisions: revisions{tagged("v1.9.0"), tagged("v1.10.0"), tagged("v2.0.0-rc.1"), tagged("candidate")}, repository: repository, cluster: inventory.Accepted, create: "v-1 edge1.apps.web.v1-10-0 sha256:v1.10.0 to edge1"},
		"OnlyAPreRelease":            {revisions: revisions{tagged("v2.0.0-rc.1")}, repository: repository, cluster: inventory.Accepted},
		"NumbersAfterVersions":       {revisions: revisions{tagged("v1.9.0"), v1}, repository: repository, cluster: inventory.Accepted, stored: stored()},
		"AHigherVersion":             {revisions: revisions{tagged("v1.9.0"), tagged("v1.10.0")}, repository: repository, cluster: inventory.Accepted, stored: stored(delivers(tagged("v1.9.0"))), update: "v-1 edge1.apps.web.v1-10-0 sha256:v1.10.0 to edge1"},
		"FromAVersionToANumber":      {revisions: revisions{tagged("v1.9.0"), v1}, repository: repository, cluster: inventory.Accepted, stored: stored(delivers(tagged("v1.9.0"))), update: one + " to edge1"},
		"TheHighestVersionIsDeleted": {revisions: revisions{tagged("v1.9.0")}, repository: repository, cluster: inventory.Accepted, stored: stored(delivers(tagged("v1.10.0"))), update: "v-1 edge1.apps.web.v1-9-0 sha256:v1.9.0 to edge1", back: true},
		"TheNumberIsDeleted":         {revisions: revisions{tagged("v1.9.0")}, repository: repository, cluster: inventory.Accepted, stored: stored(), update: "v-1 edge1.apps.web.v1-9-0 sha256:v1.9.0 to edge1", back: true},
		"NumberedDraftsDoNotTravel":  {revisions: revisions{revision(7, draft)}, repository: repository, cluster: inventory.Accepted},
		"ProposedForDeletionStays":   {revisions: revisions{revision(1, leaving)}, repository: repository, cluster: inventory.Accepted, stored: stored()},
		"ReallyDeleted":              {revisions: revisions{revision(0, draft)}, repository: repository, cluster: inventory.Accepted, stored: stored(), delete: true, back: true},
		"TheLatestIsDeleted":         {revisions: revisions{v1}, repository: repository, cluster: inventory.Accepted, stored: stored(func(b *controlv1alpha1.Binding) { b.Spec.Workload.Packages[0].Revision = 2 }), update: one + " to edge1", back: true},
		"DeletedButForItsTag":        {revisions: revisions{v1, deleted}, repository: repository, cluster: inventory.Accepted, stored: stored()},
		"InventoryNotRead":           {revisions: revisions{v1}, repository: repository, cluster: inventory.Unknown, stored: stored()},
		"InventoryNotReadAndNew":     {revisions: revisions{v1}, repository: repository, cluster: inventory.Unknown},
		"InventoryNotReadAndMoved":   {revisions: revisions{v2}, repository: repository, cluster: inventory.Unknown, stored: stored(), update: two + " to edge1"},
		"ClusterGone":                {revisions: revisions{v1}, repository: repository, cluster: inventory.Absent, stored: stored()},
		"ClusterNeverThere":          {revisions: revisions{v1}, repository: repository, cluster: inventory.Absent},
		"ClusterLeaving":             {revisions: revisions{v1}, repository: repository, cluster: inventory.Leaving, stored: stored(), update: one},
		"ClusterGoneAfterThat":       {revisions: revisions{v1}, repository: repository, cluster: inventory.Absent, stored: stored(nowhere)},
		"ClusterBack":                {revisions: revisions{v1}, repository: repository, cluster: inventory.Accepted, stored: stored(nowhere), update: one + " to edge1"},
		"Drained":                    {revisions: revisions{v1}, repository: repository, cluster: inventory.Accepted, drained: true, stored: stored(), update: one},
		"DrainedAndNew":              {revisions: revisions{v1}, repository: repository, cluster: inventory.Accepted, drained: true},
		"DrainedAndNoRepository":     {revisions: revisions{v2}, cluster: inventory.Accepted, drained: true, stored: stored(), update: one},
		"PerhapsDrained":             {revisions: revisions{v1}, repository: repository, cluster: inventory.Unknown, drained: true, stored: stored()},
		"RepositoryGone":             {revisions: revisions{v2}, cluster: inventory.Accepted, stored: stored()},
		"RepositoryGoneAndLeaving":   {revisions: revisions{v2}, cluster: inventory.Leaving, stored: stored(), update: one},
		"RepositoryGoneAndLeft":      {revisions: revisions{v2}, cluster: inventory.Leaving, stored: stored(nowhere)},
		"RepositoryGoneAndNever":     {revisions: revisions{v2}, cluster: inventory.Leaving},
		"RepositoryGoneAndDeleted":   {cluster: inventory.Accepted, stored: stored(), delete: true, back: true},
		"NothingIsDeployedFromThere": {revisions: revisions{v1}, repository: catalogue, cluster: inventory.Accepted},
		"NothingIsDeployedAnyMore":   {revisions: revisions{v1}, repository: catalogue, cluster: inventory.Accepted, stored: stored(), delete: true, back: true},
		"HeldByAUser":                {revisions: revisions{v2}, repository: repository, cluster: inventory.Accepted, stored: stored(held), update: two + " to edge1"},
		"LabelsTakenAway":            {revisions: revisions{v1}, repository: repository, cluster: inventory.Accepted, stored: stored(unlabelled), update: one + " to edge1"},
		"SomebodyElses":              {revisions: revisions{v2}, repository: repository, cluster: inventory.Accepted, stored: stored(foreign), taken: true},
		"BeingDeleted":               {revisions: revisions{v2}, repository: repository, cluster: inventory.Accepted, stored: stored(going)},
	} {
		t.Run(name, func(t *testing.T) {
			in := binding.Input{Package: web, Revisions: tc.revisions, Repository: tc.repository, Cluster: tc.cluster, Drained: tc.drained, Stored: tc.stored}
			before := in.Stored.DeepCopy()
			plan := binding.PlanBinding(&in)
			if got, want := []any{brief(plan.Create), brief(plan.Update), plan.Delete, plan.Taken, plan.TakesBack}, []any{tc.create, tc.update, tc.delete, tc.taken, tc.back}; !cmp.Equal(want, got) {
				t.Errorf("plan %v, want %v", got, want)
			}
			if diff := cmp.Diff(before, in.Stored); diff != "" {
				t.Errorf("the stored Binding changed:\n%s", diff)
			}
			if plan.Update == nil {
				return
			}
			if p, ok := binding.PackageOf(plan.Update); !ok || p != web || plan.Update.Labels["mine"] != in.Stored.Labels["mine"] {
				t.Errorf("the marks are %v, %v", plan.Update.Labels, plan.Update.Annotations)
			}
			if plan.Update.Name != in.Stored.Name || plan.Update.Annotations[controlv1alpha1.AnnotationHold] != in.Stored.Annotations[controlv1alpha1.AnnotationHold] {
				t.Errorf("the Binding lost its name, or what a user wrote: %v", plan.Update.ObjectMeta)
			}
			in.Stored = plan.Update
			if again := binding.PlanBinding(&in); again != (binding.Plan{}) {
				t.Errorf("planned again: %+v", again)
			}
		})
	}
}

func TestBindingName(t *testing.T) {
	seen := map[string]binding.Package{}
	for _, p := range []binding.Package{
		web,
		{Namespace: "other", Repository: "edge1", Name: "apps/web"},
		{Namespace: "default", Repository: "edge1-apps", Name: "web"},
		{Namespace: "default", Repository: "edge1", Name: "apps-web"},
		{Namespace: "default", Repository: "edge1", Name: "apps/Web"},
		{Namespace: "default", Repository: strings.Repeat("a", 63), Name: strings.Repeat("ü/", 200)},
	} {
		name := binding.Name(p)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("%v: %q: %v", p, name, problems)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%v and %v have the same name", p, other)
		}
		seen[name] = p
	}
	if got := binding.Name(web); !strings.HasPrefix(got, "edge1-apps-web-") {
		t.Errorf("%q says nothing to people", got)
	}
}

func TestPlanRepository(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	labels := map[string]string{"site": "edge"}
	ours := func(change ...func(*configv1alpha1.Repository)) *configv1alpha1.Repository {
		r := binding.PlanRepository(&binding.RepositoryInput{Namespace: "default", Name: "edge1", Cluster: inventory.Accepted, Labels: labels}).Create
		for _, f := range change {
			f(r)
		}
		return r
	}
	users := func(change ...func(*configv1alpha1.Repository)) *configv1alpha1.Repository {
		r := &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge1"}, Spec: configv1alpha1.RepositorySpec{Deployment: true}}
		for _, f := range change {
			f(r)
		}
		return r
	}
	says := func(status metav1.ConditionStatus) func(*configv1alpha1.Repository) {
		return func(r *configv1alpha1.Repository) {
			in := &binding.RepositoryInput{Namespace: "default", Name: "edge1", Cluster: inventory.Absent, Stored: r, Now: now}
			if status == metav1.ConditionFalse {
				in.Cluster, in.Labels = inventory.Accepted, r.Labels
				r.Status.Conditions = []metav1.Condition{{Type: configv1alpha1.RepositoryConditionDetached, Status: metav1.ConditionTrue}}
			} else {
				r.Status.Conditions = []metav1.Condition{{Type: configv1alpha1.RepositoryConditionDetached, Status: metav1.ConditionFalse}}
			}
			r.Status = *binding.PlanRepository(in).UpdateStatus
		}
	}
	detached, attached := says(metav1.ConditionTrue), says(metav1.ConditionFalse)
	going := func(r *configv1alpha1.Repository) { r.DeletionTimestamp = &metav1.Time{} }
	otherLabels := func(r *configv1alpha1.Repository) { r.Labels = map[string]string{"site": "core", "mine": "x"} }
	noDeployment := func(r *configv1alpha1.Repository) { r.Spec.Deployment = false }
	toldOf := func(r *configv1alpha1.Repository) {
		r.Status = *binding.PlanRepository(&binding.RepositoryInput{Namespace: "default", Name: "edge1", Cluster: inventory.Accepted, Labels: r.Labels, Stored: r, Now: now}).UpdateStatus
	}
	deployment := func(r *configv1alpha1.Repository) { r.Spec.Deployment = true }
	copied := func(r *configv1alpha1.Repository) {
		r.Annotations = map[string]string{configv1alpha1.ClusterAnnotation: "other"}
	}
	for name, tc := range map[string]struct {
		cluster inventory.State
		drained bool
		stored  *configv1alpha1.Repository
		empty   bool
		want    string
	}{
		"ClusterJoins":             {cluster: inventory.Accepted, want: "create map[site:edge]"},
		"Unchanged":                {cluster: inventory.Accepted, stored: ours()},
		"LabelsFollow":             {cluster: inventory.Accepted, stored: ours(otherLabels), want: "update map[site:edge]"},
		"NotRead":                  {cluster: inventory.Unknown, stored: ours(otherLabels), empty: true},
		"NotReadAndNone":           {cluster: inventory.Unknown},
		"NoCluster":                {cluster: inventory.Absent},
		"Leaves":                   {cluster: inventory.Leaving, stored: ours(), want: "Detached=True"},
		"Gone":                     {cluster: inventory.Absent, stored: ours(), want: "Detached=True"},
		"GoneAndToldOf":            {cluster: inventory.Absent, stored: ours(detached)},
		"GoneAndEmpty":             {cluster: inventory.Absent, stored: ours(), empty: true, want: "delete"},
		"EmptiedLater":             {cluster: inventory.Absent, stored: ours(detached), empty: true, want: "delete"},
		"ComesBack":                {cluster: inventory.Accepted, stored: ours(detached), want: "Detached=False"},
		"ComesBackWithOtherLabels": {cluster: inventory.Accepted, stored: ours(detached, otherLabels), want: "update map[site:edge] Detached=False"},
		"CameBack":                 {cluster: inventory.Accepted, stored: ours(attached)},
		"BeingDeleted":             {cluster: inventory.Accepted, stored: ours(going, otherLabels)},
		"Users":                    {cluster: inventory.Accepted, stored: users(), want: "Detached=False"},
		"UsersToldOf":              {cluster: inventory.Accepted, stored: users(attached)},
		"UsersWithOtherLabels":     {cluster: inventory.Accepted, stored: users(attached, otherLabels)},
		"UsersClusterGone":         {cluster: inventory.Absent, stored: users(attached), empty: true, want: "Detached=True"},
		"UsersOfNoCluster":         {cluster: inventory.Absent, stored: users(), empty: true},
		"UsersCatalogue":           {cluster: inventory.Accepted, stored: users(noDeployment), want: "Deployed=False"},
		"UsersCatalogueToldOf":     {cluster: inventory.Accepted, stored: users(noDeployment, toldOf)},
		"UsersCatalogueMended":     {cluster: inventory.Accepted, stored: users(noDeployment, toldOf, deployment), want: "Detached=False"},
		"UsersCatalogueOnceMore":   {cluster: inventory.Accepted, stored: users(attached, noDeployment), want: "Detached=False Deployed=False"},
		"UsersCatalogueLeft":       {cluster: inventory.Absent, stored: users(noDeployment, toldOf), want: "nothing said"},
		"UsersCatalogueOfNone":     {cluster: inventory.Absent, stored: users(noDeployment)},
		"UsersCatalogueNotRead":    {cluster: inventory.Unknown, stored: users(noDeployment, toldOf)},
		"OursIsNoDeployment":       {cluster: inventory.Accepted, stored: ours(noDeployment), want: "Deployed=False"},
		"OursBackAndNoDeployment":  {cluster: inventory.Accepted, stored: ours(detached, noDeployment), want: "Detached=False Deployed=False"},
		"OursDrained":              {cluster: inventory.Accepted, drained: true, stored: ours(), want: "update map[site:edge starling.io/drained:true] Deployed=False"},
		"UsersDrained":             {cluster: inventory.Accepted, drained: true, stored: users(attached), want: "Detached=False Deployed=False"},
		"UsersDrainedNoDeployment": {cluster: inventory.Accepted, drained: true, stored: users(noDeployment), want: "Deployed=False"},
		"PerhapsDrained":           {cluster: inventory.Unknown, drained: true, stored: ours()},
		"CopyUnderAnotherName":     {cluster: inventory.Accepted, stored: users(attached, otherLabels, copied)},
		"CopyAndNoCluster":         {cluster: inventory.Absent, stored: users(copied), empty: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := &binding.RepositoryInput{Namespace: "default", Name: "edge1", Cluster: tc.cluster, Stored: tc.stored, Empty: tc.empty, Now: now}
			if tc.cluster == inventory.Accepted {
				in.Labels = map[string]string{"site": "edge", "feature.open-cluster-management.io/addon-status-agent": "unreachable"}
			}
			if tc.drained {
				if in.Labels == nil {
					in.Labels = map[string]string{}
				}
				in.Labels[controlv1alpha1.LabelDrained] = "true"
			}
			before := tc.stored.DeepCopy()
			plan := binding.PlanRepository(in)
			var got []string
			if plan.Create != nil {
				got = append(got, fmt.Sprint("create ", plan.Create.Labels))
				if !plan.Create.Spec.Deployment || plan.Create.Spec.Type != configv1alpha1.RepositoryTypeHub {
					t.Errorf("created %+v", plan.Create.Spec)
				}
			}
			if plan.Update != nil {
				got = append(got, fmt.Sprint("update ", plan.Update.Labels))
			}
			if plan.UpdateStatus != nil {
				for _, c := range plan.UpdateStatus.Conditions {
					got = append(got, c.Type+"="+string(c.Status))
				}
				if len(plan.UpdateStatus.Conditions) == 0 {
					got = append(got, "nothing said")
				}
			}
			if plan.Delete {
				got = append(got, "delete")
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.stored); diff != "" {
				t.Errorf("the stored Repository changed:\n%s", diff)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	v1 := revision(1, porchv1alpha1.LifecyclePublished)
	bindingOf := func(change ...func(*controlv1alpha1.Binding)) *controlv1alpha1.Binding {
		b := binding.PlanBinding(&binding.Input{
			Package: web, Revisions: []*storev1alpha1.PackageRevision{v1}, Repository: &configv1alpha1.Repository{Spec: configv1alpha1.RepositorySpec{Deployment: true}},
			Cluster: inventory.Accepted,
		}).Create
		b.Name, b.Generation, b.Status.ObservedGeneration = "b", 3, 3
		for _, kind := range []string{"Delivered", "Applied", "Healthy"} {
			b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: "1 objects for 1 clusters"})
		}
		for _, f := range change {
			f(b)
		}
		return b
	}
	under := []string{"Delivered=False Delivering: Binding b: revision 1 is being delivered", "Applied=False NotDelivered: see condition Delivered", "Healthy=False NotApplied: see condition Applied"}
	for name, tc := range map[string]struct {
		binding *controlv1alpha1.Binding
		latest  *storev1alpha1.PackageRevision
		want    []string
	}{
		"NothingCarried":   {latest: v1},
		"NothingPublished": {binding: bindingOf()},
		"Well": {binding: bindingOf(), latest: v1, want: []string{
			"Delivered=True Delivered: Binding b: 1 objects for 1 clusters", "Applied=True Applied: Binding b: 1 objects for 1 clusters",
			"Healthy=True Healthy: Binding b: 1 objects for 1 clusters",
		}},
		"TheBindingIsBehind": {binding: bindingOf(func(b *controlv1alpha1.Binding) { b.Spec.Workload.Packages[0].Digest = "sha256:0" }), latest: v1, want: under},
		"ItsStatusIsBehind":  {binding: bindingOf(func(b *controlv1alpha1.Binding) { b.Generation++ }), latest: v1, want: under},
		"NotLookedAt":        {binding: bindingOf(func(b *controlv1alpha1.Binding) { b.Status = controlv1alpha1.BindingStatus{} }), latest: v1, want: under},
		"NoDestination": {binding: bindingOf(func(b *controlv1alpha1.Binding) { b.Spec.Destinations = nil }), latest: v1, want: []string{
			"Delivered=False ClusterGone: Binding b: cluster edge1 no longer exists, or is drained", under[1], under[2],
		}},
		"Unhealthy": {binding: bindingOf(func(b *controlv1alpha1.Binding) {
			b.Status.Conditions[2] = metav1.Condition{Type: "Healthy", Status: metav1.ConditionFalse, Reason: "Unhealthy", Message: "4 problems, see status.problems"}
			b.Status.Problems = []string{"p1", "p2", "p3", "p4"}
		}), latest: v1, want: []string{
			"Delivered=True Delivered: Binding b: 1 objects for 1 clusters", "Applied=True Applied: Binding b: 1 objects for 1 clusters",
			"Healthy=False Unhealthy: Binding b: 4 problems, see status.problems: p1; p2; p3; … and 1 more",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range binding.Conditions(tc.binding, tc.latest, 7) {
				got = append(got, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
				if c.ObservedGeneration != 7 || !c.LastTransitionTime.IsZero() {
					t.Errorf("condition %+v", c)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
