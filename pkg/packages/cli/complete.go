package cli

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd/api"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/plugin"
)

// completionTimeout bounds how long a shell waits for completions.
const completionTimeout = 3 * time.Second

// repositories is the resource of Repositories.
var repositories = schema.GroupVersionResource{Group: "config.porch.kpt.dev", Version: "v1alpha1", Resource: "repositories"}

// objectNames returns the names of all objects of a kind, or none after an error. It reads only
// metadata.
func (o *Options) objectNames(ctx context.Context, resource schema.GroupVersionResource, namespaced bool, fields string) []string {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	namespace := ""
	if namespaced {
		if namespace, _, err = o.config.ToRawKubeConfigLoader().Namespace(); err != nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return nil
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names
}

// completeRevisions completes the first arguments with names of revisions, of the given lifecycles
// if there are any, and the next argument with a folder.
func (o *Options) completeRevisions(arguments int, lifecycles ...porchv1alpha1.PackageRevisionLifecycle) plugin.Completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= arguments {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		selectors := []string{""}
		if len(lifecycles) > 0 {
			selectors = nil
		}
		for _, l := range lifecycles {
			selectors = append(selectors, "spec.lifecycle="+string(l))
		}
		var found []string
		for _, selector := range selectors {
			found = append(found, o.objectNames(cmd.Context(), porchv1alpha1.ResourcePackageRevisions, true, selector)...)
		}
		return plugin.Matching(found, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNames completes a flag with names of objects.
func (o *Options) completeNames(resource schema.GroupVersionResource, namespaced bool) plugin.Completion {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return plugin.Matching(o.objectNames(cmd.Context(), resource, namespaced, ""), nil, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeConfig completes the flags that all commands have.
func (o *Options) completeConfig(root *cobra.Command) {
	plugin.RegisterFunc(root, "namespace", o.completeNames(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, false))
	fromConfig := func(flag string, names func(*api.Config) []string) {
		plugin.RegisterValues(root, flag, func() []string {
			config, err := o.config.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				return nil
			}
			return names(&config)
		})
	}
	fromConfig("context", func(c *api.Config) []string { return slices.Collect(maps.Keys(c.Contexts)) })
	fromConfig("cluster", func(c *api.Config) []string { return slices.Collect(maps.Keys(c.Clusters)) })
	fromConfig("user", func(c *api.Config) []string { return slices.Collect(maps.Keys(c.AuthInfos)) })
}
