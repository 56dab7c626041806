package merge_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
)

// configMap is one with the data of "key: value" lines.
func configMap(name string, data ...string) string {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
	if len(data) > 0 {
		text += "data:\n  " + strings.Join(data, "\n  ") + "\n"
	}
	return text
}

// pod is a workload with the lines of its containers.
func workload(lines ...string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    spec:\n      " + strings.Join(lines, "\n      ") + "\n"
}

func docs(documents ...string) string { return strings.Join(documents, "---\n") }

// named is an object with a merge comment.
func named(text, upstream string) string {
	return strings.Replace(text, "metadata:\n", "metadata: # kpt-merge: /"+upstream+"\n", 1)
}

type files = kpt.Files

func TestResourceMerge(t *testing.T) {
	const path = "a.yaml"
	one := func(content string) files { return files{path: content} }
	field := func(object, field string, kept, deleted merge.Side) []merge.Conflict {
		return []merge.Conflict{{Path: path, Object: object, Field: field, Kept: kept, Deleted: deleted}}
	}
	var v1, v2, v3 []string // origins
	for i, lines := range []*[]string{&v1, &v2, &v3} {
		*lines = []string{fmt.Sprintf("upstream: {type: git, git: {ref: v%d}}", i+1), fmt.Sprintf("upstreamLock: {type: git, git: {commit: c%d}}", i+1)}
	}
	list := func(elements ...string) string {
		return "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: a\nlist:\n- " + strings.Join(elements, "\n- ") + "\n"
	}
	cases := map[string]struct {
		reason                         string
		original, updated, local, want files
		conflicts                      []merge.Conflict
	}{
		// Files and objects.
		"LocalFileAdded": {
			reason:   "what is only local is kept",
			original: files{}, updated: files{}, local: one(configMap("a")), want: one(configMap("a")),
		},
		"UpstreamFileAdded": {
			reason:   "what is new upstream is added",
			original: files{}, updated: one(configMap("a")), local: files{}, want: one(configMap("a")),
		},
		"UpstreamFileDeleted": {
			reason:   "a file goes with its last object",
			original: one(configMap("a", "k: v")), updated: files{}, local: one(named(configMap("a", "k: v"), "a")), want: files{},
		},
		"UpstreamObjectDeletedButChanged": {
			reason:   "a deletion never loses what was changed locally",
			original: one(configMap("a", "k: v")), updated: files{}, local: one(configMap("a", "k: w")), want: one(configMap("a", "k: w")),
			conflicts: field("ConfigMap a", "", merge.Local, merge.Upstream),
		},
		"LocalObjectDeleted": {
			reason:   "a local deletion stays",
			original: one(docs(configMap("a"), configMap("b"))), updated: one(docs(configMap("a"), configMap("b"))),
			local: one(configMap("b")), want: one(configMap("b")),
		},
		"LocalObjectDeletedUpstreamChanged": {
			reason:   "a local deletion stays, and is reported if upstream changed the object",
			original: one(docs(configMap("a"), configMap("b"))), updated: one(docs(configMap("a", "k: v"), configMap("b"))),
			local: one(configMap("b")), want: one(configMap("b")),
			conflicts: field("ConfigMap a", "", merge.Local, merge.Local),
		},
		"ObjectsAddedToAFile": {
			reason:   "new objects of upstream stand after what they follow there",
			original: one(docs(configMap("a"), configMap("c"))),
			updated:  one(docs(configMap("a"), configMap("b"), configMap("c"))),
			local:    one(docs(configMap("a"), configMap("c"), configMap("mine"))),
			want:     one(docs(configMap("a"), configMap("b"), configMap("c"), configMap("mine"))),
		},
		"ObjectAddedBeforeAll": {
			original: one(configMap("b")), updated: one(docs(configMap("a"), configMap("b"))),
			local: one(configMap("b", "mine: x")), want: one(docs(configMap("a"), configMap("b", "mine: x"))),
		},
		"BothAddedTheSame": {
			reason:   "what both sides added is merged; upstream wins",
			original: files{}, updated: one(configMap("a", "k: upstream", "u: x")), local: one(configMap("a", "k: local", "l: x")),
			want:      one(configMap("a", "k: upstream", "u: x", "l: x")),
			conflicts: field("ConfigMap a", "data.k", merge.Upstream, ""),
		},
		"Renamed": {
			reason:   "an object is found by the name in its comment",
			original: one(configMap("a", "k: v")), updated: one(configMap("a", "k: w")),
			local: one(named(configMap("mine", "k: v"), "a")), want: one(named(configMap("mine", "k: w"), "a")),
		},
		"RenamedInANamespace": {
			original: one(configMap("a", "k: v")), updated: one(configMap("a", "k: w")),
			local: one(strings.Replace(named(configMap("mine", "k: v"), "a"), "name: mine", "name: mine\n  namespace: n", 1)),
			want:  one(strings.Replace(named(configMap("mine", "k: w"), "a"), "name: mine", "name: mine\n  namespace: n", 1)),
		},
		"RenamedThroughTwoClones": {
			reason:   "the comment counts in upstream, too",
			original: one(named(configMap("b", "k: v"), "a")), updated: one(named(configMap("b", "k: w"), "a")),
			local: one(named(configMap("c", "k: v"), "a")), want: one(named(configMap("c", "k: w"), "a")),
		},
		"RenamedByUpstreamWithAComment": {
			reason:   "a comment on one side only does not part what has the same name",
			original: one(named(configMap("b", "k: v"), "a")), updated: one(named(configMap("b", "k: w"), "a")),
			local: one(configMap("b", "k: v")), want: one(configMap("b", "k: w")),
		},
		"CopyOfAnObject": {
			reason:   "a copy that kept the comment of what it was copied from is an object of its own",
			original: one(configMap("a", "k: v")), updated: one(configMap("a", "k: w")),
			local: one(docs(named(configMap("copy", "k: v"), "a"), named(configMap("a", "k: v"), "a"))),
			want:  one(docs(named(configMap("copy", "k: v"), "a"), named(configMap("a", "k: w"), "a"))),
		},
		"OtherVersion": {
			reason:   "the version of an API is not part of what an object is",
			original: one("apiVersion: x.io/v1beta1\nkind: X\nmetadata: {name: a}\nspec: {a: 1}\n"),
			updated:  one("apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nspec: {a: 1}\n"),
			local:    one("apiVersion: x.io/v1beta1\nkind: X\nmetadata: {name: a}\nspec: {a: 2}\n"),
			want:     one("apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nspec: {a: 2}\n"),
		},
		"MovedLocally": {
			reason:   "an object is found in another file, and stays there",
			original: files{"a.yaml": configMap("a", "k: v")}, updated: files{"a.yaml": configMap("a", "k: w")},
			local: files{"all.yaml": docs(configMap("z"), configMap("a", "k: v"))},
			want:  files{"all.yaml": docs(configMap("z"), configMap("a", "k: w"))},
		},
		"MovedUpstream": {
			reason:   "an object follows upstream to another file unless it was moved locally",
			original: files{"a.yaml": docs(configMap("a"), configMap("b"))},
			updated:  files{"a.yaml": configMap("a"), "b.yaml": configMap("b")},
			local:    files{"a.yaml": docs(configMap("a"), configMap("b", "mine: x"))},
			want:     files{"a.yaml": configMap("a"), "b.yaml": "---\n" + configMap("b", "mine: x")},
		},
		"MovedOnBothSides": {
			original: files{"a.yaml": configMap("a", "k: v")}, updated: files{"u.yaml": configMap("a", "k: w")},
			local: files{"l.yaml": configMap("a", "k: v", "mine: x")},
			want:  files{"l.yaml": configMap("a", "k: w", "mine: x")},
		},
		"SameNameInTwoFiles": {
			reason:   "the path tells apart what has the same name",
			original: files{"a.yaml": configMap("a", "k: 1"), "b.yaml": configMap("a", "k: 1")},
			updated:  files{"a.yaml": configMap("a", "k: 2"), "b.yaml": configMap("a", "k: 3")},
			local:    files{"a.yaml": configMap("a", "k: 1", "l: x"), "b.yaml": configMap("a", "k: 1", "l: y")},
			want:     files{"a.yaml": configMap("a", "k: 2", "l: x"), "b.yaml": configMap("a", "k: 3", "l: y")},
		},
		"SameNameInAnotherKind": {
			original: one(docs(configMap("a"), strings.Replace(configMap("a"), "ConfigMap", "Secret", 1))),
			updated:  one(docs(configMap("a", "k: v"), strings.Replace(configMap("a"), "ConfigMap", "Secret", 1))),
			local:    one(docs(configMap("a", "l: v"), strings.Replace(configMap("a"), "ConfigMap", "Secret", 1))),
			want:     one(docs(configMap("a", "k: v", "l: v"), strings.Replace(configMap("a"), "ConfigMap", "Secret", 1))),
		},
		"NoObjects": {
			reason:   "documents that are no objects are merged by their place",
			original: one("replicas: 1\nimage: a\n"), updated: one("replicas: 1\nimage: b\n"),
			local: one("replicas: 2\nimage: a\n"), want: one("replicas: 2\nimage: b\n"),
		},

		// Fields.
		"FieldChangedUpstream": {
			original: one(configMap("a", "k: v", "l: 1")), updated: one(configMap("a", "k: w", "l: 1")),
			local: one(configMap("a", "k: v", "l: 2")), want: one(configMap("a", "k: w", "l: 2")),
		},
		"FieldChangedOnBothSides": {
			reason:   "upstream wins, and the conflict is reported",
			original: one(configMap("a", "k: v")), updated: one(configMap("a", "k: upstream")),
			local: one(configMap("a", "k: local")), want: one(configMap("a", "k: upstream")),
			conflicts: field("ConfigMap a", "data.k", merge.Upstream, ""),
		},
		"FieldChangedTheSame": {
			original: one(configMap("a", "k: v")), updated: one(configMap("a", "k: w")),
			local: one(configMap("a", "k: 'w'")), want: one(configMap("a", "k: 'w'")),
		},
		"FieldDeletedUpstream": {
			original: one(configMap("a", "k: v", "l: 1")), updated: one(configMap("a", "l: 1")),
			local: one(configMap("a", "k: v", "l: 2")), want: one(configMap("a", "l: 2")),
		},
		"FieldDeletedUpstreamChangedLocally": {
			original: one(configMap("a", "k: v", "l: 1")), updated: one(configMap("a", "l: 1")),
			local: one(configMap("a", "k: w", "l: 1")), want: one(configMap("a", "l: 1")),
			conflicts: field("ConfigMap a", "data.k", merge.Upstream, merge.Upstream),
		},
		"FieldDeletedLocally": {
			original: one(configMap("a", "k: v", "l: 1")), updated: one(configMap("a", "k: v", "l: 2")),
			local: one(configMap("a", "l: 1")), want: one(configMap("a", "l: 2")),
		},
		"FieldDeletedLocallyChangedUpstream": {
			original: one(configMap("a", "k: v", "l: 1")), updated: one(configMap("a", "k: w", "l: 1")),
			local: one(configMap("a", "l: 1")), want: one(configMap("a", "k: w", "l: 1")),
			conflicts: field("ConfigMap a", "data.k", merge.Upstream, merge.Local),
		},
		"MappingDeletedLocally": {
			reason:   "of a mapping that is gone here, what upstream added is added",
			original: one(configMap("a", "k: v")), updated: one(configMap("a", "k: v", "new: x")),
			local: one(configMap("a")), want: one(configMap("a", "new: x")),
		},
		"MappingDeletedUpstream": {
			reason:   "of a mapping that is gone upstream, what was added locally stays",
			original: one(configMap("a", "k: v")), updated: one(configMap("a")),
			local: one(configMap("a", "k: v", "mine: x")), want: one(configMap("a", "mine: x")),
		},
		"MappingDeletedUpstreamAndNothingLeft": {
			original: one(configMap("a", "k: v")), updated: one(configMap("a")),
			local: one(named(configMap("a", "k: v"), "a")), want: one(named(configMap("a"), "a")),
		},
		"OtherType": {
			reason:   "a field that is text here and a mapping there is a conflict like any other",
			original: one("k: v\nl: 1\n"), updated: one("k: {a: b}\nl: 1\n"), local: one("k: w\nl: 2\n"),
			want:      one("k: {a: b}\nl: 2\n"),
			conflicts: field("", "k", merge.Upstream, ""),
		},
		"NumberOrText": {
			reason:   "1 and \"1\" are not the same",
			original: one("k: 1\n"), updated: one("k: \"1\"\n"), local: one("k: 1 # mine\n"), want: one("k: \"1\" # mine\n"),
		},
		"Null": {
			reason:   "null is a value like others",
			original: one("k: v\nl: 1\n"), updated: one("k: v\nl: 2\n"), local: one("k: null\nl: 1\n"), want: one("k: null\nl: 2\n"),
		},
		"NullAsKey": {
			original: one("? \n: 1\nb: 1\n"), updated: one("? \n: 1\nb: 2\n"), local: one("? \n: 2\nb: 1\n"), want: one("null: 2\nb: 2\n"),
		},
		"NullInFlow": {
			original: one("k: {a: , b: 1}\n"), updated: one("k: {a: , b: 2}\n"), local: one("k: {a: , b: 1}\nl: [x, ~]\n"),
			want: one("k: {a: null, b: 2}\nl: [x, ~]\n"),
		},
		"FieldsWithDots": {
			original: one("metadata:\n  annotations:\n    a.b/c: 1\n"), updated: one("metadata:\n  annotations:\n    a.b/c: 2\n"),
			local: one("metadata:\n  annotations:\n    a.b/c: 3\n"), want: one("metadata:\n  annotations:\n    a.b/c: 2\n"),
			conflicts: field("", `metadata.annotations["a.b/c"]`, merge.Upstream, ""),
		},

		// Lists.
		"ContainersByName": {
			reason:   "lists of built-in kinds are merged by their merge keys",
			original: one(workload("containers:", "- name: a", "  image: a:1", "- name: b", "  image: b:1")),
			updated:  one(workload("containers:", "- name: new", "  image: n:1", "- name: a", "  image: a:2", "- name: b", "  image: b:1")),
			local:    one(workload("containers:", "- name: a", "  image: a:1", "  tty: true", "- name: mine", "  image: m:1", "- name: b", "  image: b:1")),
			want: one(workload("containers:", "- name: new", "  image: n:1", "- name: a", "  image: a:2", "  tty: true",
				"- name: mine", "  image: m:1", "- name: b", "  image: b:1")),
		},
		"ElementDeletedUpstream": {
			original: one(workload("containers:", "- name: a", "  image: a:1", "- name: b", "  image: b:1")),
			updated:  one(workload("containers:", "- name: a", "  image: a:1")),
			local:    one(workload("containers:", "- name: a", "  image: a:9", "- name: b", "  image: b:1")),
			want:     one(workload("containers:", "- name: a", "  image: a:9")),
		},
		"ElementDeletedUpstreamChangedLocally": {
			reason:    "an element is kept as an object is: half of one would be of no use",
			original:  one(workload("containers:", "- name: a", "  image: a:1", "- name: b", "  image: b:1")),
			updated:   one(workload("containers:", "- name: a", "  image: a:1")),
			local:     one(workload("containers:", "- name: a", "  image: a:1", "- name: b", "  image: b:9")),
			want:      one(workload("containers:", "- name: a", "  image: a:1", "- name: b", "  image: b:9")),
			conflicts: field("Deployment.apps web", "spec.template.spec.containers[name=b]", merge.Local, merge.Upstream),
		},
		"ElementDeletedLocallyChangedUpstream": {
			original:  one(workload("containers:", "- name: a", "  image: a:1", "- name: b", "  image: b:1")),
			updated:   one(workload("containers:", "- name: a", "  image: a:1", "- name: b", "  image: b:2")),
			local:     one(workload("containers:", "- name: a", "  image: a:1")),
			want:      one(workload("containers:", "- name: a", "  image: a:1")),
			conflicts: field("Deployment.apps web", "spec.template.spec.containers[name=b]", merge.Local, merge.Local),
		},
		"ElementFieldConflict": {
			original:  one(workload("containers:", "- name: a", "  image: a:1")),
			updated:   one(workload("containers:", "- name: a", "  image: a:2")),
			local:     one(workload("containers:", "- name: a", "  image: a:3")),
			want:      one(workload("containers:", "- name: a", "  image: a:2")),
			conflicts: field("Deployment.apps web", "spec.template.spec.containers[name=a].image", merge.Upstream, ""),
		},
		"ListOrderOfUpstream": {
			reason:   "a list whose order was not changed locally has the order of upstream",
			original: one(workload("containers:", "- name: a", "- name: b")),
			updated:  one(workload("containers:", "- name: b", "- name: a")),
			local:    one(workload("containers:", "- name: a", "  tty: true", "- name: b")),
			want:     one(workload("containers:", "- name: b", "- name: a", "  tty: true")),
		},
		"PortsByPortAndProtocol": {
			reason:   "a port without a protocol is one of TCP",
			original: one("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - port: 53\n    name: t\n"),
			updated:  one("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - port: 53\n    name: t\n    protocol: TCP\n  - port: 53\n    name: u\n    protocol: UDP\n"),
			local:    one("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - port: 53\n    name: mine\n"),
			want:     one("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - port: 53\n    name: mine\n    protocol: TCP\n  - port: 53\n    name: u\n    protocol: UDP\n"),
		},
		"SetsOfTexts": {
			original: one("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  finalizers: [a, b]\n"),
			updated:  one("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  finalizers: [b, c]\n"),
			local:    one("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  finalizers: [a, b, mine]\n"),
			want:     one("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  finalizers: [b, c, mine]\n"),
		},
		"ListsWithoutKeys": {
			reason:   "a list without merge keys is replaced as a whole",
			original: one(workload("containers:", "- name: a", "  args: [x]")), updated: one(workload("containers:", "- name: a", "  args: [x, y]")),
			local: one(workload("containers:", "- name: a", "  args: [z]")), want: one(workload("containers:", "- name: a", "  args: [x, y]")),
			conflicts: field("Deployment.apps web", "spec.template.spec.containers[name=a].args", merge.Upstream, ""),
		},
		"ListsOfUnknownKinds": {
			original: one("apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nl:\n- name: a\n"),
			updated:  one("apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nl:\n- name: a\n- name: b\n"),
			local:    one("apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nm: 1\nl:\n- name: a\n"),
			want:     one("apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nm: 1\nl:\n- name: a\n- name: b\n"),
		},
		"KeysThatAreThereTwice": {
			reason:   "where a key says nothing the list is replaced",
			original: one(workload("containers:", "- name: a", "- name: a")), updated: one(workload("containers:", "- name: a", "- name: a", "- name: b")),
			local: one(workload("nodeName: n", "containers:", "- name: a", "- name: a")),
			want:  one(workload("nodeName: n", "containers:", "- name: a", "- name: a", "- name: b")),
		},

		// Text.
		"CommentsAndOrder": {
			reason:   "comments and the order of fields are the local ones; new fields stand where upstream has them",
			original: one("# top\n\napiVersion: v1 # version\nkind: ConfigMap\nmetadata:\n  name: a\n# of the data\ndata:\n  # one\n  b: \"1\" # was 0\n  a: x\n"),
			updated:  one("# top\n\napiVersion: v1 # version\nkind: ConfigMap\nmetadata:\n  name: a\n# of the data\ndata:\n  # one\n  b: \"2\" # was 1\n  # between\n  c: y\n  a: x\n"),
			local:    one("# mine\n\nkind: ConfigMap\napiVersion: v1 # version\nmetadata:\n  name: a\n# of the data\ndata:\n  # one\n  b: \"1\" # was 0\n  a: z # changed\n"),
			want:     one("# mine\n\nkind: ConfigMap\napiVersion: v1 # version\nmetadata:\n  name: a\n# of the data\ndata:\n  # one\n  b: \"2\" # was 1\n  # between\n  c: y\n  a: z # changed\n"),
		},
		"CommentOfUpstreamChanged": {
			original: one("a: 1 # setter\nb: 2\n"), updated: one("a: 1 # kpt-set: ${a}\nb: 2\n"), local: one("a: 1 # setter\nb: 3\n"),
			want: one("a: 1 # kpt-set: ${a}\nb: 3\n"),
		},
		"CommentChangedOnBothSides": {
			original: one("a: 1 # x\n"), updated: one("a: 2 # y\n"), local: one("a: 1 # mine\n"), want: one("a: 2 # mine\n"),
		},
		"StyleOfLists": {
			reason:   "lists stay as deep as they are locally",
			original: one("a: 1\nl:\n- x\n"), updated: one("a: 2\nl:\n- x\n"), local: one("a: 1\nl:\n  - x\n  - y\n"),
			want: one("a: 2\nl:\n  - x\n  - y\n"),
		},
		"EmptyMappingFilled": {
			original: one("a: 1\nl: {}\n"), updated: one("a: 1\nl:\n  x: y\n"), local: one("a: 2\nl: {}\n"), want: one("a: 2\nl:\n  x: y\n"),
		},
		"OtherDocumentsUntouched": {
			reason:   "only a document that changes is encoded again",
			original: one("# License\n---\na:   1\n\n\nb: 2\n---\n{c:  3}\n---\nd: 1\n"),
			updated:  one("# License\n---\na:   1\n\n\nb: 2\n---\n{c:  3}\n---\nd: 2\n"),
			local:    one("# License\n---\na:   1\n\n\nb: 3\n---\n{c:  3}\n---\nd: 1\nl: 1\n# end\n---\n"),
			want:     one("# License\n---\na:   1\n\n\nb: 3\n---\n{c:  3}\n---\nd: 2\nl: 1\n# end\n---\n"),
		},
		"CommentsBeforeADocument": {
			reason:   "they are merged like text, and stay apart from the document",
			original: one("# License 1\n---\na: 1\nb: 1\n"), updated: one("# License 2\n---\na: 2\nb: 1\n"),
			local: one("# License 1\n---\na: 1\nb: 2\n"), want: one("# License 2\n---\na: 2\nb: 2\n"),
		},
		"NoNewlineAtTheEnd": {
			original: one("a: 1"), updated: one("a: 1\n---\nb: 1"), local: one("a: 2"), want: one("a: 2\n---\nb: 1"),
		},
		"WindowsLines": {
			original: one("a: 1\r\nb: 1\r\n"), updated: one("a: 2\r\nb: 1\r\n"), local: one("a: 1\r\nb: 2\r\n"), want: one("a: 2\r\nb: 2\r\n"),
		},
		"Directive": {
			original: one("%YAML 1.1\n---\na: 1\n---\nb: 1\n"), updated: one("%YAML 1.1\n---\na: 1\n---\nb: 2\n"),
			local: one("%YAML 1.1\n---\na:  2\n---\nb: 1\n"), want: one("%YAML 1.1\n---\na:  2\n---\nb: 2\n"),
		},
		"Aliases": {
			reason:   "aliases are expanded where a document is merged, as their anchors may go",
			original: one("a: &x {k: v}\nb: *x\nc: 1\n"), updated: one("a: &x {k: w}\nb: *x\nc: 1\n"), local: one("a: &x {k: v}\nb: *x\nc: 2\n"),
			want: one("a: {k: w}\nb: {k: w}\nc: 2\n"),
		},
		"AliasesOfMappings": {
			original: one("a: &x {k: v}\nb:\n  <<: *x\nc: 1\n"), updated: one("a: &x {k: w}\nb:\n  <<: *x\nc: 1\n"), local: one("a: &x {k: v}\nb:\n  <<: *x\nc: 2\n"),
			want: one("a: {k: w}\nb:\n  <<: {k: w}\nc: 2\n"),
		},
		"CommentInFlow": {
			original: one("a: {b: 1}\n"), updated: one("a:\n  b: 1\n  # why\n  c: 2\n"), local: one("a: {b: 3}\n"), want: one("a: {b: 3,\n  # why\n  c: 2}\n"),
		},

		// Other files.
		"TextChangedUpstream":   {original: files{"t": "1"}, updated: files{"t": "2"}, local: files{"t": "1"}, want: files{"t": "2"}},
		"TextChangedLocally":    {original: files{"t": "1"}, updated: files{"t": "1"}, local: files{"t": "2"}, want: files{"t": "2"}},
		"TextChangedTheSame":    {original: files{"t": "1"}, updated: files{"t": "2"}, local: files{"t": "2"}, want: files{"t": "2"}},
		"TextAddedUpstream":     {original: files{}, updated: files{"t": "2"}, local: files{}, want: files{"t": "2"}},
		"TextDeletedUpstream":   {original: files{"t": "1"}, updated: files{}, local: files{"t": "1"}, want: files{}},
		"TextDeletedLocally":    {original: files{"t": "1"}, updated: files{"t": "1"}, local: files{}, want: files{}},
		"TextDeletedEverywhere": {original: files{"t": "1"}, updated: files{}, local: files{}, want: files{}},
		"TextChangedOnBothSides": {
			reason:   "a file that holds no objects is kept once it was changed",
			original: files{"t": "1"}, updated: files{"t": "2"}, local: files{"t": "3"}, want: files{"t": "3"},
			conflicts: []merge.Conflict{{Path: "t", Kept: merge.Local}},
		},
		"TextAddedOnBothSides": {
			original: files{}, updated: files{"t": "2"}, local: files{"t": "3"}, want: files{"t": "3"},
			conflicts: []merge.Conflict{{Path: "t", Kept: merge.Local}},
		},
		"TextDeletedUpstreamChangedLocally": {
			original: files{"t": "1"}, updated: files{}, local: files{"t": "3"}, want: files{"t": "3"},
			conflicts: []merge.Conflict{{Path: "t", Kept: merge.Local, Deleted: merge.Upstream}},
		},
		"TextDeletedLocallyChangedUpstream": {
			original: files{"t": "1"}, updated: files{"t": "2"}, local: files{}, want: files{},
			conflicts: []merge.Conflict{{Path: "t", Kept: merge.Local, Deleted: merge.Local}},
		},
		"JSONIsText": {
			original: files{"a.json": `{"a": 1}`}, updated: files{"a.json": `{"a": 2}`}, local: files{"a.json": `{"a": 1, "b": 1}`},
			want:      files{"a.json": `{"a": 1, "b": 1}`},
			conflicts: []merge.Conflict{{Path: "a.json", Kept: merge.Local}},
		},
		"EmptyFiles": {
			reason:    "a file of comments is text",
			original:  files{"a.yaml": "# 1\n", "b.yaml": "# 1\n", "c.yaml": configMap("c")},
			updated:   files{"a.yaml": "# 2\n", "c.yaml": "# gone\n", "d.yaml": "# new\n"},
			local:     files{"a.yaml": "# 1\n", "b.yaml": "# mine\n", "c.yaml": named(configMap("c"), "c")},
			want:      files{"a.yaml": "# 2\n", "b.yaml": "# mine\n", "c.yaml": "# gone\n", "d.yaml": "# new\n"},
			conflicts: []merge.Conflict{{Path: "b.yaml", Kept: merge.Local, Deleted: merge.Upstream}},
		},

		"NotYAML": {
			reason:   "what cannot be read is text as long as it is clear what becomes of it",
			original: files{"a.yaml": "{{ 1", "b.yaml": "{{ 1", "d.yaml": configMap("a")},
			updated:  files{"a.yaml": "{{ 2", "b.yaml": "{{ 1", "d.yaml": "{{"},
			local:    files{"a.yaml": "{{ 1", "b.yaml": "{{ 3", "c.yaml": "{{ mine", "d.yaml": configMap("a")},
			want:     files{"a.yaml": "{{ 2", "b.yaml": "{{ 3", "c.yaml": "{{ mine", "d.yaml": "{{"},
		},

		// Subpackages.
		"SubpackageAdded": {
			original: files{}, updated: files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a")}, local: files{},
			want: files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a")},
		},
		"SubpackageMerged": {
			original: files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a", "k: v")},
			updated:  files{"s/Kptfile": kptfile("s", "info:", "  description: new"), "s/a.yaml": configMap("a", "k: w")},
			local:    files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a", "k: v", "mine: x")},
			want:     files{"s/Kptfile": kptfile("s", "info:", "  description: new"), "s/a.yaml": configMap("a", "k: w", "mine: x")},
		},
		"SubpackageDeletedUpstream": {
			original: files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a"), "s/t/Kptfile": kptfile("t")}, updated: files{},
			local: files{"s/Kptfile": kptfile("s", "status:", "  conditions: []"), "s/a.yaml": named(configMap("a"), "a"), "s/t/Kptfile": kptfile("t")}, want: files{},
		},
		"SubpackageDeletedUpstreamChangedLocally": {
			reason:   "it stays as a whole",
			original: files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a"), "s/b.yaml": configMap("b")}, updated: files{},
			local:     files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a", "mine: x"), "s/b.yaml": configMap("b")},
			want:      files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a", "mine: x"), "s/b.yaml": configMap("b")},
			conflicts: []merge.Conflict{{Path: "s/Kptfile", Kept: merge.Local, Deleted: merge.Upstream}},
		},
		"SubpackageDeletedLocally": {
			reason:   "nothing of it comes back, not even what is new in it",
			original: files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a")},
			updated:  files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a"), "s/new.yaml": configMap("new")}, local: files{}, want: files{},
			conflicts: []merge.Conflict{{Path: "s/Kptfile", Kept: merge.Local, Deleted: merge.Local}},
		},
		"SubpackageDeletedUpstreamKptfileChangedLocally": {
			reason:   "a change of its Kptfile is a change, also of the fields that a clone changes in the root",
			original: files{"s/Kptfile": kptfile("s"), "s/a.yaml": configMap("a"), "t/Kptfile": kptfile("t"), "u/Kptfile": kptfile("u")}, updated: files{},
			local: files{"s/Kptfile": kptfile("mine"), "s/a.yaml": configMap("a"), "t/Kptfile": kptfile("t", "pipeline: {mutators: [{image: x}]}"), "u/Kptfile": kptfile("u", "upstream: {type: git}")},
			want:  files{"s/Kptfile": kptfile("mine"), "s/a.yaml": configMap("a"), "t/Kptfile": kptfile("t", "pipeline: {mutators: [{image: x}]}"), "u/Kptfile": kptfile("u", "upstream: {type: git}")},
			conflicts: []merge.Conflict{
				{Path: "s/Kptfile", Kept: merge.Local, Deleted: merge.Upstream},
				{Path: "t/Kptfile", Kept: merge.Local, Deleted: merge.Upstream},
				{Path: "u/Kptfile", Kept: merge.Local, Deleted: merge.Upstream},
			},
		},
		"SubpackageWithOwnUpstream": {
			reason:    "a user updated it apart from the package that contains it, so it stays as a whole",
			original:  files{"s/Kptfile": kptfile("s", v1...), "s/a.yaml": configMap("a", "k: one"), "s/t/Kptfile": kptfile("t"), "q/Kptfile": kptfile("q", v1...), "q/a.yaml": configMap("a")},
			updated:   files{"s/Kptfile": kptfile("s", v2...), "s/a.yaml": configMap("a", "k: two"), "s/t/Kptfile": kptfile("t", "info: {site: x}"), "q/Kptfile": kptfile("q", v1...), "q/a.yaml": configMap("a")},
			local:     files{"s/Kptfile": kptfile("s", v3...), "s/a.yaml": configMap("a", "k: three"), "s/t/Kptfile": kptfile("t"), "q/Kptfile": kptfile("q", v3...), "q/a.yaml": configMap("a", "k: three")},
			want:      files{"s/Kptfile": kptfile("s", v3...), "s/a.yaml": configMap("a", "k: three"), "s/t/Kptfile": kptfile("t"), "q/Kptfile": kptfile("q", v3...), "q/a.yaml": configMap("a", "k: three")},
			conflicts: []merge.Conflict{{Path: "s/Kptfile", Kept: merge.Local}},
		},
		"SubpackageWithUpstreamsUpstream": {
			reason:   "it came with the package, and is updated with it",
			original: files{"s/Kptfile": kptfile("s", v1...), "s/a.yaml": configMap("a", "k: one")},
			updated:  files{"s/Kptfile": kptfile("s", v2...), "s/a.yaml": configMap("a", "k: two")},
			local:    files{"s/Kptfile": kptfile("s", v1...), "s/a.yaml": configMap("a", "k: one", "mine: x")},
			want:     files{"s/Kptfile": kptfile("s", v2...), "s/a.yaml": configMap("a", "k: two", "mine: x")},
		},
		"SubpackageGetsAnUpstream": {
			reason:   "upstream did not touch it",
			original: files{"s/Kptfile": kptfile("s")}, updated: files{"s/Kptfile": kptfile("s")}, local: files{"s/Kptfile": kptfile("s", v1...)},
			want: files{"s/Kptfile": kptfile("s", v1...)},
		},
		"CommentsOfListsWithoutKeys": {
			reason:   "setters are comments of elements",
			original: files{"a.yaml": list("a", "b # kpt-set: ${old}", "c"), "b.yaml": list("a", "b", "c"), "c.yaml": list("a", "{x: 1, y: [1]}", "c")},
			updated:  files{"a.yaml": list("a # kpt-set: ${a}", "b", "c"), "b.yaml": list("a", "new", "b", "c # theirs"), "c.yaml": list("a", "{x: 1, y: [1]}", "c") + "new: x\n"},
			local: files{
				"a.yaml": list("a", "b # kpt-set: ${old}", "c") + "mine: x\n", "b.yaml": list("a # kpt-set: ${mine}", "b", "c") + "mine: x\n",
				"c.yaml": list("a # mine", "{x: 1, y: [1]} # mine", "c") + "mine: x\n",
			},
			want: files{
				"a.yaml": list("a # kpt-set: ${a}", "b", "c") + "mine: x\n", "b.yaml": list("a # kpt-set: ${mine}", "new", "b", "c # theirs") + "mine: x\n",
				"c.yaml": list("a # mine", "{x: 1, y: [1]} # mine", "c") + "new: x\nmine: x\n",
			},
		},
		"SubpackageAddedTheSame": {
			original: files{}, updated: files{"s/Kptfile": kptfile("s")}, local: files{"s/Kptfile": kptfile("s")}, want: files{"s/Kptfile": kptfile("s")},
		},
		"SameNameInTwoSubpackages": {
			reason:   "an object does not move from one package to another",
			original: files{"s/Kptfile": kptfile("s"), "t/Kptfile": kptfile("t")},
			updated:  files{"s/Kptfile": kptfile("s"), "t/Kptfile": kptfile("t"), "s/a.yaml": configMap("a", "u: x")},
			local:    files{"s/Kptfile": kptfile("s"), "t/Kptfile": kptfile("t"), "t/a.yaml": configMap("a", "l: x")},
			want:     files{"s/Kptfile": kptfile("s"), "t/Kptfile": kptfile("t"), "s/a.yaml": configMap("a", "u: x"), "t/a.yaml": configMap("a", "l: x")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := []files{maps.Clone(tc.original), maps.Clone(tc.updated), maps.Clone(tc.local)}
			for _, strategy := range []merge.Strategy{merge.ResourceMerge, ""} {
				got, err := merge.Merge(strategy, tc.original, tc.updated, tc.local, nil)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got.Files); diff != "" {
					t.Errorf("%s\nfiles (-want +got):\n%s", tc.reason, diff)
				}
				if diff := cmp.Diff(tc.conflicts, got.Conflicts, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s\nconflicts (-want +got):\n%s", tc.reason, diff)
				}
			}
			if diff := cmp.Diff(before, []files{tc.original, tc.updated, tc.local}); diff != "" {
				t.Errorf("inputs were changed (-want +got):\n%s", diff)
			}
		})
	}
}

