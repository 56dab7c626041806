package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubectl/pkg/util/templates"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/core/transaction/report"
	"github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/transactions"
)

// exitChanges is the exit code if something would change.
const exitChanges = 2

// fieldManager is our name in managedFields.
const fieldManager = "kubectl-starling"

// planner is the command plan.
type planner struct {
	*options
	file, image, remove, replace, with, name string
	keep                                     bool
	timeout                                  time.Duration
	output                                   plugin.FormatFlag
}

func newPlanCommand(o *options) *cobra.Command {
	const timeout = 5 * time.Minute
	p := &planner{options: o, output: plugin.FormatFlag{Allowed: []string{"json", "yaml", wide}}}
	cmd := &cobra.Command{
		Use:   "plan (-f FILE | KIND/NAME --package IMAGE | --delete KIND/NAME | --replace (KIND/NAME | SOURCE) --with IMAGE)",
		Short: "Show what a package would change, or why it would be refused",
		Long: templates.LongDesc(`
			Show what the installation, the update, the deletion or the replacement of a package would change, or why it would be refused.
			Nothing is changed: a Transaction that only validates is created, and deleted when it has ended. It waits for the Lock as any
			other, and needs the same rights.

			Exit status: 0 if nothing would change, 2 if something would, 1 if it would be refused, or after an error.`),
		Example: templates.Examples(`
			# What would this manifest change?
			kubectl starling tx plan -f provider.yaml

			# What would an update change?
			kubectl starling tx plan provider/aws --package registry.example.com/org/provider-aws:v1.1.0

			# What would be deleted with a package, and does anything require it?
			kubectl starling tx plan --delete provider/aws

			# May a package take the place of one from another repository?
			kubectl starling tx plan --replace provider/aws --with registry.example.com/community/aws:v1.0.0`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := plugin.ArgCount(0, 2)(cmd, args); err != nil {
				return err
			}
			return p.check(args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			var found []string
			switch len(args) {
			case 0:
				for _, kind := range transactions.Kinds {
					found = append(found, strings.ToLower(kind.Name))
				}
				if strings.Contains(begun, "/") {
					found = o.packageNames(cmd.Context())
				}
			case 1:
				for _, name := range o.packageNames(cmd.Context()) {
					if kind, name, _ := strings.Cut(name, "/"); strings.EqualFold(kind, args[0]) {
						found = append(found, name)
					}
				}
			}
			return plugin.Matching(found, nil, begun), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := p.run(cmd.Context(), args)
			if err != nil {
				return err
			}
			if err := p.print(&plan); err != nil {
				return err
			}
			switch plan.Outcome {
			case report.Changes:
				return plugin.CodedError{Err: plugin.ErrSilent, Code: exitChanges}
			case report.Refused:
				return plugin.CodedError{Err: plugin.ErrSilent, Code: plugin.ExitFailed}
			case report.NoChanges:
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&p.file, "filename", "f", "", "File with a package or a Transaction. - is the standard input.")
	f.StringVar(&p.image, "package", "", "Image of the package. The other fields are those of the package, if it exists.")
	f.StringVar(&p.remove, "delete", "", "Package to delete, as KIND/NAME.")
	f.StringVar(&p.replace, "replace", "", "Package to replace, as KIND/NAME or as its repository.")
	f.StringVar(&p.with, "with", "", "Image of the replacement.")
	f.StringVar(&p.name, "name", "", "Name of the replacement. If empty, it is made of its repository.")
	f.BoolVar(&p.keep, "keep", false, "Do not delete the Transaction.")
	f.DurationVar(&p.timeout, "timeout", timeout, "How long to wait for the Transaction.")
	p.output.AddTo(cmd)
	completeFlag(cmd, "delete", o.packageNames)
	completeFlag(cmd, "replace", func(ctx context.Context) []string { return append(o.packageNames(ctx), o.sources(ctx)...) })
	if err := cmd.MarkFlagFilename("filename", "yaml", "yml", "json"); err != nil {
		panic("cli: " + err.Error())
	}
	return cmd
}

// check checks that one change is requested.
func (p *planner) check(args []string) error {
	if err := p.output.Check(); err != nil {
		return err
	}
	ways := 0
	for _, given := range []bool{p.file != "", len(args) > 0 || p.image != "", p.remove != "", p.replace != "" || p.with != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("specify one of -f FILE, KIND/NAME --package IMAGE, --delete KIND/NAME, and --replace SOURCE --with IMAGE")
	case (len(args) > 0 || p.image != "") && (len(args) == 0 || p.image == ""):
		return errors.New("specify KIND/NAME and --package IMAGE")
	case (p.replace == "") != (p.with == ""):
		return errors.New("specify --replace SOURCE and --with IMAGE")
	case p.name != "" && p.replace == "":
		return errors.New("--name is for --replace")
	}
	return nil
}

func (p *planner) run(ctx context.Context, args []string) (report.Plan, error) {
	client, err := p.client()
	if err != nil {
		return report.Plan{}, err
	}
	progress := p.progress("reading packages")
	defer progress.Stop()
	tx, err := p.transaction(ctx, client, args)
	if nothing, is := errors.AsType[*nothingError](err); is {
		return report.Plan{Change: "Delete " + p.remove, Outcome: report.NoChanges, Warnings: []string{nothing.Error()}}, nil
	} else if err != nil {
		return report.Plan{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errors.New("timed out"))
	defer cancel()
	created, err := client.Transactions().Create(ctx, tx, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return report.Plan{}, err
	}
	progress.Set("waiting for transaction %s", created.Name)
	ended, err := wait(ctx, client, created, progress)
	if !p.keep {
		err = errors.Join(err, discard(context.WithoutCancel(ctx), client, created))
	}
	if err != nil {
		return report.Plan{}, err
	}
	progress.Stop()
	if p.keep {
		fmt.Fprintf(p.ErrOut, "Kept transaction %s.\n", created.Name)
	}
	return report.NewPlan(ended), nil
}

// discard deletes a Transaction of ours.
func discard(ctx context.Context, client *transactions.Client, tx *pkgv1alpha1.Transaction) error {
	const timeout = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := client.Transactions().Delete(ctx, tx.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &tx.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete transaction %q, which is of no use any more: %w", tx.Name, err)
	}
	return nil
}

// transaction returns the Transaction to create.
func (p *planner) transaction(ctx context.Context, client *transactions.Client, args []string) (*pkgv1alpha1.Transaction, error) {
	tx := &pkgv1alpha1.Transaction{
		TypeMeta:   metav1.TypeMeta{APIVersion: pkgv1alpha1.GroupVersion.String(), Kind: "Transaction"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "plan-", Annotations: map[string]string{}},
	}
	var err error
	switch {
	case p.file != "":
		err = p.fromFile(ctx, client, tx)
	case p.image != "":
		err = p.update(ctx, client, tx, strings.Join(args, "/")) // "provider aws" as "provider/aws"
	case p.remove != "":
		err = p.deletion(ctx, client, tx)
	default:
		err = p.replacement(ctx, client, tx)
	}
	if err != nil {
		return nil, err
	}
	tx.Annotations[pkgv1.AnnotationValidateOnly] = "true"
	tx.Spec.RetryLimit = new(int64(1))
	return tx, nil
}

// fromFile sets what a file has: a package, or a Transaction.
func (p *planner) fromFile(ctx context.Context, client *transactions.Client, tx *pkgv1alpha1.Transaction) error {
	in := io.NopCloser(p.In)
	if p.file != "-" {
		file, err := os.Open(p.file)
		if err != nil {
			return err
		}
		in = file
	}
	defer in.Close()
	object, err := one(in)
	if err != nil {
		return fmt.Errorf("read %s: %w", p.file, err)
	}
	if object.GroupVersionKind().Group != pkgv1.GroupName {
		return fmt.Errorf("read %s: %s is no package: must be a Provider, Configuration, Function or Transaction of %s",
			p.file, object.GroupVersionKind().GroupKind(), pkgv1.GroupName)
	}
	if object.GetKind() == tx.Kind {
		maps.Copy(tx.Annotations, copied(object.GetAnnotations()))
		given := &pkgv1alpha1.Transaction{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, given); err != nil {
			return fmt.Errorf("read %s: %w", p.file, err)
		}
		tx.Spec = given.Spec
		return nil
	}
	kind, err := parseKind(object.GetKind())
	if err != nil {
		return fmt.Errorf("read %s: %w", p.file, err)
	}
	spec, err := json.Marshal(object.Object["spec"])
	if err != nil {
		return fmt.Errorf("read %s: %w", p.file, err)
	}
	live, err := find(ctx, client, kind, object.GetName())
	if err != nil {
		return err
	}
	maps.Copy(tx.Annotations, copied(keptByApply(live)))
	maps.Copy(tx.Annotations, copied(object.GetAnnotations()))
	tx.Spec.Change = pkgv1alpha1.ChangeTypeInstall
	tx.Spec.Install = &pkgv1alpha1.InstallSpec{Package: snapshot(kind, object.GetName(), spec)}
	return nil
}

// find returns a package, an empty one if it does not exist.
func find(ctx context.Context, client *transactions.Client, kind transactions.Kind, name string) (*pkgv1.Provider, error) {
	live, err := client.Packages(kind).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &pkgv1.Provider{}, nil
	}
	return live, err
}

// keptByApply returns the annotations of a package that "kubectl apply" keeps if the manifest does
// not have them: those that the last apply has not set.
func keptByApply(live *pkgv1.Provider) map[string]string {
	applied := metav1.PartialObjectMetadata{}
	_ = json.Unmarshal([]byte(live.Annotations[corev1.LastAppliedConfigAnnotation]), &applied) // without it, all are kept
	kept := maps.Clone(live.Annotations)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		_, set := applied.Annotations[key]
		return set
	})
	return kept
}

// one reads the one object of a YAML stream. A plan is about one package: what it says depends on
// what is installed.
func one(in io.Reader) (*unstructured.Unstructured, error) {
	const buffer = 4096
	decoder := utilyaml.NewYAMLOrJSONDecoder(in, buffer)
	var found []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			found = append(found, object)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("must have one object, has %d", len(found))
	}
	return found[0], nil
}

