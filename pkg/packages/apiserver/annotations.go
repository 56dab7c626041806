package apiserver

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// checkAnnotations refuses to allow breaking changes of CustomResourceDefinitions, unless the user
// may update CustomResourceDefinitions: the transaction that validates the revision obeys it.
func (r *revisions) checkAnnotations(ctx context.Context, name string, before, after map[string]string) error {
	allowed := after[pkgv1.AnnotationAllowBreakingCRDs]
	if allowed == "" || allowed == before[pkgv1.AnnotationAllowBreakingCRDs] {
		return nil
	}
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewUnauthorized("the request has no user")
	}
	decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "update", APIGroup: "apiextensions.k8s.io", APIVersion: "v1", Resource: "customresourcedefinitions", ResourceRequest: true,
	})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("check whether user %q may update CustomResourceDefinitions: %w", user.GetName(), err))
	}
	if decision != authorizer.DecisionAllow {
		return apierrors.NewForbidden(revisionResource, name, errors.New("metadata.annotations["+pkgv1.AnnotationAllowBreakingCRDs+
			"]: only a user who may update CustomResourceDefinitions may set it, and \""+user.GetName()+"\" may not"))
	}
	return nil
}
