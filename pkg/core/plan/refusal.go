package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// maxRefusal bounds the text of a Refusal, in bytes.
const maxRefusal = 512

// Refusal returns the text of a cluster about an object that it could not apply, in one line and
// without the Secret that the text may quote.
func (i *Item) Refusal() string {
	refusal := i.Message
	switch {
	case i.Ref.Group == "" && i.Ref.Resource == "secrets":
		refusal = i.Reason + " (text withheld: the object is a Secret)"
	case refusal == "":
		refusal = i.Reason
	}
	refusal = text.Clip(text.OneLine(strings.TrimPrefix(refusal, "Failed to apply manifest: ")), maxRefusal)
	if i.Immutable && !IsImmutable(refusal) {
		refusal += ": field is immutable" // API servers quote all of the value before they say so
	}
	return refusal
}

// NotServed reports whether the cluster does not serve the kind of the object. It has no such
// object then.
func (i *Item) NotServed() bool { return !denied(i.Message) && strings.Contains(i.Message, notServed) }

// denied reports whether the message is that of a cluster whose webhook, or policy, denied the
// request. Their texts are anybody's, and may have the words of an API server: nothing follows from
// them.
func denied(message string) bool {
	return strings.Contains(message, "denied the request") || strings.Contains(message, "denied request")
}

const (
	// notServed is the text of OCM's agent about a kind that the cluster does not serve.
	notServed = "the server doesn't have a resource type"
	// notAllowed is the text of an API server about a request for which the agent has no right.
	notAllowed = ` is forbidden: User "`
)

// Unread reports whether the agent of the cluster may be unable to read the object. While it cannot
// read one object of a work, it deletes nothing that left the work, and records nothing that came:
// its report that another one is applied does not prove that it keeps account of that one.
func (i *Item) Unread() bool { return i.State == Failed && UnreadFor(i.Ref.GroupResource(), i.Message) }

// UnreadFor reports whether an agent that could not apply an object of this resource, for this
// reason, may be unable to read it, too.
func UnreadFor(gr schema.GroupResource, message string) bool {
	invalid := strings.Contains(message, " is invalid: ") // what can be judged can be read
	if invalid || denied(message) || strings.Contains(message, notAllowed) && slices.Contains(readable, gr) {
		return false
	}
	for _, reason := range []string{
		notServed, notAllowed, "connection refused", "etcdserver: ", "dial tcp", "timed out", "timeout", "deadline exceeded",
		"Unauthorized", "the server is currently unable to handle the request", "conversion webhook for",
	} {
		if strings.Contains(message, reason) {
			return !strings.Contains(message, "failed calling webhook") // that is about writes
		}
	}
	return false
}

// readable are resources that OCM's agent may read in each cluster, and not write unless it has got
// that right: it has the ClusterRole admin.
var readable = []schema.GroupResource{{Resource: "limitranges"}, {Resource: "resourcequotas"}}

// barred reports whether the agent could not read an object that was withdrawn, and not just for a
// moment. It leaves although it is not noted: until then the agent notes nothing else of the work.
func (i *Item) barred() bool {
	return i.Withdrawn && i.Unread() && (strings.Contains(i.Message, notServed) || strings.Contains(i.Message, notAllowed))
}

// Unread returns the object that the agent may be unable to read, nil if there is none.
func (w *Work) Unread() *Item {
	for i := range w.Items {
		if w.Items[i].Unread() {
			return &w.Items[i]
		}
	}
	return nil
}

// NotIgnored returns the text about the ignored fields that a cluster cannot leave alone.
func (i *Item) NotIgnored() string {
	return fmt.Sprintf("the fields %s are not ignored, because the cluster treats them as one value with others: "+
		"they are applied as they are in the WDS. Remove them from the annotation %s",
		strings.Join(lines(i.Stage.Refused), ", "), controlv1alpha1.AnnotationIgnoreFields)
}

// Transient reports whether a cluster failed to apply the object for a reason that passes by
// itself: what the object needs does not exist yet, or what is in its way is being deleted. API
// servers have no error code for it. These are their texts, and OCM's for a kind that is not
// served.
func (i *Item) Transient() bool {
	if denied(i.Message) {
		return false
	}
	for _, passing := range []string{
		notServed,
		"no matches for kind",
		"the server could not find the requested resource",
		"because it is being terminated",
		"object is being deleted",
		"failed calling webhook",
		"connection refused",
		"etcdserver: request timed out",
	} {
		if strings.Contains(i.Message, passing) {
			return true
		}
	}
	return strings.Contains(i.Message, `namespaces "`) && strings.Contains(i.Message, "not found")
}