// copied returns the annotations that a Transaction gets from its package.
func copied(annotations map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range transaction.Annotations {
		if value, found := annotations[key]; found {
			kept[key] = value
		}
	}
	return kept
}

func snapshot(kind transactions.Kind, name string, spec []byte) pkgv1alpha1.PackageSnapshot {
	return pkgv1alpha1.PackageSnapshot{
		APIVersion: pkgv1.GroupVersion.String(), Kind: kind.Name,
		Metadata: pkgv1alpha1.PackageMetadata{Name: name}, Spec: runtime.RawExtension{Raw: spec},
	}
}

// update sets the installation of an image, by the package as it is.
func (p *planner) update(ctx context.Context, client *transactions.Client, tx *pkgv1alpha1.Transaction, name string) error {
	ref, err := parseRef(name)
	if err != nil {
		return err
	}
	kind, _ := transactions.KindOf(ref.Kind)
	live, err := find(ctx, client, kind, ref.Name)
	if err != nil {
		return err
	}
	live.Spec.Package = p.image
	maps.Copy(tx.Annotations, copied(live.Annotations))
	spec, err := json.Marshal(&live.Spec)
	tx.Spec.Change = pkgv1alpha1.ChangeTypeInstall
	tx.Spec.Install = &pkgv1alpha1.InstallSpec{Package: snapshot(kind, ref.Name, spec)}
	return err
}

