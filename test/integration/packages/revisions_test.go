package packages

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/test/testenv"
)

const (
	deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 1 # few\n"
	pipeline   = `apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: web
pipeline:
  mutators:
  - image: ghcr.io/kptdev/krm-functions-catalog/set-namespace:v0.4.1
    configMap:
      namespace: web
`
)

// TestUpgrade: a package is cloned, changed, and upgraded to the next revision of its upstream. It
// has the changes of both sides.
func TestUpgrade(t *testing.T) {
	e := newEnvironment(t)
	v1 := e.make(t, e.revision("upstream", "web", "v1"))
	e.write(t, v1.Name, map[string]string{"deployment.yaml": deployment})
	v1 = e.move(t, v1, published)
	v2 := e.make(t, e.revision("upstream", "web", "v2"), task(porchv1alpha1.TaskTypeEdit, v1.Name))
	e.write(t, v2.Name, map[string]string{"deployment.yaml": deployment + "  paused: true\n"})
	v2 = e.move(t, v2, published)
	if v2.Spec.Revision != 2 || v1.Spec.Revision != 1 {
		t.Errorf("revisions %d and %d", v1.Spec.Revision, v2.Spec.Revision)
	}

	mine := e.make(t, e.revision("edge", "site/web", "a"), task(porchv1alpha1.TaskTypeClone, v1.Name))
	if lock := mine.Status.UpstreamLock; lock == nil || lock.Git.Ref != "web/v1" || !mine.Status.Deployment {
		t.Errorf("cloned from %+v, deployment %t", lock, mine.Status.Deployment)
	}
	files := e.write(t, mine.Name, map[string]string{"deployment.yaml": strings.Replace(deployment, "replicas: 1", "replicas: 3", 1)}).Spec.Resources
	if context := files["package-context.yaml"]; !strings.Contains(context, "package-path: site/web") {
		t.Errorf("package context: %s", context)
	}
	mine = e.move(t, mine, published)
	next := e.make(t, e.revision("edge", "site/web", "b"), task(porchv1alpha1.TaskTypeUpgrade, v1.Name, v2.Name, mine.Name))
	prr := must[*porchv1alpha1.PackageRevisionResources](t)(e.admin.resources(e.namespace).Get(t.Context(), next.Name, metav1.GetOptions{}))
	text := prr.Spec.Resources["deployment.yaml"]
	if !strings.Contains(text, "replicas: 3 # few") || !strings.Contains(text, "paused: true") {
		t.Errorf("merged:\n%s", text)
	}
	if lock := next.Status.UpstreamLock; lock == nil || lock.Git.Ref != "web/v2" {
		t.Errorf("upgraded to %+v", lock)
	}
	kptfile, err := kpt.ParseKptfile(prr.Spec.Resources[kpt.KptfileName])
	if err != nil || kptfile.Name() != "web" || kptfile.UpstreamLock() == nil || kptfile.UpstreamLock().Git.Ref != "web/v2" {
		t.Errorf("Kptfile: %v\n%s", err, prr.Spec.Resources[kpt.KptfileName])
	}

	// A revision that is an upstream cannot be deleted.
	if _, err := e.admin.revisions(e.namespace).Update(t.Context(), at(v2, deletionProposed), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = e.admin.revisions(e.namespace).Delete(t.Context(), v2.Name, metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), next.Name) {
		t.Errorf("delete what is used: %v", err)
	}
	if err := e.admin.revisions(e.namespace).Delete(t.Context(), next.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.admin.revisions(e.namespace).Delete(t.Context(), v2.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete a revision that is not in use: %v", err)
	}
	// The previous revision has the label again, at once.
	v1 = must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), v1.Name, metav1.GetOptions{}))
	if v1.Labels[porchv1alpha1.LatestRevisionLabel] != "true" {
		t.Errorf("labels of %s: %v", v1.Name, v1.Labels)
	}
	e.checkConsistent(t, true)
}

func at(pr *porchv1alpha1.PackageRevision, l porchv1alpha1.PackageRevisionLifecycle) *porchv1alpha1.PackageRevision {
	pr = pr.DeepCopy()
	pr.Spec.Lifecycle = l
	return pr
}

