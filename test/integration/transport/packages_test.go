package transport

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
)

const kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: web, annotations: {config.kubernetes.io/local-config: 'true'}}\n"

func (e *environment) files() *content.Store {
	e.t.Helper()
	files, err := content.New(e.fleet.Config(e.t, e.space), clock.RealClock{})
	if err != nil {
		e.t.Fatal(err)
	}
	return files
}

// revision makes a revision of the test's package "web", as package-server would, and returns how a
// Binding lists it.
func (e *environment) revision(number int, lifecycle string, files kpt.Files) map[string]any {
	e.t.Helper()
	digest, err := e.files().Put(e.t.Context(), files)
	if err != nil {
		e.t.Fatal(err)
	}
	name := fmt.Sprintf("site.%s.v%d", e.name, number)
	spec := map[string]any{"packageName": e.name, "repository": "site", "workspaceName": fmt.Sprintf("v%d", number), "lifecycle": lifecycle}
	if lifecycle == "Published" || lifecycle == "DeletionProposed" {
		spec["revision"] = int64(number)
	}
	e.create(storev1alpha1.PackageRevisions, e.name, name, map[string]any{"spec": spec, "content": map[string]any{"digest": digest, "files": int64(len(files))}})
	return map[string]any{
		"namespace": e.name, "repository": "site", "package": e.name, "revision": int64(number), "name": name, "digest": digest,
	}
}

func packageSpec(destinations []string, packages ...any) map[string]any {
	s := spec(destinations)
	s["workload"] = map[string]any{"packages": packages}
	return s
}

func (e *environment) bindPackages(destinations []string, packages ...any) *controlv1alpha1.Binding {
	e.t.Helper()
	e.create(bindings, "", e.name, map[string]any{"spec": packageSpec(destinations, packages...)})
	return e.binding()
}

