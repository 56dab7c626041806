package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// steadyStatus measures a change once a second: what an agent always reports of each object.
func steadyStatus(ctx context.Context, o *statusOptions) (result, error) {
	return changes(ctx, o, time.Second, "one change a second", 60*time.Millisecond)
}

// quickStatus measures ten changes a second, which an agent reports while few objects change so
// often.
func quickStatus(ctx context.Context, o *statusOptions) (result, error) {
	return changes(ctx, o, time.Second/10, "ten changes a second", 100*time.Millisecond)
}

// changes edits the status of one Deployment in the WEC once in each interval, with real OCM, and
// measures how long each change takes to the object in the WDS. A change that arrives later than
// the interval delays the next one. The changed field is one that the Deployment's controller
// copies.
func changes(ctx context.Context, o *statusOptions, interval time.Duration, what string, goal time.Duration) (r result, err error) {
	dir, remove, err := ownFleet(ctx, "--wecs", "1")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	path, err := newEditPath(ctx, &options{kubeconfig: filepath.Join(dir, "kubeconfig"), wds: "wds1", its: "its1", wec: wecName})
	if err != nil {
		return result{}, err
	}
	if _, err := path.prepare(ctx, 0); err != nil {
		return result{}, err
	}
	returned := observe(ctx, path.wds.Resource(deployments).Namespace(name), func(obj *unstructured.Unstructured) []state {
		return []state{{object: placeOf(obj), status: number(obj, "status", "collisionCount")}}
	})
	var times []time.Duration
	began := time.Now()
	for i := range o.changes {
		if err := sleep(ctx, time.Until(began.Add(time.Duration(i+1)*interval))); err != nil {
			return result{}, err
		}
		value := int64(i + 1)
		_, err := path.wec.Resource(deployments).Namespace(name).Patch(ctx, nameOf(0), types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"collisionCount":%d}}`, value), metav1.PatchOptions{}, "status")
		if err != nil {
			return result{}, err
		}
		changed := time.Now()
		answer, err := returned.wait(ctx, state{object: measured(0), status: value})
		if err != nil {
			return result{}, fmt.Errorf("change %d: wait for the status in the WDS: %w", i, err)
		}
		times = append(times, max(0, answer.at.Sub(changed)))
	}
	r.returns(what+": WEC status to .status in the WDS", times, goal, 0)
	return r, nil
}
