package plan

import (
	"strings"

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
	return text.Clip(text.OneLine(strings.TrimPrefix(refusal, "Failed to apply manifest: ")), maxRefusal)
}

// Transient reports whether a cluster failed to apply the object for a reason that passes by
// itself: what the object needs does not exist yet, or what is in its way is being deleted. API
// servers have no error code for it. These are their texts, and OCM's for a kind that is not
// served.
func (i *Item) Transient() bool {
	for _, passing := range []string{
		"the server doesn't have a resource type",
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
