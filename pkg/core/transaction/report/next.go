package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

// next returns what to do about a problem.
func next(f *Facts, p *Problem) []string {
	tx := f.Transaction
	var steps []string
	repeat := transaction.Ended(tx)
	add := func(format string, args ...any) { steps = append(steps, fmt.Sprintf(format, args...)) }
	allow := func(annotation, value string) {
		step, copied := allow(tx, annotation, value)
		steps, repeat = append(steps, step), repeat || copied
	}
	switch p.Reason {
	case pkgv1alpha1.ReasonMissingDependency:
		switch {
		case onClusters(p):
			add("Delete or unbind the objects that need the CustomResourceDefinition, or keep it selected. To change the other clusters only:")
			allow(pkgv1.AnnotationDestinationPolicy, pkgv1.DestinationPolicyContinue)
		case tx.Spec.Delete != nil:
			add("Delete or change what requires the package first. To see what does:")
			add("kubectl starling tx tree")
		default:
			add("Publish what is missing, or correct the reference in the package that requires it.")
		}
	case pkgv1alpha1.ReasonVersionConflict:
		switch {
		case onClusters(p):
			add("Choose a version that suits these clusters. To change the other clusters only:")
			allow(pkgv1.AnnotationDestinationPolicy, pkgv1.DestinationPolicyContinue)
		case strings.Contains(p.Hint, "allow downgrades"):
			add("Change a package of the chain, or allow lower versions of dependencies:")
			allow(pkgv1.AnnotationAllowDowngrade, "true")
		default:
			add("Change the version of a package of the chain. If two packages pin the same dependency, change both: the later")
			add("Transaction installs both. To see what is installed:")
			add("kubectl starling tx tree")
		}
	case pkgv1alpha1.ReasonCircularDependency:
		add("Publish a version of one of these packages that does not require the others.")
	case pkgv1alpha1.ReasonCRDConflict:
		source, image := controllerIn(f.Lock, p.Message), ""
		if tx.Spec.Install != nil {
			image = imageOf(&tx.Spec.Install.Package)
		}
		if source == "" || image == "" {
			add("Delete the package that has the CustomResourceDefinition, or replace it by this one. To see what is installed:")
			add("kubectl starling tx tree")
			break
		}
		add("Delete the package that has the CustomResourceDefinition, or replace it by this one. What that would change:")
		add("kubectl starling tx plan --replace %s --with %s --name %s", source, image, tx.Spec.Install.Package.Metadata.Name)
	case pkgv1alpha1.ReasonSchemaIncompatible:
		add("Change the objects that are named, or use a version that keeps the schema. If they may break:")
		if names := crds(p.Message); names != "" {
			allow(pkgv1.AnnotationAllowBreakingCRDs, names)
		} else {
			add("  set the annotation %s on the package to the names of the CustomResourceDefinitions, separated by commas.", pkgv1.AnnotationAllowBreakingCRDs)
		}
		if onClusters(p) {
			add("To change the other clusters only:")
			allow(pkgv1.AnnotationDestinationPolicy, pkgv1.DestinationPolicyContinue)
		}
	case pkgv1alpha1.ReasonInvalidPackage:
		add("Correct the package, and publish it with a new tag.")
	case pkgv1alpha1.ReasonResourcesInUse:
		add("Delete the objects that are named first. If they may be deleted with the package:")
		allow(pkgv1.AnnotationAllowDeletion, "true")
	case pkgv1alpha1.ReasonCRDInstallationFailed, pkgv1alpha1.ReasonObjectInstallationFailed, pkgv1alpha1.ReasonPackageInstallationFailed:
		add("Correct what the API server names. The next try continues: what is installed already is not written again.")
	case pkgv1alpha1.ReasonSuperseded:
		add("Nothing: a later Transaction does it.")
		return steps
	case pkgv1alpha1.ReasonTransactionBlocked:
		if holder := waitsFor(p.Message); holder != "" {
			add("Nothing: it goes on when the other one ends. How far that is:")
			add("kubectl starling tx explain %s", holder)
		}
		return steps
	case pkgv1.ReasonReconcilePaused:
		add("kubectl annotate transaction %s %s-", tx.Name, pkgv1.AnnotationPaused)
		return steps
	case pkgv1.ReasonReconcileError:
		add("Check that the registry and the API server answer, and that the pull secret is right.")
	}
	if repeat {
		steps = append(steps, again(tx))
	}
	return steps
}

// again says how to try a Transaction again that has ended.
func again(tx *pkgv1alpha1.Transaction) string {
	if _, owned := tx.Labels[pkgv1.LabelGeneration]; owned {
		return "kubectl delete transaction " + tx.Name + "   # then its package gets another one"
	}
	return "Then create the Transaction again: this one has ended."
}

// controllerIn returns the source of the package in the Lock whose revision a message names as the
// controller of an object, "" if there is none.
func controllerIn(lock *pkgv1beta1.Lock, message string) string {
	if lock == nil {
		return ""
	}
	for i := range lock.Packages {
		if strings.Contains(message, "Revision "+lock.Packages[i].Name+" ") {
			return lock.Packages[i].Source
		}
	}
	return ""
}

// onClusters reports whether a problem is one of clusters.
func onClusters(p *Problem) bool { return strings.HasPrefix(p.Message, "cluster") }

// allow returns how to set an annotation. copied is true if the Transaction has a copy of what its
// package had when it was created, so that only the next one has the annotation.
func allow(tx *pkgv1alpha1.Transaction, annotation, value string) (step string, copied bool) {
	ref := transactionPackage(tx)
	switch {
	case transaction.ValidateOnly(tx):
		return fmt.Sprintf("  set the annotation %s: %q on the package", annotation, value), false
	case ref.name != "":
		return fmt.Sprintf("kubectl annotate %s %s %s=%s --overwrite", strings.ToLower(ref.kind), ref.name, annotation, value), true
	case transaction.Ended(tx):
		return fmt.Sprintf("  set the annotation %s: %q on the Transaction.", annotation, value), false
	}
	return fmt.Sprintf("kubectl annotate transaction %s %s=%s --overwrite", tx.Name, annotation, value), false
}

type packageRef struct{ kind, name string }

// transactionPackage returns the package that has created a Transaction.
func transactionPackage(tx *pkgv1alpha1.Transaction) packageRef {
	for _, owner := range tx.OwnerReferences {
		if strings.HasPrefix(owner.APIVersion, pkgv1.GroupName+"/") {
			return packageRef{owner.Kind, owner.Name}
		}
	}
	return packageRef{}
}

var definition = regexp.MustCompile(`(?:^|; |: )([a-z0-9-]+(?:\.[a-z0-9-]+)+)(?: [a-z0-9]+)?: `)

// crds returns the CustomResourceDefinitions that a message is about, separated by commas, "" if it
// names none.
func crds(message string) string {
	var names []string
	for _, match := range definition.FindAllStringSubmatch(message, -1) {
		if !slices.Contains(names, match[1]) {
			names = append(names, match[1])
		}
	}
	return strings.Join(names, ",")
}

// waitsFor returns the Transaction that another one waits for.
func waitsFor(message string) string {
	name, found := strings.CutPrefix(message, "waiting for transaction ")
	if !found {
		return ""
	}
	name, _, _ = strings.Cut(name, ",")
	return name
}
