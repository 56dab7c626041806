package cli

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/foresight"
)

// fromFiles returns what the files name. It is an error if the WDS does not have the objects as
// they are in the files: an answer would be about another edit.
func (w *waiter) fromFiles() (q foresight.RolloutQuery, notes []string, err error) {
	result, factory, err := w.manifests(&w.files)
	if err != nil {
		return q, nil, err
	}
	// Of several manifests of one object, the last one is that which `kubectl apply` leaves.
	last := map[objref.Ref]*resource.Info{}
	var order []objref.Ref
	err = result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		ref := objref.New(info.Mapping.Resource.GroupResource(), info.Namespace, info.Name)
		if last[ref] == nil {
			order = append(order, ref)
		}
		last[ref] = info
		return nil
	})
	if err != nil {
		return q, nil, err
	}
	for _, ref := range order {
		isPolicy := ref.GroupResource() == controlv1alpha1.BindingPolicies.GroupResource()
		if !isPolicy && match.NeverResource(ref.GroupResource()) {
			notes = append(notes, ref.String()+" is no workload, and is not waited for")
			continue
		}
		if err := w.isApplied(last[ref], factory); err != nil {
			return q, nil, err
		}
		if isPolicy {
			q.Policies = append(q.Policies, ref.Name)
		} else {
			q.Objects = append(q.Objects, foresight.ObjectQuery{Resource: last[ref].Mapping.Resource, Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	if len(q.Policies)+len(q.Objects) == 0 {
		return q, nil, errors.New("no file has an object that can be waited for")
	}
	return q, notes, nil
}

// isApplied returns an error if applying the object would change it.
func (w *waiter) isApplied(info *resource.Info, factory cmdutil.Factory) error {
	ref := objref.New(info.Mapping.Resource.GroupResource(), info.Namespace, info.Name)
	live, merged, err := w.try(info, factory, false)
	if err != nil {
		return err
	}
	if live == nil {
		return fmt.Errorf("%s of %s does not exist in the WDS: apply it first", ref, info.Source)
	}
	has, err := contentOf(ref, live)
	if err != nil {
		return err
	}
	would, err := contentOf(ref, merged)
	if err != nil {
		return err
	}
	if has != would {
		return fmt.Errorf("%s is not in the WDS as it is in %s: apply it first", ref, info.Source)
	}
	return nil
}

// contentOf returns the hash of an object without what the API server and controllers write, no
// matter who wrote the rest: a value that is applied again is the same value.
func contentOf(ref objref.Ref, o *unstructured.Unstructured) (transform.Hash, error) {
	o = o.DeepCopy()
	o.SetUID("")
	content, err := transform.Standard().Apply(ref, o.Object)
	return content.Content(), err
}
