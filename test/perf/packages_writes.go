package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// approveRevisions approves revisions one after the other, as a user does: it reads and writes
// each. After each, it writes a revision of the same size bare.
func approveRevisions(ctx context.Context, p *packageStage) (result, error) {
	first, err := p.draft(ctx, catalog, "template", "v1", initTask())
	if err == nil {
		first, err = p.move(ctx, first, "Proposed")
	}
	if err != nil {
		return result{}, err
	}
	template, err := p.template(ctx, first.GetName())
	if err != nil {
		return result{}, err
	}
	done := step("create %d packages", p.o.packages)
	bares := make([]*unstructured.Unstructured, p.o.packages)
	err = p.parallel(ctx, p.o.packages, func(ctx context.Context, i int) error {
		if _, err := p.kept().Create(ctx, copyOf(template, packageOf(i), "v1", 0), metav1.CreateOptions{}); err != nil {
			return err
		}
		var err error
		bares[i], err = p.kept().Create(ctx, copyOf(template, "bare-"+packageOf(i), "v1", 0), metav1.CreateOptions{})
		return err
	})
	done()
	if err != nil {
		return result{}, err
	}
	if err := p.waitIdle(ctx); err != nil {
		return result{}, err
	}
	var took, bare []time.Duration
	ours := func(i int) error {
		began := time.Now()
		revision, err := p.served().Get(ctx, fmt.Sprintf("%s.%s.v1", catalog, packageOf(i)), metav1.GetOptions{})
		if err == nil {
			_, err = p.move(ctx, revision, "Published", "approval")
		}
		took = append(took, time.Since(began))
		return err
	}
	theirs := func(i int) error {
		if err := unstructured.SetNestedField(bares[i].Object, "DeletionProposed", "spec", "lifecycle"); err != nil {
			return err
		}
		began := time.Now()
		_, err := p.kept().Update(ctx, bares[i], metav1.UpdateOptions{})
		bare = append(bare, time.Since(began))
		return err
	}
	for i := range p.o.packages {
		order := []func(int) error{ours, theirs}
		for j := range order {
			if err := order[(i+j)%len(order)](i); err != nil {
				return result{}, fmt.Errorf("approval %d: %w", i, err)
			}
		}
	}
	r, err := p.result()
	what := fmt.Sprintf("approve, %d packages", p.o.packages)
	r.times("approve", what, took, bare, quantileGoal{50, approveP99}, quantileGoal{99, approveP99})
	return r, err
}

func packageOf(i int) string { return fmt.Sprintf("package-%05d", i) }

// cloneRevisions clones a published package in parallel. After each round, it writes copies of the
// objects that a clone stores bare: a revision and its content.
func cloneRevisions(ctx context.Context, p *packageStage) (result, error) {
	upstream, err := p.publish(ctx, "upstream", "v1", initTask(), p.deployments())
	if err != nil {
		return result{}, fmt.Errorf("publish the package to clone: %w", err)
	}
	task := map[string]any{"type": "clone", "clone": map[string]any{"upstreamRef": map[string]any{"upstreamRef": map[string]any{"name": upstream}}}}
	first, err := p.draft(ctx, edge, "template", "v1", task)
	if err != nil {
		return result{}, err
	}
	if at := conditionOf(first, porchv1alpha1.ConditionPipelinePassed); at != "True" {
		return result{}, fmt.Errorf("the pipeline of a clone did not pass: %s is %q", porchv1alpha1.ConditionPipelinePassed, at)
	}
	template, chunk, err := p.keptOf(ctx, first.GetName())
	if err != nil {
		return result{}, err
	}
	cpu, err := p.meter(ctx)
	if err != nil {
		return result{}, err
	}
	chunks := p.wds.dynamic.Resource(storev1alpha1.ContentChunks)
	var took, bare []time.Duration
	for round := range p.o.rounds + 1 {
		ours := func(ctx context.Context, i int) error {
			_, err := p.draft(ctx, edge, fmt.Sprintf("round-%d-%s", round, packageOf(i)), "v1", task)
			return err
		}
		theirs := func(ctx context.Context, i int) error {
			digest := fmt.Sprintf("%032x%032x", round, i)
			copied := chunk.DeepCopy()
			copied.Object["digest"] = "sha256:" + digest
			copied.SetName(strings.Replace(chunk.GetName(), digestOf(chunk), digest, 1))
			if _, err := chunks.Create(ctx, copied, metav1.CreateOptions{}); err != nil {
				return err
			}
			_, err := p.kept().Create(ctx, copyOf(template, fmt.Sprintf("bare-%d-%s", round, packageOf(i)), "v1", 0), metav1.CreateOptions{})
			return err
		}
		for j, order := 0, []func(context.Context, int) error{ours, theirs}; j < len(order); j++ {
			which := (round + j) % len(order)
			if err := p.waitIdle(ctx); err != nil {
				return result{}, err
			}
			done := step("round %d, %d %s", round, p.o.clones, []string{"clones", "bare writes"}[which])
			if err := cpu.begin(); err != nil {
				return result{}, err
			}
			times, err := p.timed(ctx, p.o.clones, order[which])
			done()
			switch {
			case err != nil:
				return result{}, err
			case round == 0:
			case which == 0:
				took = append(took, times...)
				if err := cpu.end(); err != nil {
					return result{}, err
				}
			default:
				bare = append(bare, times...)
			}
		}
	}
	r, err := p.result()
	what := fmt.Sprintf("create by clone, %d objects, 5 functions, %d at a time", p.o.objects, p.o.atOnce)
	r.times("clone", what, took, bare, quantileGoal{50, cloneP50}, quantileGoal{99, cloneP99})
	r.figures = append(r.figures, cpu.figure("each clone", len(took)))
	return r, err
}

