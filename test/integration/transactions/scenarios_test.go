package transactions

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// holders returns who held the Lock, one after the other, until the test ends.
func (h *hub) holders(t *testing.T) (all func() []string) {
	t.Helper()
	watch, err := h.Client.Resource(pkgv1beta1.Locks).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var mutex sync.Mutex
	var seen []string
	go func() {
		for event := range watch.ResultChan() {
			lock, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			mutex.Lock()
			seen = append(seen, lock.GetAnnotations()[pkgv1beta1.AnnotationCurrentTransaction])
			mutex.Unlock()
		}
	}()
	t.Cleanup(watch.Stop)
	return func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return append([]string(nil), seen...)
	}
}

// TestSerialized: installations that are requested at the same time run one after the other. The
// Lock passes from one to the next only when it was free between.
func TestSerialized(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	const count = 6
	for n := range count {
		h.push(t, fmt.Sprintf("org/p%d", n), "v1.0.0", testxpkg.Provider(fmt.Sprintf("p%d", n), testxpkg.CRD(fmt.Sprintf("p%d.example.org", n), "Thing", "x")))
	}
	holders := h.holders(t)
	h.run(t)
	for n := range count {
		h.apply(t, "Provider", fmt.Sprintf("p%d", n), fmt.Sprintf("org/p%d", n), "v1.0.0")
	}
	numbers := map[int64]string{}
	for n := range count {
		tx := h.becomes(t, fmt.Sprintf("p%d", n), "True", "TransactionComplete")
		if other, found := numbers[tx.Status.TransactionNumber]; found {
			t.Errorf("%s and %s have number %d", other, tx.Name, tx.Status.TransactionNumber)
		}
		numbers[tx.Status.TransactionNumber] = tx.Name
		if tx.Status.TransactionNumber < 1 || tx.Status.TransactionNumber > count {
			t.Errorf("%s has number %d", tx.Name, tx.Status.TransactionNumber)
		}
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		all := holders()
		return len(all) > 0 && all[len(all)-1] == "" && len(h.lock(t).Packages) == count, fmt.Sprint(all)
	})
	held := 0
	before := ""
	for _, holder := range holders() {
		if holder != "" && before != "" && holder != before {
			t.Errorf("the Lock passed from %s to %s", before, holder)
		}
		if holder != "" && holder != before {
			held++
		}
		before = holder
	}
	if held < count {
		t.Errorf("%d transactions held the Lock", held)
	}
}

// TestHistory: of twelve installations ten Transactions stay. Kubernetes' garbage collector deletes
// nothing but what is not needed any more.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
	const count = 12
	for n := range count {
		h.push(t, "org/s3", fmt.Sprintf("v1.%d.0", n), testxpkg.Requires(testxpkg.Provider("s3", bucket("region", fmt.Sprintf("field%d", n))), pkgv1.KindProvider, h.registry.Source("org/family"), "*"))
	}
	h.run(t)
	var uid types.UID
	for n := range count {
		h.apply(t, "Provider", "s3", "org/s3", fmt.Sprintf("v1.%d.0", n))
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			tx := h.of(t, "s3")
			return tx != nil && tx.Labels[pkgv1.LabelGeneration] == fmt.Sprint(n+1) && transaction.Succeeded(tx), fmt.Sprintf("version %d is not installed", n)
		})
		found := h.Get(t, crds, "", "buckets.s3.aws.example.org").GetUID()
		if uid != "" && found != uid {
			t.Fatalf("installation %d created the CustomResourceDefinition again", n)
		}
		uid = found
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		n := len(h.transactions(t))
		return n == pkgv1beta1.DefaultTransactionHistoryLimit, fmt.Sprintf("%d transactions", n)
	})
	for name, tx := range h.transactions(t) {
		if tx.Status.TransactionNumber <= count-pkgv1beta1.DefaultTransactionHistoryLimit {
			t.Errorf("%s with number %d stayed", name, tx.Status.TransactionNumber)
		}
	}
	// The garbage collector has had time to notice, when it has deleted an object that only the
	// oldest transaction owned.
	last := h.of(t, "s3")
	gone := h.Create(t, pkgv1beta1.ImageConfigs, "", "canary", map[string]any{"spec": map[string]any{"matchImages": []any{map[string]any{"prefix": "x"}}}})
	gone.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "pkg.crossplane.io/v1alpha1", Kind: "Transaction", Name: "collected", UID: "collected"}})
	if _, err := h.Client.Resource(pkgv1beta1.ImageConfigs).Update(t.Context(), gone, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := h.Client.Resource(pkgv1beta1.ImageConfigs).Get(t.Context(), "canary", getOptions)
		return err != nil, "the garbage collector is not running"
	})
	if found := h.Get(t, crds, "", "buckets.s3.aws.example.org"); found.GetUID() != uid || found.GetDeletionTimestamp() != nil {
		t.Error("the CustomResourceDefinition is gone")
	}
	for _, name := range []string{"s3", "org-family"} {
		if found := h.Get(t, pkgv1.Providers, "", name); found.GetDeletionTimestamp() != nil {
			t.Errorf("package %s is being deleted", name)
		}
	}
	revisions := testenv.List[pkgv1.ProviderRevision](t, h.Client.Resource(pkgv1.ProviderRevisions), metav1.ListOptions{LabelSelector: "pkg.crossplane.io/package=s3"})
	if len(revisions) != 2 { // the active one, and revisionHistoryLimit
		t.Errorf("%d revisions", len(revisions))
	}
	if !transaction.Succeeded(last) {
		t.Errorf("%+v", last.Status)
	}
}

