package merge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/text"
)

// object is a document that is a Kubernetes object.
type object struct {
	*document
	version version
	// dir is the directory of its package or subpackage.
	dir string
	// own is its identity, and id its identity in the merge: that of the upstream object.
	own, id identity
}

// identity of an object. A document without kind or name is identified by its path and index.
type identity struct {
	group, kind, namespace, name string
	path                         string
	index                        int
}

// String returns the object as Kind.group namespace/name.
func (i identity) String() string {
	if i.kind == "" {
		return ""
	}
	kind := i.kind
	if i.group != "" {
		kind += "." + i.group
	}
	name := i.name
	if i.namespace != "" {
		name = i.namespace + "/" + name
	}
	return strings.TrimSpace(text.Clip(kind, maxShown) + " " + text.Clip(name, maxShown))
}

const mergeComment = "kpt-merge:"

// mergeName returns the upstream name of a renamed object, from its merge comment.
func mergeName(n *yaml.Node) (namespace, name string, ok bool) {
	metadata := yaml.NewRNode(n).Field("metadata")
	if metadata == nil {
		return "", "", false
	}
	upstream, _ := commentOf(metadata)
	namespace, name, ok = strings.Cut(upstream, "/")
	return namespace, name, ok && name != ""
}

// commentOf returns the content of the merge comment of a field.
func commentOf(field *yaml.MapNode) (string, bool) {
	key, value := field.Key.YNode(), field.Value.YNode()
	for _, comment := range []string{key.LineComment, value.LineComment, value.HeadComment} {
		if rest, ok := strings.CutPrefix(strings.TrimLeft(comment, "# "), mergeComment); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// objectsOf identifies the objects of a file. Two objects with the same identity are an error,
// because they cannot be distinguished.
func objectsOf(v version, files kpt.Files, name string, documents []*document) ([]*object, error) {
	objects := make([]*object, 0, len(documents))
	claims := map[identity]int{} // the number of objects with this id
	unnamed := map[identity]int{}
	dir := files.PackageOf(name)
	for _, d := range documents {
		o := &object{document: d, version: v, dir: dir}
		metadata := kpt.Get(d.node, "metadata")
		o.own = identity{group: kpt.GroupOf(kpt.TextOf(kpt.Get(d.node, "apiVersion"))), kind: kpt.TextOf(kpt.Get(d.node, "kind")), namespace: kpt.TextOf(kpt.Get(metadata, "namespace")), name: kpt.TextOf(kpt.Get(metadata, "name"))}
		if o.own.kind == "" || o.own.name == "" {
			o.own.path = name
			unnamed[o.own]++
			o.own.index = unnamed[o.own]
		}
		o.id = o.own
		if namespace, upstream, ok := mergeName(d.node); ok && o.own.path == "" {
			o.id.namespace, o.id.name = namespace, upstream
		}
		claims[o.id]++
		objects = append(objects, o)
	}
	seen := map[identity]*object{}
	for _, o := range objects {
		if claims[o.id] > 1 {
			o.id = o.own // a copy that has the merge comment of its origin
		}
		if other := seen[o.id]; other != nil {
			return nil, fmt.Errorf("%s: %s: lines %d and %d: %s is duplicated", v, name, other.firstLine(), o.firstLine(), o.id)
		}
		seen[o.id] = o
	}
	return objects, nil
}

func (d *document) firstLine() int { return d.line + d.node.Line }

// triple is one object in the three versions; nil in those that do not have it.
type triple [3]*object

func (t *triple) original() *object { return t[originalVersion] }
func (t *triple) updated() *object  { return t[updatedVersion] }
func (t *triple) local() *object    { return t[localVersion] }

// any returns the local object if there is one, otherwise the upstream one.
func (t *triple) any() *object { return cmp.Or(t.local(), t.updated(), t.original()) }

// match finds the same object in three versions: first by identity and path; then by identity in
// the package, for objects that moved to another file, if that is unambiguous; then by own names,
// for merge comments that differ between versions.
func match(objects []*object) []*triple {
	type spot struct {
		id identity
		at string // a path or a directory
	}
	var triples []*triple
	spots := map[spot]*triple{}
	for _, o := range objects {
		t := spots[spot{o.id, o.path}]
		if t == nil {
			t = &triple{}
			spots[spot{o.id, o.path}] = t
			triples = append(triples, t)
		}
		t[o.version] = o
	}
	triples = joined(triples, func(t *triple) []spot { return []spot{{t.any().id, t.any().dir}} })
	return joined(triples, func(t *triple) []spot {
		var spots []spot
		for _, o := range t {
			if o != nil {
				spots = append(spots, spot{o.own, o.dir})
			}
		}
		return spots
	})
}

// joined joins incomplete triples that share a key, unless several of them have an object of the
// same version.
func joined[K comparable](triples []*triple, keys func(*triple) []K) []*triple {
	candidates := map[K][]*triple{}
	for _, t := range triples {
		if t[0] != nil && t[1] != nil && t[2] != nil {
			continue
		}
		seen := map[K]bool{}
		for _, key := range keys(t) {
			if !seen[key] {
				seen[key] = true
				candidates[key] = append(candidates[key], t)
			}
		}
	}
	certain := func(group []*triple) bool {
		var sum triple
		for _, t := range group {
			for v, o := range t {
				if o != nil && sum[v] != nil {
					return false
				}
				sum[v] = cmp.Or(sum[v], o)
			}
		}
		return true
	}
	for _, t := range triples {
		if *t == (triple{}) {
			continue // joined to another triple
		}
		for _, key := range keys(t) {
			group := candidates[key]
			if len(group) < 2 || !certain(group) {
				continue
			}
			for _, other := range group {
				if other == t {
					continue
				}
				for v, o := range other {
					t[v] = cmp.Or(t[v], o)
				}
				*other = triple{}
			}
		}
	}
	return slices.DeleteFunc(triples, func(t *triple) bool { return *t == triple{} })
}
