package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/util/templates"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/plugin"
)

// explainer are the options of `explain`.
type explainer struct {
	*options

	cluster, object string
	all             bool
	output          *plugin.FormatFlag
}

// NewExplainCommand returns the command `explain`. The flags connect to the WDS.
func NewExplainCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	return newExplainCommand(newOptions(flags, streams), clock.RealClock{})
}

func newExplainCommand(o *options, c clock.PassiveClock) *cobra.Command {
	o.clock = c
	e := &explainer{options: o, output: &plugin.FormatFlag{Allowed: []string{"json", "yaml"}}}
	cmd := &cobra.Command{
		Use:   "explain (KIND/NAME | policy/NAME | package/REPOSITORY/NAME | cluster/NAME)",
		Short: "Say why an object is not in a cluster, and what mends it",
		Long: templates.LongDesc(`
			Say where an object, a policy, a package or a cluster is on its way. An object exists in the WDS, a policy selects it, a Binding
			lists it, a mailbox receives it, the cluster applies it, reports on it, and its status returns. The answer is the first of these
			links that is broken, and the command that mends it. Links after it are not judged.

			The WDS is the current context, with the namespace of --namespace. Clusters are read in the ITSes of --its-context. Without an
			ITS, everything up to the Binding is known. What you may not read is said to be unknown.

			Without --cluster, clusters with the same outcome are shown together, the worst first.

			Providers, Configurations and Functions of pkg.crossplane.io have "kubectl starling tx explain".`),
		Example: templates.Examples(`
			# Why is the Deployment not in cluster c1?
			kubectl starling explain deploy/web -n shop --cluster c1

			# How far is it in all clusters?
			kubectl starling explain deployments.v1.apps/web -n shop

			# What is wrong with a policy, and why does it not select a ConfigMap?
			kubectl starling explain policy/shop
			kubectl starling explain policy/shop --object configmap/settings -n shop

			# Is a published package in its cluster?
			kubectl starling explain packagerevision/c1.web.v2
			kubectl starling explain package/c1/web

			# Does a cluster apply what it receives?
			kubectl starling explain cluster/c1`),
		Args:              plugin.ArgCount(1, 2),
		ValidArgsFunction: e.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.output.Check(); err != nil {
				return err
			}
			return e.run(cmd.Context(), strings.Join(args, "/"))
		},
	}
	// It hides the flag of kubectl with this name, which chooses a cluster of the kubeconfig.
	cmd.Flags().StringVar(&e.cluster, "cluster", "", "Name of the cluster to explain. If empty, all clusters are explained.")
	cmd.Flags().StringVar(&e.object, "object", "", "Object, as KIND/NAME, that the policy should select.")
	cmd.Flags().BoolVar(&e.all, "all", false, "If true, show the links that are good, too.")
	e.output.AddTo(cmd)
	o.itses.AddTo(cmd)
	plugin.RegisterFunc(cmd, "cluster", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return plugin.Matching(e.clusterNames(cmd.Context()), nil, begun), cobra.ShellCompDirectiveNoFileComp
	})
	plugin.RegisterFunc(cmd, "object", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return e.completeObject(cmd.Context(), begun)
	})
	return cmd
}

// kinds that the command explains itself, by the names that users give them.
var (
	policyNames   = []string{"policy", "policies", "bindingpolicy", "bindingpolicies", "bp"}
	clusterNames  = []string{"cluster", "clusters", "managedcluster", "managedclusters"}
	packageNames  = []string{"package", "packages", "pkg"}
	revisionNames = []string{"packagerevision", "packagerevisions"}
	// transactionNames are explained by another command.
	transactionNames = []string{"provider", "providers", "configuration", "configurations", "function", "functions", "transaction", "transactions", "tx"}
)