func kptfile(name string, lines ...string) string {
	text := "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: " + name + "\n"
	if len(lines) > 0 {
		text += strings.Join(lines, "\n") + "\n"
	}
	return text
}

func TestErrors(t *testing.T) {
	good := files{"a.yaml": configMap("a")}
	cases := map[string]struct {
		strategy                 merge.Strategy
		original, updated, local files
		want                     string
	}{
		"Strategy": {strategy: "theirs", want: `unknown strategy "theirs"; use resource-merge, fast-forward, force-delete-replace or copy-merge`},
		"YAML": {
			original: good, updated: files{}, local: files{"a.yaml": configMap("a") + "---\na: b\nc: [\n"},
			want: "local package: a.yaml: line 7: did not find expected node content",
		},
		"YAMLUpstream": {original: good, updated: files{"a.yaml": "a:\n\tb"}, local: files{"a.yaml": "x: 1"}, want: "new upstream: a.yaml: line 2: found character that cannot start any token"},
		"YAMLOld":      {original: files{"a.yaml": "{"}, updated: good, local: files{"a.yaml": "x: 1"}, want: "old upstream: a.yaml: line 1: did not find expected node content"},
		"Twice": {
			original: good, updated: good, local: files{"a.yaml": docs(configMap("a"), configMap("b"), configMap("a"))},
			want: "local package: a.yaml: lines 1 and 11: ConfigMap a is duplicated",
		},
		"TwiceByComment": {
			original: good, updated: good, local: files{"a.yaml": docs(named(configMap("x"), "a"), named(configMap("x"), "a"))},
			want: "local package: a.yaml: lines 1 and 6: ConfigMap x is duplicated",
		},
		"FieldTwice": {
			original: good, updated: files{"a.yaml": configMap("a", "k: v")}, local: files{"a.yaml": "# c\n---\n" + configMap("a", "x: 1", "x: 2")},
			want: `local package: a.yaml: line 9: field "x" is duplicated`,
		},
		"FieldWithoutName": {
			original: good, updated: files{"a.yaml": configMap("a", "? [a]", ": b")}, local: files{"a.yaml": configMap("a", "x: 1")},
			want: `new upstream: a.yaml: line 6: the name of a field is not a scalar`,
		},
		"NotParted": {
			original: good, updated: files{"a.yaml": "x: 1"}, local: files{"a.yaml": "a: b\n...\nc: d\n"},
			want: "local package: a.yaml: line 2: did not find expected <document start>",
		},
		"Bomb": {
			original: good, updated: files{}, local: files{"a.yaml": bomb()},
			want: "local package: a.yaml: line 1: is more than 1000000 nodes with its aliases expanded",
		},
		"ManyDocuments": {
			original: good, updated: good, local: files{"a.yaml": strings.Repeat("---\n", 100_000)},
			want: "local package: has 100000 YAML documents; at most 50000 can be merged",
		},
		"ManySmallBombs": {
			original: good, updated: files{"b.yaml": ""}, local: files{"a.yaml": smallBomb(), "b.yaml": smallBomb()},
			want: "the aliases of the package expand to more than 200000 nodes",
		},
		"Kptfile": {
			original: files{"Kptfile": kptfile("a")}, updated: files{"Kptfile": kptfile("a", "pipeline: {mutators: x}")}, local: files{"Kptfile": kptfile("b")},
			want: "new upstream: Kptfile: line 5: cannot unmarshal",
		},
		"OldKptfile": {
			original: files{"Kptfile": kptfile("a")}, updated: files{"Kptfile": kptfile("a")}, local: files{"Kptfile": strings.Replace(kptfile("b"), "v1", "v1alpha2", 1)},
			want: `local package: Kptfile: apiVersion and kind are "kpt.dev/v1alpha2" and "Kptfile", want kpt.dev/v1 and Kptfile`,
		},
		"KptfileReplaced": {
			strategy: merge.CopyMerge, updated: files{"Kptfile": "x"}, local: files{"Kptfile": kptfile("b")}, want: "new upstream: Kptfile: is not a mapping",
		},
		"SubpackageOnBothSides": {
			original: files{}, updated: files{"s/Kptfile": kptfile("s")}, local: files{"s/Kptfile": kptfile("s"), "s/a": ""},
			want: "subpackage s was added upstream and locally; rename the local one",
		},
		"FileAndDirectory": {
			original: files{}, updated: files{"a": "x"}, local: files{"a/b": "x"},
			want: "a is a file on one side and the directory of a/b on the other; rename one of them in the local package",
		},
		"FastForward": {
			strategy: merge.FastForward,
			original: files{"a.yaml": configMap("a"), "b": "", "d": ""}, updated: good, local: files{"a.yaml": configMap("a", "k: v"), "c": "", "d": ""},
			want: "the package has local changes, which fast-forward would lose: a.yaml, b (deleted), c (added)",
		},
	}
	for name, tc := range cases {
		got, err := merge.Merge(tc.strategy, tc.original, tc.updated, tc.local, nil)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
		if diff := cmp.Diff(merge.Result{}, got); diff != "" {
			t.Errorf("%s: there is a result (-want +got):\n%s", name, diff)
		}
	}
}

