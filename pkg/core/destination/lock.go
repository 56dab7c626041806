package destination

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// Several spaces may have packages on one cluster. So its Lock says for each space, in an
// annotation, which revisions are its own. A revision that two spaces have is listed once.

// ForeignPackages returns the packages of a cluster that other spaces have there. The Lock may be
// nil.
func ForeignPackages(lock *pkgv1beta1.Lock, space types.UID) []pkgv1beta1.LockPackage {
	if lock == nil {
		return nil
	}
	own, others := revisions(lock, space)
	return slices.DeleteFunc(slices.Clone(lock.Packages), func(p pkgv1beta1.LockPackage) bool { return own[p.Name] && !others[p.Name] })
}

// Records reports whether a Lock, which may be nil, lists packages of a space.
func Records(lock *pkgv1beta1.Lock, space types.UID) bool {
	return lock != nil && lock.Annotations[pkgv1beta1.AnnotationPackagesOf+string(space)] != ""
}

// revisions returns the names of the revisions that a space has, and those that others have.
func revisions(lock *pkgv1beta1.Lock, space types.UID) (own, others map[string]bool) {
	own, others = map[string]bool{}, map[string]bool{}
	for key, value := range lock.Annotations {
		of, found := strings.CutPrefix(key, pkgv1beta1.AnnotationPackagesOf)
		if !found {
			continue
		}
		for name := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' }) {
			if of == string(space) {
				own[name] = true
			} else {
				others[name] = true
			}
		}
	}
	return own, others
}

// Commit returns the Lock of a cluster, which may have been nil before, with these packages of a
// space. The transaction is the one that changed them; "" if none did. It returns nil if nothing
// changes.
func Commit(lock *pkgv1beta1.Lock, cluster string, space types.UID, transaction string, packages []pkgv1beta1.LockPackage) *pkgv1beta1.Lock {
	key := pkgv1beta1.AnnotationPackagesOf + string(space)
	foreign := ForeignPackages(lock, space)
	after := foreign
	names := make([]string, 0, len(packages))
	for _, p := range packages {
		names = append(names, p.Name)
		if !slices.ContainsFunc(foreign, func(f pkgv1beta1.LockPackage) bool { return f.Name == p.Name }) {
			after = append(after, p)
		}
	}
	slices.SortFunc(after, func(a, b pkgv1beta1.LockPackage) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(names)
	value := strings.Join(names, ",")
	switch {
	case lock == nil && len(packages) == 0:
		return nil
	case lock == nil:
		lock = &pkgv1beta1.Lock{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	case lock.Annotations[key] == value && slices.EqualFunc(lock.Packages, after, func(a, b pkgv1beta1.LockPackage) bool { return a.Name == b.Name && a.Version == b.Version }):
		return nil
	}
	out := lock.DeepCopy()
	out.TypeMeta = metav1.TypeMeta{APIVersion: pkgv1beta1.GroupVersion.String(), Kind: "Lock"}
	out.Packages = after
	annotations := maps.Clone(out.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if transaction != "" {
		annotations[pkgv1beta1.AnnotationLastTransaction] = transaction
	}
	annotations[key] = value
	if value == "" {
		delete(annotations, key)
	}
	out.Annotations = annotations
	return out
}