// TestGateOfThePipeline: content that a function of the package rejects is stored. The error is
// reported, and blocks the revision until the content is repaired.
func TestGateOfThePipeline(t *testing.T) {
	e := newEnvironment(t)
	pr := e.make(t, e.revision("upstream", "web", "v1"))
	prr := e.write(t, pr.Name, map[string]string{"Kptfile": pipeline, "deployment.yaml": deployment})
	if prr.Status.RenderStatus.Err != "" || !strings.Contains(prr.Spec.Resources["deployment.yaml"], "namespace: web") {
		t.Fatalf("render %+v\n%s", prr.Status.RenderStatus, prr.Spec.Resources["deployment.yaml"])
	}
	if n := len(prr.Status.RenderStatus.Result.Items); n != 1 {
		t.Errorf("%d results", n)
	}

	broken := strings.Replace(pipeline, "set-namespace:v0.4.1", "no-such-function:v1", 1)
	prr = e.write(t, pr.Name, map[string]string{"Kptfile": broken, "deployment.yaml": deployment})
	if status := prr.Status.RenderStatus; !strings.Contains(status.Err, "is not a built-in function") || status.Result.ExitCode != 1 {
		t.Errorf("render %+v; want an error", status)
	}
	if prr.Spec.Resources["deployment.yaml"] != deployment {
		t.Errorf("the stored file differs from the sent one:\n%s", prr.Spec.Resources["deployment.yaml"])
	}
	if text := prr.Spec.Resources["Kptfile"]; strings.Count(text, "no-such-function") != 1 {
		t.Errorf("the Kptfile has the error, which would go to git:\n%s", text)
	}
	pr = must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{}))
	_, err := e.admin.revisions(e.namespace).Update(t.Context(), at(pr, proposed), metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "PackagePipelinePassed") || !strings.Contains(err.Error(), "no-such-function") {
		t.Errorf("propose: %v", err)
	}
	// No user can remove the gate: not by its condition, not in the spec, not in the Kptfile.
	forged := pr.DeepCopy()
	forged.Spec.ReadinessGates = nil
	forged.Status.Conditions = []porchv1alpha1.Condition{{Type: porchv1alpha1.ConditionPipelinePassed, Status: porchv1alpha1.ConditionTrue}}
	forged = must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Update(t.Context(), forged, metav1.UpdateOptions{}))
	if _, err := e.admin.revisions(e.namespace).Update(t.Context(), at(forged, proposed), metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("propose, forged: %v", err)
	}
	e.write(t, pr.Name, map[string]string{"Kptfile": broken + "status:\n  conditions:\n  - type: PackagePipelinePassed\n    status: \"True\"\n"})
	pr = must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{}))
	if _, err := e.admin.revisions(e.namespace).Update(t.Context(), at(pr, proposed), metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("propose, forged in the Kptfile: %v", err)
	}

	e.write(t, pr.Name, map[string]string{"Kptfile": pipeline})
	e.move(t, pr, published)
	e.checkConsistent(t, false)
}

// TestGateOfDelivery: what a cluster could not get as a whole is not published for clusters.
func TestGateOfDelivery(t *testing.T) {
	e := newEnvironment(t)
	twice := map[string]string{
		"a.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n",
		"sub/Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: sub\n",
		"sub/a.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  namespace: default\n",
	}
	blueprint := e.make(t, e.revision("upstream", "web", "v1"))
	e.write(t, blueprint.Name, twice)
	e.move(t, blueprint, published)

	pr := e.make(t, e.revision("edge", "web", "v1"), task(porchv1alpha1.TaskTypeClone, blueprint.Name))
	_, err := e.admin.revisions(e.namespace).Update(t.Context(), at(pr, proposed), metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "sub/a.yaml: ConfigMap default/c: is also in a.yaml") {
		t.Errorf("propose: %v", err)
	}
	prr := e.write(t, pr.Name, map[string]string{"sub/.krmignore": "a.yaml\n"})
	if text := prr.Status.RenderStatus.Err; text != "" {
		t.Errorf("an ignored file: %s", text)
	}
	e.move(t, must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{})), published)

	// The scope of a custom kind is that in the WDS.
	e.fleet.Space(t, wds).Apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wides.gate.example.com}
spec:
  group: gate.example.com
  scope: Cluster
  names: {kind: Wide, plural: wides, singular: wide, listKind: WideList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	wide := func(namespace string) string {
		return "apiVersion: gate.example.com/v1\nkind: Wide\nmetadata:\n  name: x\n  namespace: " + namespace + "\n"
	}
	other := e.make(t, e.revision("edge", "wide", "v1"))
	testenv.Eventually(t, testTimeout, func() (bool, string) { // kinds that are not served are read again after a while
		prr := e.write(t, other.Name, map[string]string{"a.yaml": wide("a"), "b.yaml": wide("b")})
		return strings.Contains(prr.Status.RenderStatus.Err, "b.yaml: Wide b/x: is also in a.yaml"), prr.Status.RenderStatus.Err
	})

	// A Repository becomes that of a cluster: the next write of a draft is checked.
	draft := e.make(t, e.revision("downstream", "late", "v1"))
	if prr := e.write(t, draft.Name, twice); prr.Status.RenderStatus.Err != "" {
		t.Errorf("a blueprint: %s", prr.Status.RenderStatus.Err)
	}
	e.repository(t, "downstream", true)
	if prr := e.write(t, draft.Name, map[string]string{"note.txt": "again"}); !strings.Contains(prr.Status.RenderStatus.Err, "is also in a.yaml") {
		t.Errorf("after spec.deployment is true: %q", prr.Status.RenderStatus.Err)
	}
	e.checkConsistent(t, false)
}

