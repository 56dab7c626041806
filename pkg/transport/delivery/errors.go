package delivery

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

func isSecret(ref objref.Ref) bool { return ref.Group == "" && ref.Resource == "secrets" }

// writeError returns the text of a failed write. The answer to a write with a Secret may quote the
// Secret: only its reason is in the text.
func writeError(a *plan.Action, err error) string {
	secret := false
	for i := range a.After {
		secret = secret || isSecret(a.After[i].Ref)
	}
	if a.Verb == plan.Create && apierrors.IsAlreadyExists(err) {
		// The Plugin would have reported a work of ours, unless it was created just now: then the
		// next attempt finds it.
		return placement.Clip("work " + a.Name + " cannot be created: a work of that name exists, but its label " + controlv1alpha1.LabelWDSUID + " or " +
			controlv1alpha1.LabelBindingUID + " was changed. Restore the label, or delete the work")
	}
	var status apierrors.APIStatus
	if secret && errors.As(err, &status) {
		return placement.Clip(string(a.Verb) + " work " + a.Name + ": " + string(apierrors.ReasonForError(err)) + " (text withheld: the work contains a Secret)")
	}
	return placement.Clip(err.Error())
}
