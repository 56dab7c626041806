package store

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

var (
	revisionKind     = porchv1alpha1.GroupVersion.WithKind("PackageRevision").GroupKind()
	revisionResource = porchv1alpha1.ResourcePackageRevisions.GroupResource()
)

// TranslateError turns an error about a stored object into one about the served object. Users do
// not know stored objects.
func TranslateError(err error, name string) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	s := status.Status()
	aboutUs := s.Details != nil && s.Details.Group == storev1alpha1.GroupName
	switch {
	case !aboutUs:
		return err
	case apierrors.IsNotFound(err) && s.Details.Name != "":
		return apierrors.NewNotFound(revisionResource, s.Details.Name)
	case apierrors.IsAlreadyExists(err):
		return apierrors.NewAlreadyExists(revisionResource, name)
	case apierrors.IsConflict(err):
		return Conflict(name)
	case apierrors.IsInvalid(err):
		s.Details.Group = porchv1alpha1.GroupName
		s.Message = fmt.Sprintf("%s %q is invalid: %s", revisionKind, name, causes(s.Details.Causes))
		return &apierrors.StatusError{ErrStatus: s}
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return apierrors.NewInternalError(fmt.Errorf("package-server is not allowed to do this: %w", err))
	}
	return err
}

func causes(list []metav1.StatusCause) string {
	texts := make([]string, len(list))
	for i, cause := range list {
		texts[i] = cause.Field + ": " + cause.Message
	}
	return joinReasons(texts)
}

// Conflict returns the error for a revision that was changed after it was read.
func Conflict(name string) error {
	return apierrors.NewConflict(revisionResource, name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// lifecycleField is the field of errors about the lifecycle.
const lifecycleField = "spec.lifecycle"

// invalid returns an error of one or several fields.
func invalid(name string, wrong ...lifecycle.FieldError) error {
	err := apierrors.NewInvalid(revisionKind, name, nil)
	err.ErrStatus.Message = fmt.Sprintf("%s %q is invalid: %s", revisionKind, name, joinReasons(lifecycle.FieldErrors(wrong).Strings()))
	for _, one := range wrong {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
			metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: one.Field, Message: one.Message})
	}
	return err
}

// invalidText returns an error that is not about a field, such as one of the package's files.
func invalidText(name string, messages ...string) error {
	return invalid(name, fieldErrors("", messages...)...)
}

// fieldErrors returns errors of one field.
func fieldErrors(field string, messages ...string) lifecycle.FieldErrors {
	wrong := make(lifecycle.FieldErrors, len(messages))
	for i, message := range messages {
		wrong[i] = lifecycle.FieldError{Field: field, Message: message}
	}
	return wrong
}

func forbidden(name, text string) error {
	return apierrors.NewForbidden(revisionResource, name, errors.New(text))
}

// joinReasons puts several reasons into one line.
func joinReasons(texts []string) string {
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
