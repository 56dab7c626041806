package foresight

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/starlinghq/starling/pkg/core/settings"
)

// readSettings returns the settings that the controllers of a WDS publish. What it cannot read are
// the defaults.
func readSettings(ctx context.Context, wds dynamic.Interface) settings.Known {
	known := settings.Unknown("")
	together(
		func() {
			known.BindingsUnread = readOne(ctx, wds, settings.OfBindings, settings.ParseBindings, &known.Bindings)
		},
		func() {
			known.TransportUnread = readOne(ctx, wds, settings.OfTransport, settings.ParseTransport, &known.Transport)
		},
	)
	return known
}

// readOne reads one ConfigMap. It returns why it could not, "" if it could.
func readOne[T any](ctx context.Context, wds dynamic.Interface, name string, parse func(map[string]string) (T, error), into *T) (unknown string) {
	found, err := wds.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(settings.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "it has not published them: there is no ConfigMap " + settings.Namespace + "/" + name
	}
	if err != nil {
		return unread("get", "configmap "+settings.Namespace+"/"+name, "", err)
	}
	data, _, err := unstructured.NestedStringMap(found.Object, "data")
	if err == nil {
		var value T
		if value, err = parse(data); err == nil {
			*into = value
			return ""
		}
	}
	return "ConfigMap " + settings.Namespace + "/" + name + " cannot be understood: " + err.Error()
}
