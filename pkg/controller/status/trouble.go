package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

const (
	// lookAgain is how long what was refused is not tried again: what makes it possible, a grant say, is no event for us.
	lookAgain = 30 * time.Second
	// maxTrouble bounds the texts of API servers that users are shown.
	maxTrouble = 300
)

// Troubles is told what keeps the status of an object from coming back, and "" when nothing does any more. It does not block.
type Troubles interface {
	SetStatusTrouble(ref objref.Ref, trouble string)
}

// troubled tells of the trouble with an object, "" for none. It says in the log what is new.
func (c *Controller) troubled(ctx context.Context, ref objref.Ref, trouble string) {
	c.mu.Lock()
	before := c.troubles[ref]
	if trouble == "" {
		delete(c.troubles, ref)
	} else {
		c.troubles[ref] = trouble
	}
	c.mu.Unlock()
	if before == "" && trouble == "" {
		return
	}
	switch {
	case trouble == "":
		klog.FromContext(ctx).Info("Status is returned again", logging.Object, ref.String())
	case before != trouble:
		klog.FromContext(ctx).Info("Status cannot be returned", logging.Object, ref.String(), logging.Reason, trouble)
	}
	// Also if it is the same: other policies may ask now.
	c.config.Troubles.SetStatusTrouble(ref, trouble)
}

// refusedError says that the WDS will not let us write, until somebody changes something there.
type refusedError struct {
	text  string // for users
	after time.Duration
}

func (e *refusedError) Error() string { return e.text }

// asRefusal returns what to tell the user if the API server refused the write for good.
func asRefusal(ref objref.Ref, err error) *refusedError {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return refused
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return &refusedError{text: fmt.Sprintf("the status of %s cannot be returned: the WDS refuses it: %s", ref, clip(err.Error())), after: lookAgain}
	}
	return nil
}

// barred are the objects, by resource and namespace, that may not be patched: of each 10,000 one is tried and tells of all.
type barred struct {
	resource  schema.GroupResource
	namespace string
}

// writeObject patches an object itself, not its status. That needs a right which is not given for custom resources.
func (c *Controller) writeObject(ctx context.Context, target write.Target, body []byte, reason string) (*metav1.PartialObjectMetadata, error) {
	gr := target.Resource.GroupResource()
	of := barred{gr, target.Namespace}
	c.mu.Lock()
	left := c.barred[of].Sub(c.config.Clock.Now())
	c.mu.Unlock()
	if left > 0 {
		return nil, &refusedError{text: ungranted(gr), after: left}
	}
	answer, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, body, reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	// What admission forbids has another text; it may be about this object alone.
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource") {
		c.barred[of] = c.config.Clock.Now().Add(lookAgain)
		return nil, &refusedError{text: ungranted(gr), after: lookAgain}
	}
	if err == nil {
		delete(c.barred, of)
	}
	return answer, err
}

// ungranted says which right is missing, and how to grant it.
func ungranted(gr schema.GroupResource) string {
	return fmt.Sprintf("the status of %s cannot be returned: the binding-controller may not patch them in the WDS, and must, to label them; "+
		"grant it with: kubectl create clusterrole status-return-%s --verb=patch --resource=%s and kubectl create clusterrolebinding status-return-%s "+
		"--clusterrole=status-return-%s --serviceaccount=starling-system:binding-controller (docs/custom-resources.md)",
		gr, gr.Resource, gr, gr.Resource, gr.Resource)
}

// refusals are the fields of a status that the WDS does not let us write, and why.
type refusals struct {
	fields []string
	why    map[string]string
}

// add takes over the fields that an error is about. It returns false if the error is about something else, or not only about
// fields that are new.
func (r *refusals) add(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) || answer.Status().Details == nil {
		return false
	}
	found := map[string]string{}
	for _, cause := range answer.Status().Details.Causes {
		path, isStatus := strings.CutPrefix(cause.Field, "status.")
		field, _, _ := strings.Cut(path, ".")
		field, _, _ = strings.Cut(field, "[")
		if !isStatus || field == "" || slices.Contains(r.fields, field) {
			return false
		}
		if found[field] == "" {
			found[field] = cause.Message
		}
	}
	if len(found) == 0 {
		return false
	}
	if r.why == nil {
		r.why = map[string]string{}
	}
	maps.Copy(r.why, found)
	r.fields = append(r.fields, slices.Sorted(maps.Keys(found))...)
	return true
}

// text tells the user, "" if nothing was refused.
func (r *refusals) text(ref objref.Ref) string {
	if len(r.fields) == 0 {
		return ""
	}
	reasons := make([]string, 0, len(r.fields))
	for _, field := range slices.Sorted(slices.Values(r.fields)) {
		reasons = append(reasons, fmt.Sprintf(".status.%s (%s)", field, clip(r.why[field])))
	}
	return fmt.Sprintf("of the status of %s the WDS refuses, and keeps as it was: %s", ref, strings.Join(reasons, ", "))
}

func clip(text string) string {
	if len(text) <= maxTrouble {
		return text
	}
	return strings.ToValidUTF8(text[:maxTrouble], "") + " …"
}
