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
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/writer"
)

const (
	// retryRefused is how long to wait before a refused write is retried: what makes it possible,
	// such as a new ClusterRoleBinding, causes no event here.
	retryRefused = 30 * time.Second
	// maxText bounds the texts of API servers in messages for users, in bytes.
	maxText = 300
)

// Errors receives why the status of an object cannot be returned, and "" when it can be
// again. It does not block.
type Errors interface {
	SetStatusError(ref objref.Ref, text string)
}

// setStatusError reports why the status of an object cannot be returned, "" for nothing, and logs
// what is new.
func (c *Controller) setStatusError(ctx context.Context, ref objref.Ref, text string) {
	c.mu.Lock()
	before := c.statusErrors[ref]
	if text == "" {
		delete(c.statusErrors, ref)
	} else {
		c.statusErrors[ref] = text
	}
	c.mu.Unlock()
	if before == "" && text == "" {
		return
	}
	switch {
	case text == "":
		klog.FromContext(ctx).Info("Returned status again")
	case before != text:
		klog.FromContext(ctx).Info("Cannot return status", logging.Reason, text)
	}
	// Also if it is the same: other policies may request the status now.
	c.config.StatusErrors.SetStatusError(ref, text)
}

// refusedError is a refusal by the WDS that lasts until somebody changes something there.
type refusedError struct {
	text  string // for users
	after time.Duration
}

func (e *refusedError) Error() string { return e.text }

// asRefusal returns a refusal for the user if the error is one that a retry cannot heal, else nil.
func asRefusal(ref objref.Ref, err error) *refusedError {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return refused
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return &refusedError{text: fmt.Sprintf("the status of %s cannot be returned: the WDS refuses it: %s", ref, text.Clip(err.Error(), maxText)), after: retryRefused}
	}
	return nil
}

// forbidden are the objects, by resource and namespace, that may not be patched. One failed attempt
// stands for all of them.
type forbidden struct {
	resource  schema.GroupResource
	namespace string
}

// writeObject patches an object itself, not its status. By default, binding-controller has no right
// to do that with custom resources.
func (c *Controller) writeObject(ctx context.Context, target writer.Target, body []byte, reason string) (*metav1.PartialObjectMetadata, error) {
	gr := target.Resource.GroupResource()
	of := forbidden{gr, target.Namespace}
	c.mu.Lock()
	left := c.forbidden[of].Sub(c.config.Clock.Now())
	c.mu.Unlock()
	if left > 0 {
		return nil, &refusedError{text: ungranted(gr), after: left}
	}
	answer, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, body, reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	// What admission forbids has another text, and may concern this object alone.
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource") {
		c.forbidden[of] = c.config.Clock.Now().Add(retryRefused)
		return nil, &refusedError{text: ungranted(gr), after: retryRefused}
	}
	if err == nil {
		delete(c.forbidden, of)
	}
	return answer, err
}

// ungranted returns the text for a missing right, with the commands that grant it.
func ungranted(gr schema.GroupResource) string {
	return fmt.Sprintf("the status of %s cannot be returned: binding-controller must label these objects in the WDS, but may not patch them; "+
		"grant it with: kubectl create clusterrole status-return-%s --verb=patch --resource=%s and kubectl create clusterrolebinding status-return-%s "+
		"--clusterrole=status-return-%s --serviceaccount=starling-system:binding-controller (docs/custom-resources.md)",
		gr, gr.Resource, gr, gr.Resource, gr.Resource)
}

// refusals are the fields of a status that the WDS does not let us write, and why.
type refusals struct {
	fields []string
	why    map[string]string
}

// add adds the fields that an error names. It returns false if the error names anything else, or a
// field that was added before.
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

// message returns the text for the user, "" if nothing was refused.
func (r *refusals) message(ref objref.Ref) string {
	if len(r.fields) == 0 {
		return ""
	}
	reasons := make([]string, 0, len(r.fields))
	for _, field := range slices.Sorted(slices.Values(r.fields)) {
		reasons = append(reasons, fmt.Sprintf(".status.%s (%s)", field, text.Clip(r.why[field], maxText)))
	}
	return fmt.Sprintf("the WDS refuses %s of the status of %s and keeps the previous %s: %s",
		text.Count(len(reasons), "field"), ref, text.Plural(len(reasons), "value", "values"), strings.Join(reasons, ", "))
}
