package directory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// header describes the work in a file. It is a comment, so that kubectl ignores it.
type header struct {
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	WDS        string    `json:"wds"`
	WDSUID     types.UID `json:"wdsUID"`
	Binding    string    `json:"binding"`
	BindingUID types.UID `json:"bindingUID"`
	Wave       int       `json:"wave"`
	// Recorded is the hash of the content as it was written.
	Recorded string `json:"hash"`
	Nudges   int    `json:"nudges,omitempty"`
	// Objects are the objects in the file, in their order.
	Objects []object `json:"objects"`
}

// object is what the manifest of an object does not contain: its resource, and its options.
type object struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	plan.Options

	manifest []byte // canonical JSON
}

func (o *object) ref() objref.Ref {
	return objref.Ref{Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
}

func newObject(ref objref.Ref, kind string, options plan.Options, manifest []byte) object {
	return object{
		Group: ref.Group, Resource: ref.Resource, Kind: kind, Namespace: ref.Namespace, Name: ref.Name,
		Options: options, manifest: manifest,
	}
}

const (
	introduction = "# Written by Starling for the Binding %q. Edits are overwritten.\n"
	headerPrefix = "# starling.io/work: "
	separator    = "---\n"
)

// encode returns the file.
func encode(h *header) ([]byte, error) {
	line, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the header: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, introduction, h.Binding)
	b.WriteString(headerPrefix)
	b.Write(line)
	b.WriteByte('\n')
	for i := range h.Objects {
		b.WriteString(separator)
		text, err := toYAML(h.Objects[i].manifest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Objects[i].ref(), err)
		}
		b.Write(text)
	}
	return b.Bytes(), nil
}

// toYAML returns YAML that reads as exactly this JSON. Where YAML's many spellings of numbers and
// strings get in the way, that is the JSON itself, which is also YAML.
func toYAML(manifest []byte) ([]byte, error) {
	text, err := yaml.JSONToYAML(manifest)
	if err == nil && reads(text, manifest) {
		return text, nil
	}
	text = append(bytes.Clone(manifest), '\n')
	if !reads(text, manifest) {
		return nil, errors.New("cannot be written as YAML")
	}
	return text, nil
}

func reads(text, manifest []byte) bool {
	documents, err := split(text)
	if err != nil || len(documents) != 1 {
		return false
	}
	back, err := toJSON(documents[0])
	return err == nil && bytes.Equal(back, manifest)
}

func toJSON(document []byte) ([]byte, error) {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	return transform.CanonicalJSON(raw)
}

// split returns the documents of a file that are not empty.
func split(text []byte) ([][]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var documents [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if hasContent(document) {
			documents = append(documents, document)
		}
	}
}

// hasContent reports whether there is more than comments and space.
func hasContent(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// decode reads a file. It returns false for a file that was not written by us. A file that was
// edited by hand is read as far as possible.
func decode(text []byte) (h header, ok bool) {
	line, ok := headerLine(text)
	if !ok || json.Unmarshal([]byte(line), &h) != nil || h.UID == "" || h.WDSUID == "" || h.BindingUID == "" {
		return header{}, false
	}
	type identity struct {
		kind            schema.GroupKind
		namespace, name string
	}
	known := make(map[identity]object, len(h.Objects))
	for _, o := range h.Objects {
		known[identity{schema.GroupKind{Group: o.Group, Kind: o.Kind}, o.Namespace, o.Name}] = o
	}
	documents, err := split(text)
	if err != nil {
		documents = nil
	}
	h.Objects = nil
	for _, document := range documents {
		manifest, err := toJSON(document)
		if err != nil {
			manifest = document // its hash differs from what we wrote, and it is corrected
		}
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"metadata"`
		}
		_ = json.Unmarshal(manifest, &head) // what is no object has no identity, is not desired, and is removed
		gv, _ := schema.ParseGroupVersion(head.APIVersion)
		o, ok := known[identity{schema.GroupKind{Group: gv.Group, Kind: head.Kind}, head.Metadata.Namespace, head.Metadata.Name}]
		if !ok {
			guess, _ := meta.UnsafeGuessKindToResource(gv.WithKind(head.Kind))
			ref := objref.Ref{Group: gv.Group, Resource: guess.Resource, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
			o = newObject(ref, head.Kind, plan.Options{}, nil)
		}
		o.manifest = manifest
		h.Objects = append(h.Objects, o)
	}
	return h, true
}

// headerLine finds the header in the comments at the top of a file.
func headerLine(text []byte) (string, bool) {
	for line := range strings.Lines(string(text)) {
		if found, ok := strings.CutPrefix(line, headerPrefix); ok {
			return found, true
		}
		if !strings.HasPrefix(line, "#") {
			break
		}
	}
	return "", false
}

// hash returns a hash of what is delivered: manifests and options.
func (h *header) hash() transform.Hash {
	buffer := make([]byte, 0, len(h.Objects)*len(transform.Hash{}))
	for i := range h.Objects {
		o := &h.Objects[i]
		sum := transform.HashOf(o.manifest)
		buffer = append(buffer, sum[:]...)
		if asHashed(o.Options) != (hashed{}) {
			buffer = fmt.Appendf(buffer, "%v%+v", o.ref(), asHashed(o.Options))
		}
	}
	return transform.HashOf(buffer)
}

// hashed are the options that a hash has, in this order and with these names: another hash would
// have all files with options written again.
type hashed struct {
	CreateOnly, NoForce bool
	IgnoredFields       string
	Update              bool
	Orphan, Observe     bool
}

func asHashed(o plan.Options) hashed {
	return hashed{o.CreateOnly, o.NoForce, o.IgnoredFields, o.Update, o.Orphan, o.Observe}
}

// work returns the work in the file.
func (h *header) work(mailbox, name string) *plan.Work {
	w := &plan.Work{
		Mailbox: mailbox, Name: name, UID: h.UID, Generation: h.Generation, BindingUID: h.BindingUID, Binding: h.Binding,
		Wave: h.Wave, Nudges: h.Nudges, Actual: h.hash(), Items: make([]plan.Item, len(h.Objects)),
	}
	w.Recorded, _ = transform.ParseHash(h.Recorded)
	for i := range h.Objects {
		o := &h.Objects[i]
		w.Items[i] = plan.Item{
			Ref: o.ref(), Kind: o.Kind, Hash: transform.HashOf(o.manifest), Size: len(o.manifest) + packing.Overhead,
			Options: o.Options, State: plan.Silent,
		}
	}
	return w
}
