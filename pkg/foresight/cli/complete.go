package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/plugin"
)

// completionTimeout bounds how long a shell waits for completions.
const completionTimeout = 3 * time.Second

// complete completes the first argument: its kind, and then its name.
func (e *explainer) complete(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if kind, _, named := strings.Cut(begun, "/"); named && isKind(kind, clusterNames, "cluster.open-cluster-management.io") {
		return completeNames(kind, begun, e.clusterNames(cmd.Context())), cobra.ShellCompDirectiveNoFileComp
	}
	return e.completeSubject(cmd.Context(), begun, "policy", "cluster", "package", "packagerevision")
}

// completeSubject completes KIND/NAME with what the WDS serves, and with policies. Others are
// further kinds.
func (o *options) completeSubject(ctx context.Context, begun string, others ...string) ([]string, cobra.ShellCompDirective) {
	kind, _, named := strings.Cut(begun, "/")
	switch {
	case !named:
		return o.completeKinds(begun, others...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	case isKind(kind, policyNames, "control.kubestellar.io"):
		return completeNames(kind, begun, o.policyNames(ctx)), cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeObject(ctx, begun)
}

// completeObject completes KIND/NAME with what the WDS serves.
func (o *options) completeObject(ctx context.Context, begun string) ([]string, cobra.ShellCompDirective) {
	kind, _, named := strings.Cut(begun, "/")
	if !named {
		return o.completeKinds(begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return completeNames(kind, begun, o.objectNames(ctx, kind)), cobra.ShellCompDirectiveNoFileComp
}

func completeNames(kind, begun string, names []string) []string {
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = kind + "/" + name
	}
	return plugin.Matching(full, nil, begun)
}

// completeKinds returns the beginnings of arguments: resources whose objects may be delivered, and
// others.
func (o *options) completeKinds(begun string, others ...string) []string {
	kinds := map[string]bool{}
	for _, other := range others {
		kinds[other+"/"] = true
	}
	if discovery, err := o.flags.ToDiscoveryClient(); err == nil {
		lists, _ := discovery.ServerPreferredResources() // what is known of them is enough
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				continue
			}
			for i := range list.APIResources {
				one := &list.APIResources[i]
				gr := schema.GroupResource{Group: gv.Group, Resource: one.Name}
				if !strings.Contains(one.Name, "/") && slices.Contains(one.Verbs, "get") && !match.NeverResource(gr) {
					kinds[gr.String()+"/"] = true
				}
			}
		}
	}
	return plugin.Matching(slices.Collect(maps.Keys(kinds)), nil, begun)
}

// objectNames returns the names of the objects of a kind in the namespace, none after an error.
func (o *options) objectNames(ctx context.Context, kind string) []string {
	mapping, err := o.mapping(kind)
	if err != nil {
		return nil
	}
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if namespace, err = o.namespace(); err != nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list, err := client.Resource(mapping.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names
}

func (o *options) policyNames(ctx context.Context) []string {
	reader, err := o.factReader()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	return reader.Policies(ctx)
}

func (o *options) clusterNames(ctx context.Context) []string {
	reader, err := o.factReader()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	return reader.ClusterNames(ctx)
}
