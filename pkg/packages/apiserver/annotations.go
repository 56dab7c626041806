package apiserver

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

const allowBreaking = "metadata.annotations[" + pkgv1.AnnotationAllowBreakingCRDs + "]: "

// checkAnnotations refuses to allow breaking changes of CustomResourceDefinitions, unless the user
// may update CustomResourceDefinitions: the transaction that validates the revision obeys it.
func (r *revisions) checkAnnotations(ctx context.Context, name string, before, after map[string]string) error {
	allowed := after[pkgv1.AnnotationAllowBreakingCRDs]
	if allowed == "" || allowed == before[pkgv1.AnnotationAllowBreakingCRDs] {
		return nil
	}
	may, user, err := mayUpdateDefinitions(ctx, r.authorizer)
	if err == nil && !may {
		err = apierrors.NewForbidden(revisionResource, name, errors.New(allowBreaking+
			"only a user who may update CustomResourceDefinitions may set it, and \""+user+"\" may not"))
	}
	return err
}

// checkAllowed refuses to change the content of a revision whose breaking changes are allowed,
// unless the user may allow them: they were allowed for the content that there was.
func (r *resources) checkAllowed(ctx context.Context, cr *storev1alpha1.PackageRevision) error {
	if cr.Annotations[pkgv1.AnnotationAllowBreakingCRDs] == "" {
		return nil
	}
	may, user, err := mayUpdateDefinitions(ctx, r.authorizer)
	if err == nil && !may {
		err = apierrors.NewForbidden(revisionResource, cr.Name, errors.New(allowBreaking+
			"while it is set, only a user who may update CustomResourceDefinitions may change the content, and \""+user+"\" may not: remove the annotation from the PackageRevision first"))
	}
	return err
}

func mayUpdateDefinitions(ctx context.Context, by authorizer.Authorizer) (may bool, name string, err error) {
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return false, "", apierrors.NewUnauthorized("the request has no user")
	}
	decision, _, err := by.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "update", APIGroup: "apiextensions.k8s.io", APIVersion: "v1", Resource: "customresourcedefinitions", ResourceRequest: true,
	})
	if err != nil {
		return false, "", apierrors.NewInternalError(fmt.Errorf("check whether user %q may update CustomResourceDefinitions: %w", user.GetName(), err))
	}
	return decision == authorizer.DecisionAllow, user.GetName(), nil
}