// deletion sets the deletion of a package.
func (p *planner) deletion(ctx context.Context, client *transactions.Client, tx *pkgv1alpha1.Transaction) error {
	ref, err := parseRef(p.remove)
	if err != nil {
		return err
	}
	kind, _ := transactions.KindOf(ref.Kind)
	live, err := client.Packages(kind).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	maps.Copy(tx.Annotations, copied(live.Annotations))
	tree, err := treeOf(ctx, client)
	if err != nil {
		return err
	}
	source := ""
	if node := tree.Find(ref.String()); node != nil {
		source = node.Source
	} else if image, err := xpkg.ParseReference(live.Spec.Package); err == nil {
		source = image.Source
	} else {
		return err
	}
	if owner := tree.Find(source); owner != nil && owner.Package != "" && owner.Package != ref.String() {
		return &nothingError{ref.String(), source, owner.Package}
	}
	tx.Spec.Change, tx.Spec.Delete = pkgv1alpha1.ChangeTypeDelete, &pkgv1alpha1.DeleteSpec{Source: source}
	return nil
}

// nothingError says that the deletion of a package changes nothing, since another package has
// installed what it names. A Transaction that deletes the source would remove the other one.
type nothingError struct{ pkg, source, owner string }

// Error implements error.
func (e *nothingError) Error() string {
	return fmt.Sprintf("%s has not installed %s: that is of %s, and stays", e.pkg, e.source, e.owner)
}

