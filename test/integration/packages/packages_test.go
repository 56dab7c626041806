package packages

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// TestWatchOfPackages: a watch of packages has the events that follow from those of their
// revisions, and resumes from any of them.
func TestWatchOfPackages(t *testing.T) {
	e := newEnvironment(t)
	ctx := t.Context()
	client := e.dynamic.Resource(porchv1alpha1.ResourcePackages).Namespace(e.namespace)
	start := func(o metav1.ListOptions) watch.Interface {
		w := must[watch.Interface](t)(client.Watch(ctx, o))
		t.Cleanup(w.Stop)
		return w
	}
	// read reads events until the text of one is last. It returns them and their resourceVersions.
	read := func(w watch.Interface, last string) (events, versions []string) {
		t.Helper()
		timeout := time.After(30 * time.Second)
		for !slices.Contains(events, last) {
			select {
			case event, open := <-w.ResultChan():
				obj, ok := event.Object.(*unstructured.Unstructured)
				if !open || !ok {
					t.Fatalf("the watch ended after %q: %v", events, event)
				}
				latest, _, _ := unstructured.NestedInt64(obj.Object, "status", "latestRevision")
				text := fmt.Sprintf("%s %s %d", event.Type, obj.GetName(), latest)
				if event.Type == watch.Bookmark {
					text = fmt.Sprint("BOOKMARK ", obj.GetAnnotations()[metav1.InitialEventsAnnotationKey])
				}
				events, versions = append(events, text), append(versions, obj.GetResourceVersion())
			case <-timeout:
				t.Fatalf("no %q after %q", last, events)
			}
		}
		return events, versions
	}
	same := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	e.make(t, e.revision("upstream", "there", "v1"))
	began := must[*unstructured.UnstructuredList](t)(client.List(ctx, metav1.ListOptions{})).GetResourceVersion()
	resumed, anew := start(metav1.ListOptions{ResourceVersion: began}), start(metav1.ListOptions{})
	initial, yes := start(metav1.ListOptions{SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}), "BOOKMARK true"
	other := start(metav1.ListOptions{FieldSelector: "spec.repository=downstream"})

	first := e.move(t, e.make(t, e.revision("upstream", "a/b", "v1")), published)
	second := e.move(t, e.make(t, e.revision("upstream", "a/b", "v2"), task(porchv1alpha1.TaskTypeEdit, first.Name)), published)
	for _, pr := range []*porchv1alpha1.PackageRevision{second, first} {
		e.move(t, pr, deletionProposed)
		if err := e.admin.revisions(e.namespace).Delete(ctx, pr.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	e.make(t, e.revision("downstream", "end", "v1"))

	life := []string{"ADDED upstream.a.b 0", "MODIFIED upstream.a.b 1", "MODIFIED upstream.a.b 2", "MODIFIED upstream.a.b 1", "DELETED upstream.a.b 1", "ADDED downstream.end 0"}
	last := life[len(life)-1]
	got, versions := read(resumed, last)
	same("from a list", got, life...)
	got, _ = read(anew, last)
	same("from the start", got, append([]string{"ADDED upstream.there 0"}, life...)...)
	got, _ = read(initial, last)
	same("with a bookmark", got, append([]string{"ADDED upstream.there 0", yes}, life...)...)
	got, _ = read(other, last)
	same("of another repository", got, last)
	for i := range versions[:len(versions)-1] {
		got, _ = read(start(metav1.ListOptions{ResourceVersion: versions[i]}), last)
		same("after "+life[i], got, life[i+1:]...)
	}
}