// TestBadFiles: files that are not a package are refused with the reason, and the draft is not
// changed.
func TestBadFiles(t *testing.T) {
	e := newEnvironment(t)
	pr := e.make(t, e.revision("upstream", "web", "v1"))
	billion := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		billion += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	starlark := func(program string) string {
		return "apiVersion: fn.kpt.dev/v1alpha1\nkind: StarlarkRun\nmetadata:\n  name: run\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\nsource: |\n" + program
	}
	running := "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\npipeline:\n  mutators:\n  - image: starlark:v0.5.0\n    configPath: run.yaml\n"
	large := strings.Repeat("0123456789abcdef", 1<<16)
	cases := map[string]struct {
		files map[string]string
		want  []string
	}{
		"PathOut":     {map[string]string{"../x": "a"}, []string{"../x", "below the package"}},
		"Absolute":    {map[string]string{"/etc/passwd": "a"}, []string{"/etc/passwd"}},
		"Binary":      {map[string]string{"x.bin": "a\x00b"}, []string{"x.bin", "binary"}},
		"NoKptfile":   {map[string]string{"Kptfile": ""}, []string{"Kptfile"}},
		"BadKptfile":  {map[string]string{"Kptfile": "a: [b"}, []string{"Kptfile"}},
		"BadYAML":     {map[string]string{"x.yaml": "a: [b"}, []string{"x.yaml"}},
		"Billion":     {map[string]string{"x.yaml": billion}, []string{"x.yaml", "aliases"}},
		"Duplicate":   {map[string]string{"x.yaml": deployment, "y.yaml": deployment}, []string{"x.yaml", "y.yaml"}},
		"SevenMiB":    {map[string]string{"1": large, "2": large, "3": large, "4": large, "5": large, "6": large, "7": large}, []string{"bytes", "at most"}},
		"EndlessLoop": {map[string]string{"Kptfile": running, "run.yaml": starlark("  while True: pass\n")}, []string{"starlark", "killed"}},
		"Gigabyte":    {map[string]string{"Kptfile": running, "run.yaml": starlark("  x = []\n  for i in range(10000000): x.append('x' * 1000000 + str(i))\n")}, []string{"starlark", "killed", "memory"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := e.admin.resources(e.namespace)
			before := must[*porchv1alpha1.PackageRevisionResources](t)(client.Get(t.Context(), pr.Name, metav1.GetOptions{}))
			wanted := before.DeepCopy()
			maps.Copy(wanted.Spec.Resources, tc.files)
			_, err := client.Update(t.Context(), wanted, metav1.UpdateOptions{})
			if err == nil {
				t.Fatal("accepted")
			}
			if !apierrors.IsInvalid(err) {
				t.Errorf("refused as %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			after := must[*porchv1alpha1.PackageRevisionResources](t)(client.Get(t.Context(), pr.Name, metav1.GetOptions{}))
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the draft changed (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("FiftyMiB", func(t *testing.T) {
		client := e.admin.resources(e.namespace)
		wanted := must[*porchv1alpha1.PackageRevisionResources](t)(client.Get(t.Context(), pr.Name, metav1.GetOptions{}))
		for i := range 50 {
			wanted.Spec.Resources[fmt.Sprint(i)] = large
		}
		if _, err := client.Update(t.Context(), wanted, metav1.UpdateOptions{}); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("refused as %v", err)
		}
	})
}

// TestCloneImported: a clone of an address in git or in a registry clones the revision that a
// Repository has imported from it.
func TestCloneImported(t *testing.T) {
	e := newEnvironment(t)
	const address, registry = "https://git.example/packages.git", "registry.example:5000/team"
	for name, spec := range map[string]map[string]any{
		"far":    {"type": "git", "git": map[string]any{"repo": address, "directory": "pkgs"}},
		"images": {"type": "oci", "oci": map[string]any{"registry": registry}},
	} {
		e.apply(t, "config.porch.kpt.dev/v1alpha1", "Repository", "repositories", e.namespace, name, map[string]any{"spec": spec})
	}
	imported := func(repository, lock string) *porchv1alpha1.PackageRevision {
		pr := e.move(t, e.make(t, e.revision(repository, "shop/web", "v1")), published)
		// As the controller of Repositories writes it.
		_, err := e.dynamic.Resource(storev1alpha1.PackageRevisions).Namespace(e.namespace).
			Patch(t.Context(), pr.Name, types.MergePatchType, []byte(`{"status":{"selfLock":`+lock+`}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pr
	}
	inGit := imported("far", `{"type":"git","git":{"repo":"`+address+`","directory":"pkgs/shop/web","ref":"pkgs/shop/web/v1","commit":"0123456789"}}`)
	inRegistry := imported("images", `{"type":"oci","oci":{"image":"`+registry+`/shop/web:v1","digest":"sha256:1"}}`)
	git := func(repo, directory, ref string) porchv1alpha1.UpstreamPackage {
		return porchv1alpha1.UpstreamPackage{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitPackage{Repo: repo, Directory: directory, Ref: ref}}
	}
	oci := func(image string) porchv1alpha1.UpstreamPackage {
		return porchv1alpha1.UpstreamPackage{Type: porchv1alpha1.RepositoryTypeOCI, OCI: &porchv1alpha1.OCIPackage{Image: image}}
	}
	n := 0
	for name, tc := range map[string]struct {
		upstream porchv1alpha1.UpstreamPackage
		want     *porchv1alpha1.PackageRevision
		wantErr  string
	}{
		"Tag":        {git(address, "pkgs/shop/web", "pkgs/shop/web/v1"), inGit, ""},
		"Version":    {git("https://git.example/packages", "/pkgs/shop/web", "v1"), inGit, ""},
		"Newest":     {git(address, "pkgs/shop/web", ""), inGit, ""},
		"Commit":     {git(address, "pkgs/shop/web", "0123456"), inGit, ""},
		"Image":      {oci(registry + "/shop/web:v1"), inRegistry, ""},
		"Branch":     {git(address, "pkgs/shop/web", "main"), nil, `git.ref: Invalid value: "main": must be a tag or a commit, not a branch`},
		"OtherTag":   {git(address, "pkgs/shop/web", "v9"), nil, "Repository far has not imported this revision"},
		"Outside":    {git(address, "other/web", "v1"), nil, "no Repository in namespace"},
		"OtherRepo":  {git("https://git.example/other.git", "web", "v1"), nil, "create one (config.porch.kpt.dev)"},
		"OtherImage": {oci(registry + "/shop/web:v2"), nil, "Repository images has not imported this revision"},
	} {
		t.Run(name, func(t *testing.T) {
			n++
			pr := e.revision("downstream", fmt.Sprint("p", n), "v1")
			pr.Spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{Upstream: tc.upstream}}}
			made, err := e.admin.create(t.Context(), pr)
			if tc.wantErr != "" {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("%v; want it to say %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == inGit && (made.Status.UpstreamLock == nil || made.Status.UpstreamLock.Git == nil || made.Status.UpstreamLock.Git.Commit != "0123456789") {
				t.Errorf("upstreamLock %+v", made.Status.UpstreamLock)
			}
			// It is protected as any upstream is.
			e.move(t, tc.want, porchv1alpha1.LifecycleDeletionProposed)
			if err := e.admin.revisions(e.namespace).Delete(t.Context(), tc.want.Name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("the upstream can be deleted: %v", err)
			}
			restored := must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), tc.want.Name, metav1.GetOptions{}))
			restored.Spec.Lifecycle = published
			must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Update(t.Context(), restored, metav1.UpdateOptions{}))
		})
	}
}

// TestBadRevisions: the error of each mistake names its field and what to do.
func TestBadRevisions(t *testing.T) {
	e := newEnvironment(t)
	taken := e.move(t, e.make(t, e.revision("upstream", "there/web", "v1")), published)
	unpublished := e.make(t, e.revision("upstream", "draft", "v1"))
	cases := map[string]struct {
		change func(pr *porchv1alpha1.PackageRevision)
		want   string
	}{
		"Name":       {func(pr *porchv1alpha1.PackageRevision) { pr.Name = "other" }, `metadata.name: Invalid value: "other"`},
		"Repository": {func(pr *porchv1alpha1.PackageRevision) { pr.Spec.RepositoryName = "none" }, `spec.repository: Not found: "none"`},
		"Dots":       {func(pr *porchv1alpha1.PackageRevision) { pr.Spec.PackageName = "a.b" }, "spec.packageName"},
		"Above":      {func(pr *porchv1alpha1.PackageRevision) { pr.Spec.PackageName = "there" }, taken.Name},
		"Below":      {func(pr *porchv1alpha1.PackageRevision) { pr.Spec.PackageName = "there/web/x/y" }, taken.Name},
		"Lifecycle":  {func(pr *porchv1alpha1.PackageRevision) { pr.Spec.Lifecycle = proposed }, "spec.lifecycle"},
		"Latest": {func(pr *porchv1alpha1.PackageRevision) {
			pr.Labels = map[string]string{porchv1alpha1.LatestRevisionLabel: "true"}
		}, "the server sets this label"},
		"TwoTasks": {func(pr *porchv1alpha1.PackageRevision) { pr.Spec.Tasks = make([]porchv1alpha1.Task, 2) }, "spec.tasks: Too many"},
		"NoSource": {func(pr *porchv1alpha1.PackageRevision) { pr.Spec.Tasks = []porchv1alpha1.Task{task("clone", "none")} }, `upstreamRef.name: Not found: "none"`},
		"EditOther": {func(pr *porchv1alpha1.PackageRevision) {
			pr.Spec.Tasks = []porchv1alpha1.Task{task("edit", taken.Name)}
		}, "is one of package \"there/web\""},
		"EditDraft": {func(pr *porchv1alpha1.PackageRevision) {
			pr.Spec.Tasks = []porchv1alpha1.Task{task("edit", unpublished.Name)}
		}, "must be a published revision, but its lifecycle is Draft"},
		"CloneInto": {func(pr *porchv1alpha1.PackageRevision) {
			pr.Spec.PackageName = "draft"
			pr.Spec.Tasks = []porchv1alpha1.Task{task("clone", taken.Name)}
		}, "already exists in repo"},
		"CloneFromGit": {func(pr *porchv1alpha1.PackageRevision) {
			pr.Spec.Tasks = []porchv1alpha1.Task{{Type: "clone", Clone: &porchv1alpha1.PackageCloneTaskSpec{Upstream: porchv1alpha1.UpstreamPackage{Git: &porchv1alpha1.GitPackage{Repo: "https://example.com/x"}}}}}
		}, "create one (config.porch.kpt.dev)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pr := e.revision("upstream", "new", "v2")
			tc.change(pr)
			_, err := e.admin.create(t.Context(), pr)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v; want it to say %q", err, tc.want)
			}
		})
	}
}

// TestTwoWriters of one draft: one of them gets a conflict. Two approvers of one package: each
// revision gets a number of its own.
func TestTwoWriters(t *testing.T) {
	e := newEnvironment(t)
	second := newUser(t, e.start(t, "--leader-elect=false").config)
	pr := e.make(t, e.revision("upstream", "web", "v1"))
	prr := must[*porchv1alpha1.PackageRevisionResources](t)(e.admin.resources(e.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{}))
	results := make([]error, 2)
	var writing sync.WaitGroup
	for i, u := range []*user{e.admin, second} {
		writing.Go(func() {
			mine := prr.DeepCopy()
			mine.Spec.Resources["x.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: n%d\n", i)
			_, results[i] = u.resources(e.namespace).Update(t.Context(), mine, metav1.UpdateOptions{})
		})
	}
	writing.Wait()
	if (results[0] == nil) == (results[1] == nil) || !apierrors.IsConflict(results[0]) && !apierrors.IsConflict(results[1]) {
		t.Errorf("two writers: %v; %v", results[0], results[1])
	}

	const many = 8
	first := e.move(t, e.make(t, e.revision("upstream", "many", "first")), published)
	waiting := make([]*porchv1alpha1.PackageRevision, many)
	for i := range waiting {
		waiting[i] = e.move(t, e.make(t, e.revision("upstream", "many", fmt.Sprintf("w%d", i)), task(porchv1alpha1.TaskTypeEdit, first.Name)), proposed)
	}
	numbers := make([]int, many)
	for i, pr := range waiting {
		u := []*user{e.admin, second}[i%2]
		writing.Go(func() {
			testenv.Eventually(t, testTimeout, func() (bool, string) {
				now, err := u.revisions(e.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{})
				if err != nil {
					return false, err.Error()
				}
				now, err = u.approve(t.Context(), at(now, published))
				if err != nil {
					return false, err.Error()
				}
				numbers[i] = now.Spec.Revision
				return true, ""
			})
		})
	}
	writing.Wait()
	slices.Sort(numbers)
	if diff := cmp.Diff([]int{2, 3, 4, 5, 6, 7, 8, 9}, numbers); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	e.checkConsistent(t, false)
}
