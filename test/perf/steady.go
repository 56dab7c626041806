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

const (
	steadyInterval = time.Second
	steadyGoal     = 60 * time.Millisecond
)

// steadyStatus changes the status of one Deployment in the WEC once a second, with real OCM, and
// measures how long each change takes to the object in the WDS. That is the rate at which an agent
// reports an object that changes all the time. The changed field is one that the Deployment's
// controller copies.
func steadyStatus(ctx context.Context, o *statusOptions) (r result, err error) {
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
		if err := sleep(ctx, time.Until(began.Add(time.Duration(i+1)*steadyInterval))); err != nil {
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
	r.returns("one change a second: WEC status to .status in the WDS", times, steadyGoal, 0)
	return r, nil
}
