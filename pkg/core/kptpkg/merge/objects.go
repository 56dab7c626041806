package merge

import (
	"cmp"
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// object is a document in the role of a Kubernetes object.
type object struct {
	*document
	version version
	// dir is the package or subpackage that it is in.
	dir string
	// own is what it is, and id what it is for the merge: what upstream calls it.
	own, id identity
}

// identity of an object. What has no name is identified by where it is.
type identity struct {
	group, kind, namespace, name string
	path                         string
	index                        int
}

// String is how a user is told of an object.
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
	return strings.TrimSpace(clip(kind) + " " + clip(name))
}

const mergeComment = "kpt-merge:"

// mergeName reads the comment that keeps what an object is called upstream while it has another name here.
func mergeName(n *yaml.Node) (namespace, name string, ok bool) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "metadata" {
			continue
		}
		text, found := commentOf(n.Content[i], n.Content[i+1])
		if !found {
			return "", "", false
		}
		namespace, name, ok = strings.Cut(text, "/")
		return namespace, name, ok && name != ""
	}
	return "", "", false
}

// commentOf returns what follows the mark in a comment of a field.
func commentOf(key, value *yaml.Node) (string, bool) {
	for _, comment := range []string{key.LineComment, value.LineComment, value.HeadComment} {
		if text, ok := strings.CutPrefix(strings.TrimLeft(comment, "# "), mergeComment); ok {
			return strings.TrimSpace(text), true
		}
	}
	return "", false
}

func textOf(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == yaml.NodeTagNull {
		return ""
	}
	return n.Value
}

// objectsOf identifies the objects of a file. Two that are the same are an error: which of them is meant cannot be told.
func objectsOf(v version, files kptpkg.Files, name string, documents []*document) ([]*object, error) {
	objects := make([]*object, 0, len(documents))
	claims := map[identity]int{} // how many say that they are this
	unnamed := map[identity]int{}
	dir := files.PackageOf(name)
	for _, d := range documents {
		o := &object{document: d, version: v, dir: dir}
		metadata := get(d.node, "metadata")
		group, _, hasGroup := strings.Cut(textOf(get(d.node, "apiVersion")), "/")
		if !hasGroup {
			group = ""
		}
		o.own = identity{group: group, kind: textOf(get(d.node, "kind")), namespace: textOf(get(metadata, "namespace")), name: textOf(get(metadata, "name"))}
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
			o.id = o.own // a copy that kept the comment of what it was copied from
		}
		if other := seen[o.id]; other != nil {
			return nil, fmt.Errorf("%s: %s: lines %d and %d: %s stands there twice", v, name, other.firstLine(), o.firstLine(), o.id)
		}
		seen[o.id] = o
	}
	return objects, nil
}

func (d *document) firstLine() int { return d.line + d.node.Line }

// triple is one object in the versions that have it.
type triple [3]*object

func (t *triple) original() *object { return t[originalVersion] }
func (t *triple) updated() *object  { return t[updatedVersion] }
func (t *triple) local() *object    { return t[localVersion] }

// any returns the object as the user knows it best.
func (t *triple) any() *object { return cmp.Or(t.local(), t.updated(), t.original()) }

// join takes the objects of another triple, if they are of other versions.
func (t *triple) join(other *triple) bool {
	for v := range t {
		if t[v] != nil && other[v] != nil {
			return false
		}
	}
	for v := range t {
		t[v] = cmp.Or(t[v], other[v])
	}
	*other = triple{}
	return true
}

// match finds what is the same object in three versions: first by identity and path; then what moved inside its package, if it is
// clear which one did; then by the own names, for comments that say something else on one side.
func match(objects []*object) []*triple {
	type spot struct {
		id   identity
		path string
	}
	type home struct {
		id  identity
		dir string
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
	triples = joined(triples, func(t *triple) []home { return []home{{t.any().id, t.any().dir}} })
	return joined(triples, func(t *triple) []home {
		var homes []home
		for _, o := range t {
			if o != nil {
				homes = append(homes, home{o.own, o.dir})
			}
		}
		return homes
	})
}

// joined joins triples that are not whole and share a key, unless there is more than one of a version for it.
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
			continue // it was joined
		}
		for _, key := range keys(t) {
			group := candidates[key]
			if len(group) < 2 || !certain(group) {
				continue
			}
			for _, other := range group {
				if other != t {
					t.join(other)
				}
			}
		}
	}
	left := triples[:0]
	for _, t := range triples {
		if *t != (triple{}) {
			left = append(left, t)
		}
	}
	return left
}