func (e *environment) rebindPackages(destinations []string, packages ...any) {
	e.t.Helper()
	raw, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": packageSpec(destinations, packages...)}})
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.wds.Resource(bindings).Patch(e.t.Context(), e.name, types.JSONPatchType, raw, metav1.PatchOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// packaged returns a ConfigMap as the file of a package.
func packaged(namespace, name, content string) string {
	if namespace != "" {
		namespace = ", namespace: " + namespace
	}
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s%s}\ndata: {content: %q}\n", name, namespace, content)
}

func (e *environment) line(name, content string) string {
	return fmt.Sprintf("ConfigMap %s/%s: %s", e.name, name, content)
}

// TestPackage follows a package through its life, and counts what each step costs.
func TestPackage(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	c := e.start(roomy)
	namespace := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", e.name)
	v1 := e.revision(1, "Published", kpt.Files{
		"Kptfile": kptfile, "package-context.yaml": packaged("", "kptfile.kpt.dev", "x"), "README.md": "# web",
		"namespace.yaml": namespace, "a.yaml": packaged(e.name, "a", "1") + "---\n" + packaged(e.name, "b", "1"), "c.yaml": packaged("", "c-"+e.name, "1"),
		"local.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: local, annotations: {config.kubernetes.io/local-config: 'true'}}\n",
	})
	made := func(want map[string]int) {
		t.Helper()
		e.applied()
		got := c.made()
		for key := range got {
			if !strings.Contains(key, "manifestworks") && !strings.Contains(key, "contentchunks") && !strings.Contains(key, "packagerevisions") {
				delete(got, key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		c.reset()
	}

	c.reset()
	e.bindPackages(sites, v1)
	for _, site := range sites {
		e.expectContents(site, "ConfigMap default/c-"+e.name+": 1", e.line("a", "1"), e.line("b", "1"), "Namespace "+e.name)
	}
	// Each of the two sites gets a work for the Namespace and one for the rest; the package is read
	// once for both.
	made(map[string]int{"wds1 get packagerevisions": 1, "wds1 get contentchunks": 1, "its1 post manifestworks": 4})
	before := e.works(sites[0])

	v2 := e.revision(2, "Published", kpt.Files{"Kptfile": kptfile, "namespace.yaml": namespace, "a.yaml": packaged(e.name, "a", "1") + "---\n" + packaged(e.name, "b", "2")})
	e.rebindPackages(sites, v2)
	for _, site := range sites {
		e.expectContents(site, e.line("a", "1"), e.line("b", "2"), "Namespace "+e.name)
	}
	made(map[string]int{"wds1 get packagerevisions": 1, "wds1 get contentchunks": 1, "its1 patch manifestworks": 2})
	for i, work := range e.works(sites[0]) {
		if work.UID != before[i].UID {
			t.Errorf("the new revision came in another work than %s", before[i].Name)
		}
	}
	b := e.applied()
	if b.Status.Rollup.AppliedOf != "6/6" || b.Status.Rollup.Objects != 3 {
		t.Errorf("rollup %+v", b.Status.Rollup)
	}

	e.settled()
	c.stop()
	c = e.start(roomy)
	testenv.Eventually(t, patience, func() (bool, string) {
		return c.made()["wds1 get contentchunks"] > 0, "the content was not read yet"
	})
	quiet(t, c)
	if n := c.made()["wds1 get contentchunks"]; n != 1 {
		t.Errorf("after the restart, content was read %d times, want once", n)
	}

	e.delete(bindings, "", e.name)
	for _, site := range sites {
		e.expectContents(site)
	}
	testenv.Eventually(t, patience, func() (bool, string) { b := e.binding(); return b == nil, fmt.Sprint(statusOf(b)) })
}

// TestOnlyPublishedTravels attacks: Bindings that name what is not published, or not what they say
// it is, written by somebody else. Nothing of it is delivered, and what was delivered stays, over a
// restart, too.
func TestOnlyPublishedTravels(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	good := e.revision(1, "Published", kpt.Files{"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "good"), "b.yaml": packaged(e.name, "b", "good")})
	bad := kpt.Files{"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "bad"), "c.yaml": packaged(e.name, "c", "bad")}
	draft, proposed := e.revision(2, "Draft", bad), e.revision(3, "Proposed", bad)
	proposedDeletion := e.revision(4, "DeletionProposed", kpt.Files{"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "last")})
	with := func(of map[string]any, pairs ...any) map[string]any {
		changed := maps.Clone(of)
		for i := 0; i < len(pairs); i += 2 {
			changed[pairs[i].(string)] = pairs[i+1]
		}
		return changed
	}
	e.bindPackages(sites, good)
	want := []string{e.line("a", "good"), e.line("b", "good")}
	e.expectContents(sites[0], want...)
	for name, attack := range map[string]struct {
		clause map[string]any
		says   string
	}{
		"Draft":            {draft, "is Draft: only published revisions are delivered"},
		"Proposed":         {proposed, "is Proposed: only published revisions are delivered"},
		"DigestOfDraft":    {with(good, "digest", draft["digest"]), "has the digest"},
		"NoSuchRevision":   {with(good, "name", "site.none.v9"), "its revision cannot be read"},
		"NoSuchContent":    {with(good, "digest", "sha256:"+strings.Repeat("0", 64)), "has the digest"},
		"AnotherPackage":   {with(good, "package", "other"), "is revision 1 of package"},
		"AnotherOfThatRev": {with(good, "revision", int64(7)), "is revision 1 of package"},
	} {
		t.Run(name, func(t *testing.T) {
			e.rebindPackages(sites, attack.clause)
			b := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
			if len(b.Status.Errors) != 1 || !strings.Contains(b.Status.Errors[0], attack.says) {
				t.Errorf("errors %q, want one that says %q", b.Status.Errors, attack.says)
			}
			if got := e.contents(sites[0]); !slices.Equal(got, want) {
				t.Errorf("the mailbox holds %q, want %q", got, want)
			}
		})
	}
	e.rebindPackages(sites, draft)
	e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
	e.settled()
	c.stop()
	c = e.start(roomy)
	quiet(t, c)
	e.expectContents(sites[0], want...)

	// What is approved after all travels without anybody touching the Binding.
	e.patch(storev1alpha1.PackageRevisions, e.name, draft["name"].(string), `{"spec":{"lifecycle":"Published","revision":2}}`)
	e.expectContents(sites[0], e.line("a", "bad"), e.line("c", "bad"))
	e.rebindPackages(sites, proposedDeletion)
	e.expectContents(sites[0], e.line("a", "last"))
	e.applied()
}

// TestUnreadableContentHolds: what cannot be read changes nothing, and says so; once it can be, it
// comes.
func TestUnreadableContentHolds(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	v1 := e.revision(1, "Published", kpt.Files{"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "1"), "b.yaml": packaged(e.name, "b", "1")})
	files := kpt.Files{"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "2")}
	v2 := e.revision(2, "Published", files)
	chunks, err := e.wds.Resource(storev1alpha1.ContentChunks).List(t.Context(), listAll)
	if err != nil {
		t.Fatal(err)
	}
	for i := range chunks.Items {
		if chunks.Items[i].Object["digest"] == v2["digest"] {
			e.delete(storev1alpha1.ContentChunks, "", chunks.Items[i].GetName())
		}
	}
	e.bindPackages(sites, v1)
	want := []string{e.line("a", "1"), e.line("b", "1")}
	e.expectContents(sites[0], want...)
	e.applied()
	e.rebindPackages(sites, v2)
	for range 2 {
		b := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
		if len(b.Status.Errors) != 1 || !strings.Contains(b.Status.Errors[0], "its content cannot be read") {
			t.Errorf("errors %q", b.Status.Errors)
		}
		if b.Status.Rollup.AppliedOf != "0/?" || b.Status.Rollup.HealthyOf != "0/?" {
			t.Errorf("rollup %+v: nothing is known of what should be there", b.Status.Rollup)
		}
		e.expectContents(sites[0], want...)
		e.settled()
		c.stop()
		c = e.start(roomy)
		quiet(t, c)
	}
	if _, err := e.files().Put(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	e.expectContents(sites[0], e.line("a", "2"))
	e.applied()
}

// TestInvalidFilesHold: an object that is wrong stays as it was delivered, the others go on; a file
// that cannot be read takes nothing away.
func TestInvalidFilesHold(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	v1 := e.revision(1, "Published", kpt.Files{"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "1"), "b.yaml": packaged(e.name, "b", "1"), "c.yaml": packaged(e.name, "c", "1")})
	v2 := e.revision(2, "Published", kpt.Files{
		"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "2"),
		"b.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: %s, labels: {live: yes}}\n", e.name),
	})
	v3 := e.revision(3, "Published", kpt.Files{"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "3"), "b.yaml": "a: [\n"})
	e.bindPackages(sites, v1)
	e.expectContents(sites[0], e.line("a", "1"), e.line("b", "1"), e.line("c", "1"))
	// The copy of b in the cluster has former content.
	errors := func(applied string, want ...string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			b := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
			same := slices.EqualFunc(b.Status.Errors, want, strings.Contains)
			return same && b.Status.Rollup.AppliedOf == applied && b.Status.Rollup.HealthyOf == applied,
				fmt.Sprintf("errors %q, rollup %+v; want %q, applied %s", b.Status.Errors, b.Status.Rollup, want, applied)
		})
	}
	e.rebindPackages(sites, v2)
	e.expectContents(sites[0], e.line("a", "2"), e.line("b", "1"))
	errors("1/2", `b.yaml: cannot be delivered: metadata.labels["live"] is no string`)
	e.rebindPackages(sites, v3)
	e.expectContents(sites[0], e.line("a", "3"), e.line("b", "1"))
	errors("1/?", "b.yaml: document 1: is not valid YAML", "until the files are repaired, nothing of the package is removed from clusters")
	v4 := e.revision(4, "Published", kpt.Files{
		"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "4"), "b.yaml": packaged(e.name, "b", "4"), "twice.yaml": packaged(e.name, "a", "other"),
	})
	e.rebindPackages(sites, v4)
	e.expectContents(sites[0], e.line("a", "3"), e.line("b", "4"))
	errors("1/2", "twice.yaml")
}

// TestLargePackage: 5 MiB go in several works, and a change of one object changes one of them.
func TestLargePackage(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	files := kpt.Files{"Kptfile": kptfile}
	const objects = 200
	for i := range objects {
		files[fmt.Sprintf("%d.yaml", i)] = packaged(e.name, fmt.Sprintf("o%d", i), strings.Repeat("x", 26<<10))
	}
	if size := files.Size(); size < 5<<20 {
		t.Fatalf("the package has %d bytes", size)
	}
	e.bindPackages(sites, e.revision(1, "Published", files))
	b := e.applied()
	works := e.works(sites[0])
	if b.Status.Rollup.AppliedOf != fmt.Sprintf("%d/%d", objects, objects) || len(works) < 11 || len(works) > 13 {
		t.Fatalf("%d works, rollup %+v", len(works), b.Status.Rollup)
	}
	c.reset()
	files["7.yaml"] = packaged(e.name, "o7", "small")
	e.rebindPackages(sites, e.revision(2, "Published", files))
	e.applied()
	if n := c.made()["its1 patch manifestworks"]; n != 1 {
		t.Errorf("%d works were changed, want one", n)
	}
	if after := e.works(sites[0]); len(after) != len(works) {
		t.Errorf("%d works, then %d", len(works), len(after))
	}
}

// stakesOf returns how a Binding has the ConfigMap "one" in a mailbox, as stake does.
func (e *environment) stakesOf(mailbox string, binding types.UID) string {
	e.t.Helper()
	var stakes []string
	for _, work := range e.works(mailbox) {
		if work.DeletionTimestamp != nil || work.Labels[controlv1alpha1.LabelBindingUID] != string(binding) {
			continue
		}
		for _, line := range describe(e.t, &work) {
			_, content, _ := strings.Cut(line, ": ")
			how := "delivers"
			for _, c := range work.Spec.ManifestConfigs {
				switch {
				case c.ResourceIdentifier.Name != "one":
				case c.UpdateStrategy.Type == workv1.UpdateStrategyTypeReadOnly:
					how = "claims"
				case work.Spec.DeleteOption != nil && work.Spec.DeleteOption.SelectivelyOrphan != nil:
					how = "releases"
				}
			}
			if strings.Contains(line, "/one") {
				stakes = append(stakes, how+" "+content)
			}
		}
	}
	return strings.Join(stakes, ", ")
}

func (e *environment) expectStakesOf(mailbox string, binding types.UID, want string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		got := e.stakesOf(mailbox, binding)
		return got == want, fmt.Sprintf("%q, want %q; status %+v", got, want, statusOf(e.binding()))
	})
}

// TestPackageMeetsObject: a package and the WDS have the same object with different content. The
// first one delivers it, and both report the conflict. When the first one releases it, the other
// one delivers it without a deletion in between.
func TestPackageMeetsObject(t *testing.T) {
	for name, packageFirst := range map[string]bool{"PackageFirst": true, "ObjectFirst": false} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			sites := e.clusters(1)
			c := e.start(roomy)
			other := &environment{t: t, fleet: e.fleet, wds: e.wds, its: e.its, space: e.space, name: e.name + "-p", agent: e.agent}
			e.create(namespaces, "", other.name, nil)
			one := e.configMap("one", "object")
			v1 := other.revision(1, "Published", kpt.Files{"Kptfile": kptfile, "one.yaml": packaged(e.name, "one", "package")})
			bind := map[bool]func() types.UID{
				true:  func() types.UID { return other.bindPackages(sites, v1).UID },
				false: func() types.UID { return e.bind(sites, one).GetUID() },
			}
			content := map[bool]string{true: "package", false: "object"}
			of := map[bool]*environment{true: other, false: e}
			first, second := of[packageFirst], of[!packageFirst]

			firstUID := bind[packageFirst]()
			first.applied()
			e.expectOlder(sites[0])
			secondUID := bind[!packageFirst]()
			e.expectStakesOf(sites[0], secondUID, "claims "+content[!packageFirst])
			e.expectStakesOf(sites[0], firstUID, "delivers "+content[packageFirst])
			source := map[bool]string{true: fmt.Sprintf("package %s/site/%s of this WDS", other.name, other.name), false: "objects of this WDS"}
			const way = "make the contents equal, or remove the object from one of the two"
			object := "configmaps " + e.name + "/one"
			second.expectErrors(fmt.Sprintf("%s: %s: %s (Binding %q) delivers this object, with different content; this Binding does not deliver it: %s",
				sites[0], object, source[packageFirst], first.name, way))
			first.expectErrors(fmt.Sprintf("%s: %s: %s (Binding %q) wants to deliver this object too, with different content; this Binding delivers it: %s",
				sites[0], object, source[!packageFirst], second.name, way))
			second.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonConflict)

			e.settled()
			other.settled()
			c.stop()
			c = e.start(roomy)
			quiet(t, c)

			// While the cluster does not answer, the second one must not deliver.
			e.agent.set(func(agent *agent) { agent.offline[sites[0]] = true })
			e.delete(bindings, "", first.name)
			e.expectStakesOf(sites[0], firstUID, "releases "+content[packageFirst])
			if got := e.stakesOf(sites[0], secondUID); got != "claims "+content[!packageFirst] {
				t.Errorf("the second one %s before the first one has released the object", got)
			}
			e.agent.set(func(agent *agent) { agent.offline[sites[0]] = false })
			e.expectStakesOf(sites[0], firstUID, "")
			e.expectStakesOf(sites[0], secondUID, "delivers "+content[!packageFirst])
			second.applied()
			second.expectErrors()
		})
	}
}

// TestCustomTransformOfPackages: what CustomTransforms remove is removed from objects of packages,
// and comes back.
func TestCustomTransformOfPackages(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	e.bindPackages(sites, e.revision(1, "Published", kpt.Files{"Kptfile": kptfile, "a.yaml": packaged(e.name, "a", "1")}))
	e.expectContents(sites[0], e.line("a", "1"))
	e.applied()
	c.reset()
	transform := e.create(customTransforms, "", e.name, map[string]any{"spec": map[string]any{"apiGroup": "", "resource": "configmaps", "remove": []any{"$.data.content"}}})
	e.expectContents(sites[0], "ConfigMap "+e.name+"/a")
	e.delete(customTransforms, "", transform.GetName())
	e.expectContents(sites[0], e.line("a", "1"))
	if n := c.made()["its1 patch "+ocm.ManifestWorks.Resource]; n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
}