// TestSharedDependency: two packages pin the same dependency. Neither can be updated alone; when
// both are to be, one transaction updates both.
func TestSharedDependency(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	shared := h.registry.Source("org/shared")
	for _, tag := range []string{"v1.0.0", "v2.0.0"} {
		h.push(t, "org/shared", tag, testxpkg.Configuration("shared"))
		for _, name := range []string{"a", "b"} {
			h.push(t, "org/"+name, tag, testxpkg.Requires(testxpkg.Configuration(name), pkgv1.KindConfiguration, shared, "="+tag))
		}
	}
	h.run(t)
	for _, name := range []string{"a", "b"} {
		h.apply(t, "Configuration", name, "org/"+name, "v1.0.0")
		h.becomes(t, name, "True", "TransactionComplete")
	}
	h.apply(t, "Configuration", "a", "org/a", "v2.0.0")
	alone := h.becomes(t, "a", "False", "ValidationFailed")
	message := conditionOf(t, alone.Status.Conditions, "Validated", "VersionConflict")
	for _, want := range []string{"a v2.0.0", "b v1.0.0", "shared", "=v2.0.0", "=v1.0.0"} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q does not say %q", message, want)
		}
	}
	h.apply(t, "Configuration", "b", "org/b", "v2.0.0")
	h.becomes(t, "b", "True", "TransactionComplete")
	for _, locked := range h.lock(t).Packages {
		if !strings.HasPrefix(locked.Version, "v2.0.0@") {
			t.Errorf("%s is at %s", locked.Source, locked.Version)
		}
	}
	h.becomes(t, "a", "True", "TransactionComplete") // nothing is left to do
}

// TestTagIsMoved: what was validated is installed, although its tag points to something else since.
func TestTagIsMoved(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	pinned := h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region")))
	var once sync.Once
	h.Config = testenv.AfterWrite(h.Config, "PUT transactions/status", func() {
		tx := h.of(t, "s3")
		if meta.IsStatusConditionTrue(tx.Status.Conditions, "Validated") {
			once.Do(func() { h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", bucket("other"))) })
		}
	})
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	moved := true
	once.Do(func() { moved = false })
	if !moved {
		t.Fatal("the tag was not moved between validation and installation")
	}
	if version := h.lock(t).Packages[0].Version; version != "v1.0.0@"+pinned {
		t.Errorf("the Lock has %s", version)
	}
	schema, _, _ := unstructured.NestedSlice(h.Get(t, crds, "", "buckets.s3.aws.example.org").Object, "spec", "versions")
	if text := fmt.Sprint(schema); !strings.Contains(text, "region") || strings.Contains(text, "other") {
		t.Errorf("installed %s", text)
	}
}

// TestRetryLimit: a registry that does not answer is no missing dependency. After the last try the
// next transaction proceeds at once, and a user who deletes the failed one starts it again.
func TestRetryLimit(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/good", "v1.0.0", testxpkg.Provider("good"))
	h.push(t, "org/bad", "v1.0.0", testxpkg.Provider("bad"))
	h.registry.Fail(http.StatusServiceUnavailable, "/v2/org/bad/")
	h.run(t)
	h.Apply(t, `{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: once}, spec: {change: Install, retryLimit: 1, install: {package: {
		apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: bad}, spec: {package: "`+h.registry.Source("org/bad")+`:v1.0.0"}}}}}`)
	h.apply(t, "Provider", "good", "org/good", "v1.0.0")
	h.becomes(t, "good", "True", "TransactionComplete")
	failed := func() *pkgv1alpha1.Transaction {
		return testenv.Get[pkgv1alpha1.Transaction](t, h.Client.Resource(pkgv1alpha1.Transactions), "once")
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		return transaction.Ended(failed()), fmt.Sprintf("%+v", failed().Status)
	})
	if tx := failed(); tx.Status.Failures != 1 || !meta.IsStatusConditionPresentAndEqual(tx.Status.Conditions, "Validated", metav1.ConditionUnknown) ||
		!strings.Contains(conditionOf(t, tx.Status.Conditions, "Synced", "ReconcileError"), "503") {
		t.Errorf("%+v", tx.Status)
	}
	h.free(t)

	// The package itself is tried five times.
	h.apply(t, "Provider", "bad", "org/bad", "v1.0.0")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		tx := h.of(t, "bad")
		return tx != nil && tx.Status.Failures > 0, fmt.Sprintf("%+v", tx)
	})
	h.registry.Fail(0, "")
	h.Delete(t, pkgv1alpha1.Transactions, "", h.of(t, "bad").Name)
	h.becomes(t, "bad", "True", "TransactionComplete")
}

