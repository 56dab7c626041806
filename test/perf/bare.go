package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
)

// bareWriter repeats the writes of the implementation: works of the same size, with the same verbs
// and the same parallelism, while an ordinary informer watches them.
type bareWriter struct {
	*stage
	mailboxes []string
	// works are its works in each mailbox, without their namespace.
	works []map[string]any
	stop  func()
}

// barePrefix is the prefix of the names of bare works.
const barePrefix = "bare-"

// accept requests the smallest response to a write.
const accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// copyOf returns copies of the works in a mailbox. They have other names, labels and marks, so that
// no controller owns them. Only their names have another length.
func (b *bareWriter) copyOf(ctx context.Context, mailbox string) ([]map[string]any, error) {
	list, err := b.its.dynamic.Resource(manifestWorks).Namespace(mailbox).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var works []map[string]any
	for i := range list.Items {
		text, err := json.Marshal(list.Items[i].Object)
		if err != nil {
			return nil, err
		}
		if marks, of := marksIn(text); len(marks) == 0 || of != placed {
			continue
		}
		var work map[string]any
		if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(markBegins[placed]), []byte(markBegins[bare])), &work); err != nil {
			return nil, err
		}
		labels := map[string]any{}
		for key, value := range list.Items[i].GetLabels() {
			labels[other(key)] = value
		}
		metadata := map[string]any{"name": barePrefix + list.Items[i].GetName(), "labels": labels}
		if annotations := list.Items[i].GetAnnotations(); len(annotations) > 0 {
			metadata["annotations"] = work["metadata"].(map[string]any)["annotations"]
		}
		delete(work, "status")
		work["metadata"] = metadata
		works = append(works, work)
	}
	if len(works) == 0 {
		return nil, fmt.Errorf("mailbox %q has no works to copy", mailbox)
	}
	slices.SortFunc(works, func(x, y map[string]any) int { return strings.Compare(nameOfWork(x), nameOfWork(y)) })
	return works, nil
}

// other returns another key of the same length.
func other(key string) string {
	last := "0"
	if strings.HasSuffix(key, last) {
		last = "1"
	}
	return key[:len(key)-1] + last
}

func nameOfWork(work map[string]any) string {
	return (&unstructured.Unstructured{Object: work}).GetName()
}

// newBareWriter returns a writer of copies of the works in the first mailbox.
func (s *stage) newBareWriter(ctx context.Context, mailboxes []string) (*bareWriter, error) {
	b := &bareWriter{stage: s, mailboxes: mailboxes}
	var err error
	if b.works, err = b.copyOf(ctx, mailboxes[0]); err != nil {
		return nil, err
	}
	s.clear = append(s.clear, b.remove)
	if err := b.inform(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// inform starts the informer. It watches only the bare works if they have a label.
func (b *bareWriter) inform(ctx context.Context) error {
	client, err := workclient.NewForConfig(b.its.config)
	if err != nil {
		return err
	}
	labels := (&unstructured.Unstructured{Object: b.works[0]}).GetLabels()
	selector := ""
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		selector = key + "=" + labels[key]
	}
	works := client.WorkV1().ManifestWorks(metav1.NamespaceAll)
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return works.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return works.Watch(ctx, o)
		},
	}, &workv1.ManifestWork{}, 0)
	ctx, b.stop = context.WithCancel(ctx)
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

// write sends n writes, and blocks until the mailboxes have the expected content.
func (b *bareWriter) write(ctx context.Context, n int, there func(mailbox) bool, do func(ctx context.Context, mailbox string, work int) error) (timing, error) {
	arrivals := b.watcher.expect(bare, b.mailboxes, there)
	began := time.Now()
	err := b.parallel(ctx, n, func(ctx context.Context, i int) error {
		return do(ctx, b.mailboxes[i/len(b.works)%len(b.mailboxes)], i%len(b.works))
	})
	if err != nil {
		return timing{}, fmt.Errorf("bare writes: %w", err)
	}
	if err := b.watcher.wait(ctx, arrivals, limit); err != nil {
		return timing{}, fmt.Errorf("bare writes: %w", err)
	}
	return arrivals.since(began), nil
}

func workPath(mailbox, name string) []string {
	path := []string{"apis", manifestWorks.Group, manifestWorks.Version, "namespaces", mailbox, manifestWorks.Resource}
	if name != "" {
		path = append(path, name)
	}
	return path
}

// create creates all works.
func (b *bareWriter) create(ctx context.Context) (timing, error) {
	bodies := make([][]byte, len(b.works))
	objects := 0
	for i, work := range b.works {
		var err error
		if bodies[i], err = json.Marshal(work); err != nil {
			return timing{}, err
		}
		marks, _ := marksIn(bodies[i])
		objects += len(marks)
	}
	return b.write(ctx, len(b.works)*len(b.mailboxes), func(m mailbox) bool { return m.objects() >= objects },
		func(ctx context.Context, mailbox string, work int) error {
			return b.its.raw.Post().AbsPath(workPath(mailbox, "")...).SetHeader("Content-Type", "application/json").
				SetHeader("Accept", accept).Body(bodies[work]).Do(ctx).Error()
		})
}

