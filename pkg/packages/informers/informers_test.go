package informers_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/packages/informers"
)

func add(t *testing.T, informer cache.SharedIndexInformer, objects ...any) {
	t.Helper()
	for _, obj := range objects {
		if err := informer.GetIndexer().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
}

func named[T metav1.Object](all []T) []string {
	var names []string
	for _, obj := range all {
		names = append(names, obj.GetNamespace()+"/"+obj.GetName())
	}
	slices.Sort(names)
	return names
}

func revision(namespace, name, repository, pkg string, number int, owner types.UID) *storev1alpha1.PackageRevision {
	r := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	r.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: repository, PackageName: pkg, WorkspaceName: "w", Revision: number, Lifecycle: porchv1alpha1.LifecycleDraft}
	if number > 0 {
		r.Spec.Lifecycle = porchv1alpha1.LifecyclePublished
	}
	r.Content.Digest = "sha256:" + name
	if owner != "" {
		r.Served.OwnerReferences = []metav1.OwnerReference{{UID: owner}}
	}
	return r
}

func TestIndexes(t *testing.T) {
	i, err := informers.New(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	exported := revision("a", "exported", "catalog", "base", 1, "")
	exported.Status.SelfLock = &porchv1alpha1.Locator{Git: &porchv1alpha1.GitLock{Repo: "https://x", Ref: "base/v1", Commit: "c"}}
	again := revision("a", "again", "twice", "base", 1, "")
	again.Status.SelfLock = exported.Status.SelfLock
	again.Content.Upstream = exported.Name
	add(t, i.Revisions, exported, again, revision("a", "draft", "edge", "base", 0, "pv-1"), revision("a", "nested", "edge", "base/sub", 0, ""),
		revision("b", "draft", "edge", "base", 0, ""))
	pv := &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "pv", UID: "pv-1", OwnerReferences: []metav1.OwnerReference{{UID: "set-1", Controller: new(true)}, {UID: "other"}},
	}}
	pv.Spec.Upstream = &configv1alpha1.Upstream{Repo: "catalog", Package: "base"}
	pv.Spec.Downstream = &configv1alpha1.Downstream{Repo: "edge", Package: "base"}
	pv.Status.Injected = []configv1alpha1.InjectedObject{{Version: "v1", Kind: "ConfigMap", Name: "settings"}}
	add(t, i.Variants, pv, &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "empty"}})
	add(t, i.Repositories, &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "edge"}})
	add(t, i.VariantSets, &configv1alpha2.PackageVariantSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "set"}})

	locks := variant.Locks(exported)
	for name, c := range map[string]struct{ got, want any }{
		"revisions of a package":          {named(i.RevisionsOf("a", variant.Package{Repository: "edge", Name: "base"})), []string{"a/draft"}},
		"revisions in a repository":       {named(i.RevisionsIn("a", "edge")), []string{"a/draft", "a/nested"}},
		"revisions of an owner":           {named(i.RevisionsOwnedBy("pv-1")), []string{"a/draft"}},
		"revisions from an upstream":      {named(i.RevisionsFrom(exported)), []string{"a/again"}},
		"revisions from no upstream":      {named(i.RevisionsFrom(again)), []string(nil)},
		"origin, where it lies here":      {i.Origin("a", locks[0]), exported},
		"origin, the first of two":        {i.Origin("a", locks[1]), again},
		"origin, in no other namespace":   {i.Origin("b", locks[0]), (*storev1alpha1.PackageRevision)(nil)},
		"all variants":                    {named(i.Variants.All()), []string{"a/empty", "a/pv"}},
		"revisions in a namespace":        {named(i.Revisions.In("b")), []string{"b/draft"}},
		"variants from an upstream":       {named(i.VariantsFrom("a", variant.Package{Repository: "catalog", Name: "base"})), []string{"a/pv"}},
		"variants of a downstream":        {named(i.VariantsOf("a", variant.Package{Repository: "edge", Name: "base"})), []string{"a/pv"}},
		"variants in a repository":        {named(i.VariantsIn("a", "edge")), []string{"a/pv"}},
		"variants with something to look": {named(i.VariantsInjecting("", "ConfigMap", "settings")), []string{"a/pv"}},
		"a variant is there":              {i.VariantExists("pv-1"), true},
		"a variant is not there":          {i.VariantExists("pv-2"), false},
		"by name":                         {i.Variants.Get("a", "pv"), pv},
		"no such name":                    {i.Variants.Get("b", "pv") == nil && i.VariantSets.Get("a", "pv") == nil && i.Revisions.Get("a", "pv") == nil, true},
		"the others by name":              {i.Repositories.Get("a", "edge") != nil && i.VariantSets.Get("a", "set") != nil && i.Revisions.Get("a", "draft") != nil, true},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if upgrade.Locate(again) != again.Status.SelfLock {
		t.Fatal("the lock of what was exported is another")
	}
}