// TestReplace: a provider and its family come from another organization. Their definitions, and the
// objects of users, stay; nothing is without a controller.
func TestReplace(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, org := range []string{"old", "new"} {
		h.push(t, org+"/provider-family-aws", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
		h.push(t, org+"/provider-s3", "v1.0.0", testxpkg.Requires(testxpkg.Provider("s3", bucket("region", org)), pkgv1.KindProvider, h.registry.Source(org+"/provider-family-aws"), "*"))
	}
	h.push(t, "less/provider-s3", "v1.0.0", testxpkg.Provider("s3"))
	h.run(t)
	h.apply(t, "Provider", "s3", "old/provider-s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.Create(t, buckets, "", "mine", map[string]any{"spec": map[string]any{"region": "eu"}})
	uids := map[string]types.UID{}
	for _, name := range []string{"buckets.s3.aws.example.org", "providerconfigs.aws.example.org"} {
		uids[name] = h.Get(t, crds, "", name).GetUID()
	}
	replace := func(name, source, with string) *pkgv1alpha1.Transaction {
		h.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: %s}, spec: {change: Replace, retryLimit: 1, replace: {source: "%s", package: {
			apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: s3-new}, spec: {package: "%s:v1.0.0"}}}}}`, name, h.registry.Source(source), h.registry.Source(with)))
		var tx *pkgv1alpha1.Transaction
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			tx = testenv.Get[pkgv1alpha1.Transaction](t, h.Client.Resource(pkgv1alpha1.Transactions), name)
			return transaction.Ended(tx), fmt.Sprintf("%+v", tx.Status.Conditions)
		})
		return tx
	}
	unknown := replace("unknown", "old/nothing", "new/provider-s3")
	if message := conditionOf(t, unknown.Status.Conditions, "Validated", "MissingDependency"); !strings.Contains(message, "is not installed") {
		t.Errorf("message %q", message)
	}
	less := replace("less", "old/provider-s3", "less/provider-s3")
	if message := conditionOf(t, less.Status.Conditions, "Validated", "SchemaIncompatible"); !strings.Contains(message, "buckets.s3.aws.example.org") {
		t.Errorf("message %q", message)
	}

	tx := replace("replace", "old/provider-s3", "new/provider-s3")
	if !transaction.Succeeded(tx) {
		t.Fatalf("%+v", tx.Status.Conditions)
	}
	var sources []string
	for _, locked := range h.lock(t).Packages {
		sources = append(sources, strings.TrimPrefix(locked.Source, h.registry.Host()+"/"))
	}
	if got := strings.Join(sources, " "); got != "new/provider-family-aws new/provider-s3" {
		t.Errorf("the Lock lists %s", got)
	}
	for name, uid := range uids {
		found := h.Get(t, crds, "", name)
		if found.GetUID() != uid {
			t.Errorf("%s was created again", name)
		}
		if owner := transaction.ControllerOf(found); owner == nil || strings.HasPrefix(owner.Name, "old") {
			t.Errorf("%v controls %s", owner, name)
		}
	}
	h.exists(t, buckets, "mine")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		list, err := h.Client.Resource(pkgv1.Providers).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var names []string
		for _, p := range list.Items {
			names = append(names, p.GetName())
		}
		return strings.Join(names, " ") == "new-provider-family-aws s3-new", fmt.Sprint(names)
	})
}