// timed calls do n times in parallel, and returns how long each call took.
func (p *packageStage) timed(ctx context.Context, n int, do func(context.Context, int) error) ([]time.Duration, error) {
	var mu sync.Mutex
	var times []time.Duration
	err := p.parallel(ctx, n, func(ctx context.Context, i int) error {
		began := time.Now()
		err := do(ctx, i)
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Since(began))
		return err
	})
	return times, err
}

func digestOf(chunk *unstructured.Unstructured) string {
	digest, _, _ := unstructured.NestedString(chunk.Object, "digest")
	return strings.TrimPrefix(digest, "sha256:")
}

func conditionOf(revision *unstructured.Unstructured, kind string) string {
	conditions, _, err := unstructured.NestedSlice(revision.Object, "status", "conditions")
	if err != nil {
		return ""
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprint(c["status"])
		}
	}
	return ""
}

// keptOf returns the stored objects of a revision: itself and its content.
func (p *packageStage) keptOf(ctx context.Context, named string) (revision, chunk *unstructured.Unstructured, err error) {
	if revision, err = p.template(ctx, named); err != nil {
		return nil, nil, err
	}
	digest, _, err := unstructured.NestedString(revision.Object, "content", "digest")
	if err != nil {
		return nil, nil, err
	}
	list, err := p.wds.dynamic.Resource(storev1alpha1.ContentChunks).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		chunk := &list.Items[i]
		if of, _, _ := unstructured.NestedString(chunk.Object, "digest"); of == digest {
			chunk.SetUID("")
			chunk.SetResourceVersion("")
			chunk.SetManagedFields(nil)
			return revision, chunk, nil
		}
	}
	return nil, nil, fmt.Errorf("no chunk of %s", digest)
}

// pipeline has five functions, each of which changes something.
const pipeline = `apiVersion: kpt.dev/v1
kind: Kptfile
metadata: {name: upstream}
pipeline:
  mutators:
  - {image: "set-namespace:v0.4", configMap: {namespace: shop}}
  - {image: "set-labels:v0.2", configMap: {team: shop}}
  - {image: "set-annotations:v0.1", configMap: {example.com/contact: shop}}
  - {image: "set-image:v0.1", configMap: {name: example.com/web, newTag: "2"}}
  validators:
  - {image: "kubeconform:v0.1"}
`

// deployments is a package with a pipeline.
func (p *packageStage) deployments() map[string]any {
	files := map[string]any{"Kptfile": pipeline}
	for i := range p.o.objects {
		files[fmt.Sprintf("web-%03d.yaml", i)] = fmt.Sprintf(deploymentFile, i)
	}
	return files
}

// publish publishes a revision of a package of the catalog, with these files and no others, and
// returns its name.
func (p *packageStage) publish(ctx context.Context, packageName, workspace string, task, files map[string]any) (string, error) {
	revision, err := p.draft(ctx, catalog, packageName, workspace, task)
	if err != nil {
		return "", err
	}
	client := p.wds.dynamic.Resource(porchv1alpha1.ResourcePackageRevisionResources).Namespace(name)
	resources, err := client.Get(ctx, revision.GetName(), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if err := unstructured.SetNestedMap(resources.Object, files, "spec", "resources"); err != nil {
		return "", err
	}
	if resources, err = client.Update(ctx, resources, metav1.UpdateOptions{}); err != nil {
		return "", err
	}
	if text, _, _ := unstructured.NestedString(resources.Object, "status", "renderStatus", "error"); text != "" {
		return "", fmt.Errorf("render: %s", text)
	}
	for _, to := range []struct {
		lifecycle    string
		subresources []string
	}{{"Proposed", nil}, {"Published", []string{"approval"}}} {
		if revision, err = p.served().Get(ctx, revision.GetName(), metav1.GetOptions{}); err != nil {
			return "", err
		}
		if revision, err = p.move(ctx, revision, to.lifecycle, to.subresources...); err != nil {
			return "", err
		}
	}
	return revision.GetName(), nil
}

const deploymentFile = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-%[1]d
  labels:
    app: web-%[1]d
spec:
  replicas: 2
  selector:
    matchLabels:
      app: web-%[1]d
  template:
    metadata:
      labels:
        app: web-%[1]d
    spec:
      containers:
      - name: web
        image: example.com/web:1
        ports:
        - containerPort: 8080
        env:
        - name: LEVEL
          value: info
        resources:
          requests:
            cpu: 100m
            memory: 128Mi
`
