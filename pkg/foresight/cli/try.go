package cli

import (
	"fmt"
	"io"

	"github.com/jonboulle/clockwork"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/diff"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util"
	"k8s.io/kubectl/pkg/util/openapi"
)

// manifests returns the objects in files, and what knows the schemas of the WDS.
func (o *options) manifests(files *resource.FilenameOptions) (*resource.Result, cmdutil.Factory, error) {
	factory := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(o.flags))
	namespace, enforce, err := factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, nil, err
	}
	result := factory.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().
		FilenameParam(enforce, files).Flatten().ContinueOnError().Do()
	if err := result.Err(); err != nil {
		return nil, nil, err
	}
	return result, factory, nil
}

// maxTries bounds how often an object is read again that changes meanwhile, as in kubectl diff.
const maxTries = 4

// try returns an object as it is, nil if it does not exist, and as it would be after an apply. An
// error does not have the content of a Secret.
func (o *options) try(info *resource.Info, schemas openapi.OpenAPIResourcesGetter, serverSide bool) (live, merged *unstructured.Unstructured, err error) {
	local := info.Object.DeepCopyObject()
	for i := range maxTries {
		// The last one applies to whatever version there is.
		live, merged, err = o.tryOnce(info, local, schemas, serverSide, i == maxTries-1)
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return live, merged, err
}

func (o *options) tryOnce(
	info *resource.Info, local runtime.Object, schemas openapi.OpenAPIResourcesGetter, serverSide, force bool,
) (live, merged *unstructured.Unstructured, err error) {
	err = info.Get()
	if err != nil && !isNotFound(err) {
		return nil, nil, err
	}
	if err != nil {
		info.Object = nil
	} else if read, is := info.Object.(*unstructured.Unstructured); is {
		live = read.DeepCopy()
	}
	errOut := o.ErrOut
	secret := info.Mapping.Resource.GroupResource() == corev1.Resource("secrets")
	if secret {
		errOut = io.Discard // its warnings have errors of patches, which have content
	}
	would, err := dryRun(info, local.DeepCopyObject(), schemas, serverSide, force, errOut)
	switch {
	case err == nil:
	case isNotFound(err): // its Namespace comes with it
		would = local
	case secret && !apierrors.IsConflict(err):
		return nil, nil, withheld(info, err)
	default:
		return nil, nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(would)
	return live, &unstructured.Unstructured{Object: content}, err
}

// dryRun returns what an apply makes of an object. It differs from kubectl diff in that the object
// has the annotation of the apply, too: that is how the WDS, and Starling, know what a user wrote.
func dryRun(info *resource.Info, local runtime.Object, schemas openapi.OpenAPIResourcesGetter, serverSide, force bool, errOut io.Writer) (runtime.Object, error) {
	if serverSide {
		object := diff.InfoObject{
			LocalObj: local, Info: info, Encoder: unstructured.UnstructuredJSONScheme, OpenAPIGetter: schemas,
			ServerSideApply: true, FieldManager: "kubectl", Force: force, // as that of kubectl apply --server-side
		}
		return object.Merged()
	}
	helper := resource.NewHelper(info.Client, info.Mapping).DryRun(true).WithFieldManager(apply.FieldManagerClientSideApply)
	modified, err := util.GetModifiedConfiguration(local, true, unstructured.UnstructuredJSONScheme)
	if err != nil {
		return nil, err
	}
	if info.Object == nil {
		if err := util.CreateApplyAnnotation(local, unstructured.UnstructuredJSONScheme); err != nil {
			return nil, err
		}
		return helper.CreateWithOptions(info.Namespace, true, local, &metav1.CreateOptions{})
	}
	patcher := &apply.Patcher{Mapping: info.Mapping, Helper: helper, Overwrite: true, BackOff: clockwork.NewRealClock(), OpenAPIGetter: schemas}
	if !force {
		now, err := meta.Accessor(info.Object)
		if err != nil {
			return nil, err
		}
		patcher.ResourceVersion = new(now.GetResourceVersion())
	}
	_, would, err := patcher.Patch(info.Object, modified, info.Source, info.Namespace, info.Name, errOut)
	return would, err
}

// withheld returns an error about a dry run of a Secret without the text of its cause: that has the
// values of the file, and those that the Secret has now.
func withheld(info *resource.Info, err error) error {
	reason := ""
	if of := apierrors.ReasonForError(err); of != metav1.StatusReasonUnknown {
		reason = string(of) + " "
	}
	return fmt.Errorf("apply Secret %q of %s by a dry run: %s(text withheld: the object is a Secret)", info.Namespace+"/"+info.Name, info.Source, reason)
}