func (e *explainer) run(ctx context.Context, text string) error {
	kind, name, found := strings.Cut(text, "/")
	if !found || kind == "" || name == "" {
		return fmt.Errorf("invalid argument %q: must be KIND/NAME, such as deployment/web", text)
	}
	kindIs := func(names []string, group string) bool { return isKind(kind, names, group) }
	switch {
	case e.object != "" && !kindIs(policyNames, "control.kubestellar.io"):
		return errors.New("--object is only for a policy")
	case e.cluster != "" && (kindIs(clusterNames, "cluster.open-cluster-management.io") || kindIs(packageNames, "") || kindIs(revisionNames, "porch.kpt.dev")):
		return errors.New("--cluster is only for objects and policies")
	case kindIs(transactionNames, "pkg.crossplane.io"):
		return fmt.Errorf("%s is of pkg.crossplane.io: run `kubectl starling tx explain %s`", text, text)
	}
	reader, err := e.factReader()
	if err != nil {
		return err
	}
	explanation, err := e.explain(ctx, reader, kind, name)
	if err == nil {
		err = reader.Err()
	}
	if err != nil {
		return err
	}
	explanation.Change(e.itses.ConnectAll)
	if e.output.Value != "" {
		return plugin.Structured(e.Out, explanation, e.output.Value)
	}
	explanation.Draw(plugin.Output(e.Out), e.all)
	return nil
}

// isKind reports whether the user has named a kind, with or without its group.
func isKind(text string, names []string, group string) bool {
	text = strings.ToLower(text)
	for _, name := range names {
		if text == name || group != "" && (text == name+"."+group || strings.HasPrefix(text, name+".v1") && strings.HasSuffix(text, "."+group)) {
			return true
		}
	}
	return false
}

func (e *explainer) explain(ctx context.Context, reader *foresight.Reader, kind, name string) (*explain.Explanation, error) {
	namespace, err := e.namespace()
	if err != nil {
		return nil, err
	}
	p := e.progress("reading %s/%s", kind, name)
	defer p.Stop()
	switch {
	case isKind(kind, policyNames, "control.kubestellar.io") && e.object == "":
		return reader.Policy(ctx, name, e.cluster).Explain(), nil
	case isKind(kind, policyNames, "control.kubestellar.io"):
		of, own, found := strings.Cut(e.object, "/")
		if !found {
			return nil, fmt.Errorf("invalid --object %q: must be KIND/NAME, such as deployment/web", e.object)
		}
		return e.explainObject(ctx, reader, of, foresight.ObjectQuery{Namespace: namespace, Name: own, Policy: name, Cluster: e.cluster})
	case isKind(kind, clusterNames, "cluster.open-cluster-management.io"):
		return reader.Cluster(ctx, name).Explain(), nil
	case isKind(kind, revisionNames, "porch.kpt.dev"):
		return reader.Package(ctx, foresight.PackageQuery{Namespace: namespace, Revision: name}).Explain(), nil
	case isKind(kind, packageNames, ""):
		repository, of, found := strings.Cut(name, "/")
		if !found {
			return nil, fmt.Errorf("invalid package %q: must be package/REPOSITORY/NAME, such as package/c1/web", name)
		}
		return reader.Package(ctx, foresight.PackageQuery{Namespace: namespace, Repository: repository, Name: of}).Explain(), nil
	}
	return e.explainObject(ctx, reader, kind, foresight.ObjectQuery{Namespace: namespace, Name: name, Cluster: e.cluster})
}

// explainObject explains an object of any kind that the WDS serves.
func (e *explainer) explainObject(ctx context.Context, reader *foresight.Reader, kind string, q foresight.ObjectQuery) (*explain.Explanation, error) {
	if strings.Contains(q.Name, "/") {
		return nil, fmt.Errorf("invalid argument %q: must be KIND/NAME, such as deployment/web", kind+"/"+q.Name)
	}
	mapping, err := e.mapping(kind)
	if err != nil {
		return nil, err
	}
	q.Resource = mapping.Resource
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		q.Namespace = ""
	}
	return reader.Object(ctx, q).Explain(), nil
}

// mapping returns what the WDS serves under a name, as kubectl takes it: a plural, a singular, a
// short name or a kind, with or without version and group.
func (o *options) mapping(kind string) (*meta.RESTMapping, error) {
	mapper, err := o.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	versioned, resource := schema.ParseResourceArg(kind)
	gvk := schema.GroupVersionKind{}
	if versioned != nil {
		gvk, _ = mapper.KindFor(*versioned)
	}
	if gvk.Empty() {
		gvk, err = mapper.KindFor(resource.WithVersion(""))
	}
	if !gvk.Empty() {
		return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	byKind, groupKind := schema.ParseKindArg(kind)
	if byKind != nil {
		if mapping, err := mapper.RESTMapping(byKind.GroupKind(), byKind.Version); err == nil {
			return mapping, nil
		}
	}
	if mapping, err := mapper.RESTMapping(groupKind, ""); err == nil {
		return mapping, nil
	}
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the WDS doesn't have a resource type %q", kind)
	}
	return nil, err
}