// edit sends n writes that update the bare works to copies of the current works, with the verbs of
// the implementation.
func (b *bareWriter) edit(ctx context.Context, verbs requests, want mark) (timing, error) {
	after, err := b.copyOf(ctx, b.mailboxes[0])
	if err != nil {
		return timing{}, err
	}
	if len(after) != len(b.works) {
		return timing{}, fmt.Errorf("the edit changed the number of works from %d to %d: cannot compare", len(b.works), len(after))
	}
	replace := verbs["PUT"] > verbs["PATCH"]
	var changed []int
	bodies := make([][]byte, len(after))
	for i := range after {
		patch, err := difference(b.works[i], after[i])
		if err != nil {
			return timing{}, err
		}
		bodies[i] = patch
		if replace {
			versioned := (&unstructured.Unstructured{Object: after[i]}).DeepCopy()
			versioned.SetResourceVersion(anyVersion)
			if bodies[i], err = json.Marshal(versioned.Object); err != nil {
				return timing{}, err
			}
		}
		// If the implementation also rewrites unchanged works, the bare writes do so too.
		if string(patch) != "null" || verbs.total(writeVerbs...) > len(b.mailboxes) {
			changed = append(changed, i)
		}
	}
	if len(changed) == 0 {
		return timing{}, errors.New("the edit changed no work")
	}
	b.works = after
	n := verbs.total(writeVerbs...)
	var versions map[string]string
	if replace {
		if versions, err = b.versions(ctx); err != nil {
			return timing{}, err
		}
		n = min(n, len(versions)) // a second replacement would be a conflict
	}
	arrivals := b.watcher.expect(bare, b.mailboxes, func(m mailbox) bool { return m.edited(want) })
	began := time.Now()
	err = b.parallel(ctx, n, func(ctx context.Context, i int) error {
		mailbox, work := b.mailboxes[i/len(changed)%len(b.mailboxes)], changed[i%len(changed)]
		path := workPath(mailbox, nameOfWork(after[work]))
		if replace {
			body := bytes.Replace(bodies[work], []byte(anyVersion), []byte(versions[mailbox+"/"+nameOfWork(after[work])]), 1)
			return b.its.raw.Put().AbsPath(path...).SetHeader("Content-Type", "application/json").SetHeader("Accept", accept).Body(body).Do(ctx).Error()
		}
		return b.its.raw.Patch(types.JSONPatchType).AbsPath(path...).SetHeader("Accept", accept).Body(bodies[work]).Do(ctx).Error()
	})
	if err != nil {
		return timing{}, fmt.Errorf("bare writes: %w", err)
	}
	if err := b.watcher.wait(ctx, arrivals, limit); err != nil {
		return timing{}, fmt.Errorf("bare writes: %w", err)
	}
	return arrivals.since(began), nil
}

// anyVersion is a placeholder for the version of a work in a body.
const anyVersion = "any-version"

// versions returns the resourceVersions of all works, by mailbox and name.
func (b *bareWriter) versions(ctx context.Context) (map[string]string, error) {
	raw, err := b.its.raw.Get().AbsPath("apis", manifestWorks.Group, manifestWorks.Version, manifestWorks.Resource).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for i := range list.Items {
		if o := &list.Items[i]; strings.HasPrefix(o.Name, barePrefix) {
			versions[o.Namespace+"/"+o.Name] = o.ResourceVersion
		}
	}
	return versions, nil
}

// remove deletes all works.
func (b *bareWriter) remove(ctx context.Context) error {
	_, err := b.deleteAll(ctx)
	return err
}

func (b *bareWriter) deleteAll(ctx context.Context) (timing, error) {
	body := []byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`)
	return b.write(ctx, len(b.works)*len(b.mailboxes), mailbox.empty,
		func(ctx context.Context, mailbox string, work int) error {
			return b.its.raw.Delete().AbsPath(workPath(mailbox, nameOfWork(b.works[work]))...).SetHeader("Content-Type", "application/json").
				SetHeader("Accept", accept).Body(body).Do(ctx).Error()
		})
}

// difference returns the JSON patch from one state of a work to the next, for each different
// manifest and for annotations. It is null if nothing is different.
func difference(before, after map[string]any) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	var ops []operation
	old, _, err := unstructured.NestedSlice(before, "spec", "workload", "manifests")
	if err != nil {
		return nil, err
	}
	manifests, _, err := unstructured.NestedSlice(after, "spec", "workload", "manifests")
	if err != nil {
		return nil, err
	}
	if len(old) != len(manifests) {
		return nil, errors.New("the edit changed the number of manifests")
	}
	for i := range manifests {
		was, err := json.Marshal(old[i])
		if err != nil {
			return nil, err
		}
		is, err := json.Marshal(manifests[i])
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(was, is) {
			ops = append(ops, operation{"replace", fmt.Sprintf("/spec/workload/manifests/%d", i), json.RawMessage(is)})
		}
	}
	is := &unstructured.Unstructured{Object: after}
	was := (&unstructured.Unstructured{Object: before}).GetAnnotations()
	for key, value := range is.GetAnnotations() {
		if was[key] != value {
			escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
			ops = append(ops, operation{"add", "/metadata/annotations/" + escaped, value})
		}
	}
	return json.Marshal(ops)
}
