// Package tree shows what is in a package: its subpackages, objects, functions and gates. It is pure.
package tree

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// Package is a package or a subpackage.
type Package struct {
	// Name is that of its Kptfile; Path is where it lies below the root, which is ".".
	Name string `json:"name"`
	Path string `json:"path"`
	// Problem says why its Kptfile cannot be read.
	Problem    string     `json:"problem,omitempty"`
	Gates      []Gate     `json:"gates,omitempty"`
	Mutators   []Function `json:"mutators,omitempty"`
	Validators []Function `json:"validators,omitempty"`
	Files      []File     `json:"files,omitempty"`
	Packages   []Package  `json:"packages,omitempty"`
}

// Gate is a readiness gate and its condition.
type Gate struct {
	ConditionType string `json:"conditionType"`
	// Status is that of the condition, "" if there is none.
	Status  string `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Function is a step of the pipeline. Of its configuration the keys are shown.
type Function struct {
	Name       string   `json:"name,omitempty"`
	Image      string   `json:"image"`
	ConfigPath string   `json:"configPath,omitempty"`
	ConfigKeys []string `json:"configKeys,omitempty"`
}

// File is a file with its objects.
type File struct {
	Path string `json:"path"`
	// Problem says why it cannot be read.
	Problem string   `json:"problem,omitempty"`
	Objects []Object `json:"objects,omitempty"`
}

// Object is an object in a file.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// New returns the tree of a package's files. The gates of the root are those of its revision.
func New(files kptpkg.Files, revision *porchv1alpha1.PackageRevision) Package {
	all := map[string]*Package{"": {Path: "."}}
	for _, dir := range files.Packages() {
		p := newPackage(files[path.Join(dir, kptpkg.KptfileName)])
		p.Path = cmp.Or(dir, ".")
		all[dir] = &p
	}
	root := all[""]
	root.Gates = nil
	for _, gate := range revision.Spec.ReadinessGates {
		g := Gate{ConditionType: gate.ConditionType}
		for _, c := range revision.Status.Conditions {
			if c.Type == gate.ConditionType {
				g.Status, g.Reason, g.Message = string(c.Status), c.Reason, c.Message
			}
		}
		root.Gates = append(root.Gates, g)
	}
	root.Name = cmp.Or(root.Name, revision.Spec.PackageName)
	for _, name := range files.Paths() {
		if path.Base(name) != kptpkg.KptfileName {
			p := all[files.PackageOf(name)]
			p.Files = append(p.Files, newFile(name, files[name]))
		}
	}
	for _, dir := range files.Packages() { // children before their parents
		if dir != "" {
			parent := all[files.PackageOf(dir)]
			parent.Packages = append(parent.Packages, *all[dir])
		}
	}
	return *root
}

func newPackage(content string) Package {
	kptfile, err := kptpkg.ParseKptfile(content)
	if err != nil {
		return Package{Problem: err.Error()}
	}
	p := Package{Name: kptfile.Name()}
	conditions := kptfile.Conditions()
	for _, gate := range kptfile.ReadinessGates() {
		g := Gate{ConditionType: gate.ConditionType}
		for _, c := range conditions {
			if c.Type == gate.ConditionType {
				g.Status, g.Reason, g.Message = c.Status, c.Reason, c.Message
			}
		}
		p.Gates = append(p.Gates, g)
	}
	pipeline := kptfile.Pipeline()
	p.Mutators, p.Validators = functions(pipeline.Mutators), functions(pipeline.Validators)
	return p
}

func functions(all []kptpkg.Function) []Function {
	var shown []Function
	for _, f := range all {
		image := cmp.Or(f.Image, f.Exec)
		if f.Tag != "" {
			image += ":" + f.Tag
		}
		shown = append(shown, Function{Name: f.Name, Image: image, ConfigPath: f.ConfigPath, ConfigKeys: slices.Sorted(maps.Keys(f.ConfigMap))})
	}
	return shown
}

func newFile(name, content string) File {
	f := File{Path: name}
	if !kptpkg.IsKRM(name) {
		return f
	}
	documents, err := kptpkg.Documents(content)
	if err != nil {
		f.Problem = "cannot be read as YAML"
		return f
	}
	for _, d := range documents {
		o := Object{APIVersion: text(d, "apiVersion"), Kind: text(d, "kind"), Namespace: text(d, "metadata", "namespace"), Name: text(d, "metadata", "name")}
		if o.APIVersion != "" && o.Kind != "" {
			f.Objects = append(f.Objects, o)
		}
	}
	return f
}

func text(d *yaml.RNode, path ...string) string {
	found, err := d.Pipe(yaml.Lookup(path...))
	if err != nil || found == nil || found.YNode() == nil {
		return ""
	}
	return found.YNode().Value
}

// Draw writes the tree as text; title is what stands for the root.
func (p Package) Draw(w io.Writer, title string) {
	fmt.Fprintln(w, title)
	p.draw(w, "")
}

func (p Package) draw(w io.Writer, prefix string) {
	lines, children := p.lines(), p.Packages
	for i, line := range lines {
		branch := "├── "
		if i == len(lines)-1 && len(children) == 0 {
			branch = "└── "
		}
		fmt.Fprintln(w, prefix+branch+line)
	}
	for i, child := range children {
		branch, below := "├── ", "│   "
		if i == len(children)-1 {
			branch, below = "└── ", "    "
		}
		title := "package " + cmp.Or(child.Name, path.Base(child.Path))
		if path.Base(child.Path) != child.Name {
			title += " (" + child.Path + ")"
		}
		fmt.Fprintln(w, prefix+branch+title)
		child.draw(w, prefix+below)
	}
}

// lines are what a package holds beside subpackages.
func (p Package) lines() []string {
	var lines []string
	if p.Problem != "" {
		lines = append(lines, fmt.Sprintf("[%s] cannot be read: %s", kptpkg.KptfileName, p.Problem))
	}
	for _, g := range p.Gates {
		line := "gate " + g.ConditionType + ": " + cmp.Or(g.Status, "no such condition")
		if said := strings.Trim(g.Reason+": "+g.Message, ": "); said != "" && g.Status != string(porchv1alpha1.ConditionTrue) {
			line += " (" + strings.Join(strings.Fields(said), " ") + ")" // in one line, whatever was said
		}
		lines = append(lines, line)
	}
	for _, f := range p.Mutators {
		lines = append(lines, "mutator "+f.line())
	}
	for _, f := range p.Validators {
		lines = append(lines, "validator "+f.line())
	}
	for _, f := range p.Files {
		name := f.Path
		if p.Path != "." {
			name = strings.TrimPrefix(name, p.Path+"/")
		}
		switch {
		case f.Problem != "":
			lines = append(lines, "["+name+"] "+f.Problem)
		case len(f.Objects) == 0:
			lines = append(lines, "["+name+"]")
		}
		for _, o := range f.Objects {
			lines = append(lines, "["+name+"] "+o.line())
		}
	}
	return lines
}

func (f Function) line() string {
	line := f.Image
	if f.Name != "" {
		line += " " + f.Name
	}
	switch {
	case f.ConfigPath != "":
		line += " (" + f.ConfigPath + ")"
	case len(f.ConfigKeys) > 0:
		line += " (" + strings.Join(f.ConfigKeys, ", ") + ")"
	}
	return line
}

func (o Object) line() string {
	kind := o.Kind
	if group, _, has := strings.Cut(o.APIVersion, "/"); has {
		kind += "." + group
	}
	if o.Namespace != "" {
		return kind + " " + o.Namespace + "/" + o.Name
	}
	return strings.TrimSuffix(kind+" "+o.Name, " ") // a List has no name
}