// replacement sets the replacement of a package by one of the same kind.
func (p *planner) replacement(ctx context.Context, client *transactions.Client, tx *pkgv1alpha1.Transaction) error {
	image, err := xpkg.ParseReference(p.with)
	if err != nil {
		return err
	}
	lock, err := getLock(ctx, client)
	if err != nil {
		return err
	}
	source, kind := p.replace, transactions.Kinds[0]
	if isRef(source) {
		ref, err := parseRef(source)
		if err != nil {
			return err
		}
		tree, err := treeOf(ctx, client)
		if err != nil {
			return err
		}
		node := tree.Find(ref.String())
		if node == nil {
			return fmt.Errorf("%s is not installed", ref)
		}
		source = node.Source
	}
	if lock != nil {
		if old := transaction.Find(lock.Packages, source); old != nil && old.Kind != nil {
			if kind, err = parseKind(*old.Kind); err != nil {
				return err
			}
		}
	}
	name := p.name
	if name == "" {
		name = xpkg.FriendlyName(image.Source, func(string) string { return "" })
	}
	spec, err := json.Marshal(map[string]string{"package": p.with})
	tx.Spec.Change = pkgv1alpha1.ChangeTypeReplace
	tx.Spec.Replace = &pkgv1alpha1.ReplaceSpec{Source: source, Package: snapshot(kind, name, spec)}
	return err
}

var errWatchEnded = errors.New("the watch ended")

// wait returns the Transaction when it has ended. If the server ends the watch, it starts a new
// one.
func wait(ctx context.Context, client *transactions.Client, tx *pkgv1alpha1.Transaction, progress *plugin.Progress) (*pkgv1alpha1.Transaction, error) {
	last := tx
	for {
		current, err := client.Transactions().Get(ctx, tx.Name, metav1.GetOptions{})
		if err == nil {
			last = current
			if err = watchUntil(ctx, client, &last, progress); err == nil {
				return last, nil
			}
		}
		switch {
		case ctx.Err() != nil:
			state := report.Explain(&report.Facts{Transaction: last, Now: time.Now()}).State
			return nil, fmt.Errorf("wait for transaction %q, which is %s: %w", tx.Name, cmp.Or(blocked(last), state), context.Cause(ctx))
		case !errors.Is(err, errWatchEnded):
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // avoids a busy loop if the server ends watches at once
		}
	}
}

// blocked says which other one a Transaction waits for, "" if it does not.
func blocked(tx *pkgv1alpha1.Transaction) string {
	ready := meta.FindStatusCondition(tx.Status.Conditions, pkgv1alpha1.TransactionConditionReady)
	if ready == nil || ready.Reason != pkgv1alpha1.ReasonTransactionBlocked {
		return ""
	}
	return ready.Message
}

// watchUntil updates a Transaction until it has ended.
func watchUntil(ctx context.Context, client *transactions.Client, tx **pkgv1alpha1.Transaction, progress *plugin.Progress) error {
	seen := func(current *pkgv1alpha1.Transaction) bool {
		*tx = current
		progress.Set("%s", cmp.Or(blocked(current), "validating in transaction "+current.Name))
		return transaction.Ended(current)
	}
	if seen(*tx) {
		return nil
	}
	w, err := client.Transactions().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", (*tx).Name).String(), ResourceVersion: (*tx).ResourceVersion,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() { // it is closed when ctx ends
		current, ok := event.Object.(*pkgv1alpha1.Transaction)
		switch {
		case event.Type == watch.Deleted:
			return apierrors.NewNotFound(pkgv1alpha1.Transactions.GroupResource(), (*tx).Name)
		case event.Type == watch.Error:
			return errWatchEnded
		case ok && seen(current):
			return nil
		}
	}
	return errWatchEnded
}

func (p *planner) print(plan *report.Plan) error {
	p.connect(plan.Problem)
	if slices.Contains([]string{"json", "yaml"}, p.output.Value) {
		return plugin.Structured(p.Out, plan, p.output.Value)
	}
	plan.Draw(plugin.EscapingWriter{Writer: p.Out}, p.output.Value == wide)
	return nil
}
