package transport

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

var errMissing = errors.New("is listed by the Binding but is not there")

// invalidError says that an object cannot be delivered as it is; reading it again does not help.
type invalidError struct{ err error }

func (e *invalidError) Error() string { return "cannot be delivered: " + e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }

// retryable tells whether a failed read of an object is worth another one without an event.
func retryable(err error) bool {
	var invalid *invalidError
	return !errors.As(err, &invalid)
}

// maxText bounds each text in a status.
const maxText = 512

// clip bounds a text and makes one line of it.
func clip(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + " …"
}

func isSecret(ref objref.Ref) bool { return ref.Group == "" && ref.Resource == "secrets" }

// writeError tells of a failed write. Answers to a work with a Secret may quote it: of those only the reason is told.
func writeError(a *plan.Action, err error) string {
	secret := false
	for i := range a.After {
		secret = secret || isSecret(a.After[i].Ref)
	}
	if a.Verb == plan.Create && apierrors.IsAlreadyExists(err) {
		// A work of ours would have been told of, unless it came just now: then the next look finds it.
		return clip("work " + a.Name + " cannot be created: one of that name is there whose label " + controlv1alpha1.LabelWDSUID + " or " +
			controlv1alpha1.LabelBindingUID + " somebody changed; give it back, or delete the work")
	}
	var status apierrors.APIStatus
	if secret && errors.As(err, &status) {
		return clip(string(a.Verb) + " work " + a.Name + ": " + string(apierrors.ReasonForError(err)) + " (text withheld: the work holds a Secret)")
	}
	return clip(err.Error())
}

// applyError tells what a cluster said of an object that it could not apply, without the Secret it may quote.
func applyError(item *plan.Item) string {
	if isSecret(item.Ref) {
		return clip(item.Reason + " (text withheld: the object is a Secret)")
	}
	if item.Message == "" {
		return clip(item.Reason)
	}
	return clip(strings.TrimPrefix(item.Message, "Failed to apply manifest: "))
}

// passing tells whether a cluster failed for a reason that passes by itself: what the object needs is not there yet, or what
// is in its way is on its way out. Answers of API servers have no code for it; these are their texts, and OCM's for a kind
// that is not served.
func passing(item *plan.Item) bool {
	message := item.Message
	for _, text := range []string{
		"the server doesn't have a resource type",
		"no matches for kind",
		"the server could not find the requested resource",
		"because it is being terminated",
		"object is being deleted",
		"failed calling webhook",
		"connection refused",
		"etcdserver: request timed out",
	} {
		if strings.Contains(message, text) {
			return true
		}
	}
	return strings.Contains(message, `namespaces "`) && strings.Contains(message, "not found")
}

// conflictIsStale makes a conflict ErrStale: somebody else wrote, and an event of it is under way.
func conflictIsStale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errors.Join(ErrStale, err)
	}
	return err
}
