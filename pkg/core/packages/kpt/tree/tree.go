// Package tree shows the content of a package: its subpackages, objects, functions and gates. It is
// pure.
package tree

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/manifests"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Package is a package or a subpackage.
type Package struct {
	// Name is the name in its Kptfile. Path is its path below the root, which is ".".
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
	// Status of the condition; "" if there is none.
	Status  string `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Function is a step of the pipeline. Only the keys of its configuration are shown.
type Function struct {
	Name       string   `json:"name,omitempty"`
	Image      string   `json:"image"`
	ConfigPath string   `json:"configPath,omitempty"`
	ConfigKeys []string `json:"configKeys,omitempty"`
}

// File is a file with its objects.
type File struct {
	Path string `json:"path"`
	// Problem says why the file cannot be read.
	Problem string       `json:"problem,omitempty"`
	Objects []kpt.Object `json:"objects,omitempty"`
}

// New returns the tree of the files of a package. The gates of the root are those of its revision.
func New(files kpt.Files, revision *porchv1alpha1.PackageRevision) Package {
	all := map[string]*Package{"": {Path: "."}}
	for _, dir := range files.Packages() {
		p := newPackage(files[path.Join(dir, kpt.KptfileName)])
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
	in := manifests.In(files)
	for _, name := range files.Paths() {
		if path.Base(name) != kpt.KptfileName {
			p := all[files.PackageOf(name)]
			p.Files = append(p.Files, newFile(name, files[name], in(name)))
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
	kptfile, err := kpt.ParseKptfile(content)
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

func functions(all []kpt.Function) []Function {
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

func newFile(name, content string, hasObjects bool) File {
	f := File{Path: name}
	if !hasObjects {
		return f
	}
	documents, err := kpt.Documents(content)
	if err != nil {
		f.Problem = "cannot be read as YAML"
		return f
	}
	for _, d := range documents {
		if o, ok := kpt.ObjectOf(d); ok {
			f.Objects = append(f.Objects, o)
		}
	}
	return f
}

// Draw writes the tree as text. The title is the line of the root.
func (p Package) Draw(w io.Writer, title string) {
	fmt.Fprintln(w, title)
	p.draw(w, "")
}

func (p Package) draw(w io.Writer, prefix string) {
	lines, children := p.lines(), p.Packages
	for i, line := range lines {
		branch, _ := text.Branch(i == len(lines)-1 && len(children) == 0)
		fmt.Fprintln(w, prefix+branch+line)
	}
	for i, child := range children {
		branch, below := text.Branch(i == len(children)-1)
		title := "package " + cmp.Or(child.Name, path.Base(child.Path))
		if path.Base(child.Path) != child.Name {
			title += " (" + child.Path + ")"
		}
		fmt.Fprintln(w, prefix+branch+title)
		child.draw(w, prefix+below)
	}
}

// lines returns the lines of a package, without its subpackages.
func (p Package) lines() []string {
	var lines []string
	if p.Problem != "" {
		lines = append(lines, fmt.Sprintf("[%s] cannot be read: %s", kpt.KptfileName, p.Problem))
	}
	for _, g := range p.Gates {
		line := "gate " + g.ConditionType + ": " + cmp.Or(g.Status, "no such condition")
		if details := strings.Trim(g.Reason+": "+g.Message, ": "); details != "" && g.Status != string(porchv1alpha1.ConditionTrue) {
			line += " (" + text.OneLine(details) + ")"
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
			lines = append(lines, "["+name+"] "+o.String())
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
