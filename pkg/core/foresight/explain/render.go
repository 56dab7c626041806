package explain

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// render computes the object as the cluster is to receive it.
func (p *passage) render(*chain) {
	if p.Live.Value == nil {
		p.renderUnread = p.Live.Unread
		return
	}
	fail := func(what string, fix ...string) {
		p.renderError = &foresight.Link{Name: LinkRendered, State: foresight.Broken, Text: p.Ref.String() + " cannot be delivered: " + what, Fix: fix}
	}
	edit := "kubectl edit " + p.Ref.GroupResource().String() + " " + p.Ref.Name
	if p.Ref.Namespace != "" {
		edit += " --namespace " + p.Ref.Namespace
	}
	if _, err := options.Parse(p.Live.Value.GetAnnotations()); err != nil {
		fail(strings.ReplaceAll(err.Error(), "\n", "; "), edit)
		return
	}
	if p.CustomTransforms.Unread != "" {
		p.renderUnread = p.CustomTransforms.Unread
		return
	}
	instructions, _ := customtransform.NewCollection(func(schema.GroupResource) []*controlv1alpha1.CustomTransform {
		return p.CustomTransforms.Value
	}).Changes(p.binding.Name, p.Ref.GroupResource())
	if len(instructions.Unknown) > 0 {
		names := strings.Join(instructions.Unknown, " ")
		fail(fmt.Sprintf("CustomTransform %s has errors, and what it is to remove is not known", names),
			"kubectl get customtransform "+names+" -o jsonpath='{.status.errors}'")
		return
	}
	object, err := transform.Standard(instructions.Apply).Apply(p.Ref, p.Live.Value.DeepCopy().Object)
	if err != nil {
		fail(err.Error(), edit)
		return
	}
	template, err := customize.Compile(object)
	switch {
	case err != nil:
		fail(err.Error(), edit)
		return
	case template == nil:
		p.rendered = &object
		return
	case p.box.Properties.Unread != "" || p.box.Properties.Value == nil:
		p.renderUnread = p.box.Properties.Unread
		return
	}
	if object, err = template.Expand(p.box.Properties.Value); err != nil {
		fail(fmt.Sprintf("its templates cannot be expanded for cluster %s: %s", p.cluster, err), edit,
			fmt.Sprintf("kubectl --context %s edit configmap %s --namespace %s", p.its(), p.cluster, controlv1alpha1.PropertiesNamespace))
		return
	}
	p.rendered = &object
}

// isRendered judges whether the object can be delivered as it is.
func (p *passage) isRendered(c *chain) {
	if p.renderError != nil {
		c.end(*p.renderError)
		return
	}
	if said := p.said(true); said != "" && p.current() {
		c.broken(LinkRendered, p.Ref.String()+": "+said)
		return
	}
	switch {
	case p.renderUnread != "":
		c.add(foresight.Link{
			Name: LinkRendered, State: foresight.Unknown,
			Text: "whether cluster " + p.cluster + " has the current content of " + p.Ref.String() + " is unknown: " + p.renderUnread,
		})
	case p.rendered == nil:
	case bytes.Contains(p.rendered.JSON, []byte(controlv1alpha1.AnnotationExpandTemplates)):
		c.good(LinkRendered, "rendered for cluster %s, with its properties", p.cluster)
	default:
		c.good(LinkRendered, "rendered")
	}
}