func bomb() string {
	text := "a0: &a0 [lol]\n"
	for i := range 40 {
		text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i)
	}
	return text
}

// smallBomb expands to about 150,000 nodes.
func smallBomb() string {
	text := "a0: &a0 [lol]\n"
	for i := range 10 {
		text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i)
	}
	return text
}

func TestFastForward(t *testing.T) {
	source := []string{"upstream:", "  type: git", "  git:", "    ref: v1"}
	original := files{"Kptfile": kptfile("base"), "a.yaml": configMap("a", "k: v"), "README.md": "x", "s/Kptfile": kptfile("s")}
	updated := files{"Kptfile": kptfile("base", "info:", "  description: new"), "a.yaml": configMap("a", "k: w"), "s/Kptfile": kptfile("s")}
	local := merge.AddMergeComments(original)
	local["Kptfile"] = kptfile("mine", append(source, "upstreamLock: {type: git}", "status: {conditions: [{type: A, status: \"True\"}]}")...)
	local["a.yaml"] = "apiVersion: v1\nkind: \"ConfigMap\"\nmetadata: {name: a} # kpt-merge: /a\n\ndata:\n  k: v\n"
	if got, err := merge.Merge(merge.FastForward, original, updated, local, nil); !errors.Is(err, merge.ErrLocalChanges) || !strings.HasSuffix(err.Error(), ": a.yaml") {
		t.Errorf("got %v, %v; another style of a mapping should count as a change", got, err)
	}
	local["a.yaml"] = "apiVersion:   v1\nkind: ConfigMap\n\nmetadata: # kpt-merge: /a\n  name: a\ndata:\n  k: v\n"
	got, err := merge.Merge(merge.FastForward, original, updated, local, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := files{
		"Kptfile":   kptfile("mine", append([]string{"info:", "  description: new"}, append(source, "upstreamLock: {type: git}")...)...),
		"a.yaml":    configMap("a", "k: w"),
		"s/Kptfile": kptfile("s"),
	}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, change := range map[string]func(files){
		"a.yaml":            func(f files) { f["a.yaml"] = configMap("a", "k: x") },
		"a.yaml (comment)":  func(f files) { f["a.yaml"] += "# mine\n" },
		"README.md":         func(f files) { delete(f, "README.md") },
		"new":               func(f files) { f["new"] = "" },
		"Kptfile":           func(f files) { f["Kptfile"] = kptfile("mine", "info: {site: x}") },
		"s/Kptfile (name)":  func(f files) { f["s/Kptfile"] = kptfile("other") },
		"a.yaml (not YAML)": func(f files) { f["a.yaml"] = "[" },
	} {
		changed := maps.Clone(local)
		change(changed)
		file, _, _ := strings.Cut(name, " ")
		if got, err := merge.Merge(merge.FastForward, original, updated, changed, nil); !errors.Is(err, merge.ErrLocalChanges) || !strings.Contains(err.Error(), ": "+file) || got.Files != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestForceDeleteReplace(t *testing.T) {
	updated := files{"Kptfile": kptfile("base", "pipeline:", "  mutators:", "  - image: set-labels"), "a.yaml": configMap("a")}
	local := files{
		"Kptfile": kptfile("mine", "pipeline:", "  mutators:", "  - image: mine", "upstream: {type: git}"),
		"a.yaml":  configMap("a", "mine: x"), "b.yaml": configMap("b"), "s/Kptfile": kptfile("s"),
	}
	got, err := merge.Merge(merge.ForceDeleteReplace, nil, updated, local, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := files{"Kptfile": kptfile("mine", "pipeline:", "  mutators:", "  - image: set-labels", "upstream: {type: git}"), "a.yaml": configMap("a")}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	same, err := merge.Merge(merge.ForceDeleteReplace, nil, updated, files{"Kptfile": "# ours\n" + kptfile("base")}, nil)
	if diff := cmp.Diff(updated, same.Files); diff != "" || err != nil {
		t.Errorf("%v, with the same name it is what upstream has (-want +got):\n%s", err, diff)
	}
	none, err := merge.Merge(merge.ForceDeleteReplace, nil, files{}, files{"Kptfile": kptfile("mine"), "a": ""}, nil)
	if diff := cmp.Diff(files{"Kptfile": kptfile("mine")}, none.Files); diff != "" || err != nil {
		t.Errorf("%v, a package stays one (-want +got):\n%s", err, diff)
	}
}

// TestFastForwardInADeploymentRepository: the server adds the package context. That is no local
// change, but what users add to it is.
func TestFastForwardInADeploymentRepository(t *testing.T) {
	const context = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"
	updated := files{"Kptfile": kptfile("base", "info:", "  description: new")}
	for name, tc := range map[string]struct {
		original, context, want string
	}{
		"Added":        {context: context + "data:\n  name: web\n  package-path: a/web\n"},
		"Changed":      {original: context + "data:\n  name: x\n  mine: y\n", context: context + "data:\n  package-path: a/web\n  mine: y\n  name: web\n"},
		"Absent":       {},
		"KeyAdded":     {context: context + "data:\n  name: web\n  mine: x\n", want: ": package-context.yaml (added)"},
		"NoConfigMap":  {context: "a: b\n", want: ": package-context.yaml (added)"},
		"UpstreamsOwn": {original: context + "data:\n  mine: y\n", want: ": package-context.yaml (deleted)"},
	} {
		for _, dir := range []string{"", "sub/"} {
			original, local := files{"Kptfile": kptfile("base"), "sub/Kptfile": kptfile("sub")}, files{"Kptfile": kptfile("mine"), "sub/Kptfile": kptfile("sub")}
			if tc.original != "" {
				original[dir+"package-context.yaml"] = tc.original
			}
			if tc.context != "" {
				local[dir+"package-context.yaml"] = tc.context
			}
			want := strings.Replace(tc.want, ": ", ": "+dir, 1)
			_, err := merge.Merge(merge.FastForward, original, updated, local, nil)
			if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s in %q: %v, want %q", name, dir, err, want)
			}
		}
	}
	// A subpackage that the upstream deletes is deleted.
	got, err := merge.Merge(merge.ResourceMerge, files{"Kptfile": kptfile("base"), "sub/Kptfile": kptfile("sub")}, updated,
		files{"Kptfile": kptfile("mine"), "sub/Kptfile": kptfile("sub"), "sub/package-context.yaml": context + "data:\n  name: sub\n  package-path: a/web\n"}, nil)
	if err != nil || len(got.Files) != 1 {
		t.Errorf("a subpackage that the upstream deleted: %v, %v", got.Files, err)
	}
}

// TestCopyMergeKptfile: the Kptfile of the root package is merged, and a conflict is reported.
func TestCopyMergeKptfile(t *testing.T) {
	got, err := merge.Merge(merge.CopyMerge,
		files{"Kptfile": kptfile("base", "info:", "  description: one", "  site: one"), "s/Kptfile": kptfile("s")},
		files{"Kptfile": kptfile("base", "info:", "  description: two", "  site: two"), "s/Kptfile": kptfile("s", "info: {site: two}")},
		files{"Kptfile": kptfile("mine", "info:", "  description: one", "  site: mine", "pipeline: {mutators: [{image: mine}]}"), "s/Kptfile": kptfile("s", "info: {site: mine}")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := files{"Kptfile": kptfile("mine", "info:", "  description: two", "  site: two", "pipeline: {mutators: [{image: mine}]}"), "s/Kptfile": kptfile("s", "info: {site: two}")}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]merge.Conflict{{Path: "Kptfile", Field: "info.site", Kept: merge.Upstream}}, got.Conflicts); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
}

func TestCopyMerge(t *testing.T) {
	original := files{"gone.yaml": configMap("gone"), "a.yaml": configMap("a"), "f": "", "d/x": ""}
	updated := files{
		"Kptfile": kptfile("base", "upstream: {type: git, git: {ref: v2}}"), "a.yaml": configMap("a", "k: v"), "new.yaml": configMap("new"),
		"f/x": "a directory now", "d": "a file now",
	}
	local := files{
		"Kptfile": kptfile("mine", "upstream: {type: git, git: {ref: v1}}"), "a.yaml": configMap("a", "mine: x"), "gone.yaml": configMap("gone"),
		"mine.yaml": configMap("mine"), "f": "", "d/x": "",
	}
	got, err := merge.Merge(merge.CopyMerge, original, updated, local, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := files{
		"Kptfile": kptfile("mine", "upstream: {type: git, git: {ref: v2}}"), "a.yaml": configMap("a", "k: v"), "new.yaml": configMap("new"),
		"gone.yaml": configMap("gone"), "mine.yaml": configMap("mine"), "f/x": "a directory now", "d": "a file now",
	}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if wrong := got.Files.Check(); wrong != nil {
		t.Error(wrong)
	}
}

func TestConflictsAreBoundedAndSorted(t *testing.T) {
	original, updated, local := files{}, files{}, files{}
	const many = merge.MaxConflicts + 17
	for i := range many {
		name := fmt.Sprintf("%03d.yaml", many-i)
		original[name], updated[name], local[name] = configMap("a", "k: 1"), configMap("a", "k: 2"), configMap("a", "k: 3")
	}
	got, err := merge.Merge("", original, updated, local, nil)
	if err != nil || len(got.Conflicts) != merge.MaxConflicts || got.MoreConflicts != 17 || got.Conflicts[0].Path != "001.yaml" {
		t.Errorf("%v, %d conflicts and %d more, the first %v", err, len(got.Conflicts), got.MoreConflicts, got.Conflicts[0])
	}
	for conflict, want := range map[merge.Conflict]string{
		{Path: "a", Kept: merge.Local}: "a: changed on both sides; the local content is kept",
		{Path: "a", Object: "Secret s", Field: "data.k", Kept: merge.Upstream, Deleted: merge.Upstream}: "a: Secret s: data.k: deleted upstream, changed locally; it is deleted",
		{Path: "a", Object: "Secret s", Kept: merge.Local, Deleted: merge.Local}:                        "a: Secret s: deleted locally, changed upstream; it is deleted",
	} {
		if diff := cmp.Diff(want, conflict.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestIgnoredFilesAreText: of a file that .krmignore lists nothing is parsed, so that templates and
// patches beside the objects stop no merge.
func TestIgnoredFilesAreText(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	files := func(template string) kpt.Files {
		return kpt.Files{
			"Kptfile": kpt.NewKptfile("web", "").String(), ".krmignore": "extras/\n", "a.yaml": object,
			"extras/patch.yaml": object + "---\n" + object, "extras/template.yaml": template,
		}
	}
	for name, tc := range map[string]struct {
		local, want string
		conflicts   int
	}{
		"Upstream": {"a: {{ one }}", "a: {{ two }}", 0},
		"Both":     {"a: {{ three }}", "a: {{ three }}", 1},
	} {
		got, err := merge.Merge("", files("a: {{ one }}"), files("a: {{ two }}"), files(tc.local), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text := merge.AddMergeComments(got.Files)["extras/template.yaml"]; text != tc.want || len(got.Conflicts) != tc.conflicts {
			t.Errorf("%s: %q, conflicts %v", name, text, got.Conflicts)
		}
	}
}
