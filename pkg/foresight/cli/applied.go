package cli

import (
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
	factory := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(w.flags))
	namespace, enforce, err := factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return q, nil, err
	}
	result := factory.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().
		FilenameParam(enforce, &w.files).Flatten().ContinueOnError().Do()
	if err := result.Err(); err != nil {
		return q, nil, err
	}
	err = result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		gr := info.Mapping.Resource.GroupResource()
		if gr != controlv1alpha1.BindingPolicies.GroupResource() && match.NeverResource(gr) {
			notes = append(notes, fmt.Sprintf("%s %s is no workload, and is not waited for", gr, info.Name))
			return nil
		}
		if err := w.isApplied(info, factory); err != nil {
			return err
		}
		if gr == controlv1alpha1.BindingPolicies.GroupResource() {
			q.Policies = append(q.Policies, info.Name)
			return nil
		}
		q.Objects = append(q.Objects, foresight.ObjectQuery{Resource: info.Mapping.Resource, Namespace: info.Namespace, Name: info.Name})
		return nil
	})
	if err == nil && len(q.Policies)+len(q.Objects) == 0 {
		err = fmt.Errorf("no file has an object that can be waited for")
	}
	return q, notes, err
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

// contentOf returns the hash of an object without what the API server and controllers write.
func contentOf(ref objref.Ref, o *unstructured.Unstructured) (transform.Hash, error) {
	content, err := transform.Standard().Apply(ref, o.DeepCopy().Object)
	return content.Content(), err
}
