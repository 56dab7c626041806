package packagecli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd/api"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// completionPatience bounds how long a shell waits for names.
const completionPatience = 3 * time.Second

// repositories are what packages lie in.
var repositories = schema.GroupVersionResource{Group: "config.porch.kpt.dev", Version: "v1alpha1", Resource: "repositories"}

// names returns the names of all objects of a kind, of which no more than metadata is read; none if they cannot be had.
func (o *Options) names(ctx context.Context, resource schema.GroupVersionResource, namespaced bool, fields string) []string {
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
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
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

// completion offers values for an argument or a flag.
type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeRevisions offers names of revisions, of those lifecycles if any are named, for the first so many arguments; for the one after
// those, folders.
func (o *Options) completeRevisions(arguments int, lifecycles ...porchv1alpha1.PackageRevisionLifecycle) completion {
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
			found = append(found, o.names(cmd.Context(), porchv1alpha1.ResourcePackageRevisions, true, selector)...)
		}
		return offered(found, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// anyNumber is more arguments than anybody gives.
const anyNumber = 1 << 20

// completeNames offers names of objects for a flag.
func (o *Options) completeNames(resource schema.GroupVersionResource, namespaced bool) completion {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return offered(o.names(cmd.Context(), resource, namespaced, ""), nil, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// offered are the names that go on as the user began, and were not given yet; sorted.
func offered(names, given []string, begun string) []string {
	kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !strings.HasPrefix(name, begun) || slices.Contains(given, name)
	})
	slices.Sort(kept)
	return kept
}

// register offers fixed values for a flag.
func register(cmd *cobra.Command, flag string, values func() []string) {
	registerFunc(cmd, flag, func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return offered(values(), nil, begun), cobra.ShellCompDirectiveNoFileComp
	})
}

func registerFunc(cmd *cobra.Command, flag string, f completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("packagecli: " + err.Error()) // a flag that is not there
	}
}

// completeConfig offers values for the flags that every command has.
func (o *Options) completeConfig(root *cobra.Command) {
	registerFunc(root, "namespace", o.completeNames(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, false))
	fromConfig := func(flag string, names func(*api.Config) []string) {
		register(root, flag, func() []string {
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
