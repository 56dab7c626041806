package explain

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/render"
)

// content is an object as all clusters get it.
type content struct {
	*render.Manifest
	// wrong says why there is no content, and unread what could not be read for it.
	wrong  *foresight.Link
	unread string
}

// render computes the object as the cluster is to receive it.
func (p *passage) render(*chain) {
	if p.Live.Value == nil {
		p.renderUnread = p.Live.Unread
		return
	}
	if p.manifest == nil {
		p.manifest = p.content()
	}
	of := p.manifest
	p.renderError, p.renderUnread = of.wrong, of.unread
	switch {
	case of.wrong != nil || of.unread != "":
	case of.Template != nil && (p.box.Properties.Unread != "" || p.box.Properties.Value == nil):
		p.renderUnread = p.box.Properties.Unread
	default:
		object, err := of.At(p.box.Properties.Value)
		if err != nil {
			p.renderError = p.cannotRender(fmt.Sprintf("its templates cannot be expanded for cluster %s: %s", p.cluster, err), p.edit(),
				fmt.Sprintf("kubectl --context %s edit configmap %s --namespace %s", p.its(), p.cluster, controlv1alpha1.PropertiesNamespace))
			return
		}
		p.rendered = &object
	}
}

// content computes the object as all clusters get it.
func (o *Object) content() *content {
	if err := render.Withheld(o.Ref, o.Settings.Transport.ManagementNamespaces); err != nil && o.Settings.TransportUnread == "" {
		return &content{wrong: o.cannotRender(err.Error())}
	}
	if o.CustomTransforms.Unread != "" {
		return &content{unread: o.CustomTransforms.Unread}
	}
	manifest, err := render.Render(&render.Source{
		Ref: o.Ref, UID: o.Live.Value.GetUID(), Object: o.Live.Value.DeepCopy().Object, Removal: customtransform.Settled(o.CustomTransforms.Value)(o.Ref.GroupResource()),
	})
	if unknown, is := errors.AsType[*render.UnknownRemovalError](err); is {
		names := strings.Join(unknown.CustomTransforms, " ")
		return &content{wrong: o.cannotRender(fmt.Sprintf("CustomTransform %s has errors, and what it is to remove is not known", names),
			"kubectl get customtransform "+names+" -o jsonpath='{.status.errors}'")}
	}
	if in, is := errors.AsType[*render.NotConvertedError](err); is {
		return &content{wrong: o.cannotRender(in.Error(), "kubectl replace --filename FILE   # with the whole object in version "+in.Read,
			"kubectl annotate "+o.named()+" "+controlv1alpha1.AnnotationNotConverted+"-   # if it is whole")}
	}
	if err != nil {
		return &content{wrong: o.cannotRender(strings.ReplaceAll(err.Error(), "\n", "; "), o.edit())}
	}
	return &content{Manifest: manifest}
}

func (o *Object) cannotRender(what string, fix ...string) *foresight.Link {
	return &foresight.Link{Name: LinkRendered, State: foresight.Broken, Text: o.Ref.String() + " cannot be delivered: " + what, Fix: fix}
}

// edit returns the command that edits the object.
func (o *Object) edit() string {
	var b *controlv1alpha1.Binding
	if len(o.Packages.Value) > 0 {
		b = o.Packages.Value[0]
	}
	return cmp.Or(changePackage(b), "kubectl edit "+o.named())
}

// named returns the object as arguments of kubectl.
func (o *Object) named() string {
	named := o.Ref.GroupResource().String() + " " + o.Ref.Name
	if o.Ref.Namespace != "" {
		named += " --namespace " + o.Ref.Namespace
	}
	return named
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
