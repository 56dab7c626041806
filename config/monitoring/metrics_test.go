package monitoring

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"

	_ "github.com/starlinghq/starling/pkg/packages/apiserver" // what libraries register
	_ "github.com/starlinghq/starling/pkg/runner"
)

// metric is the type of a metric and its labels, sorted.
type metric struct {
	Type   string
	Labels []string
}

// documented returns the metrics in docs/metrics.md by their names, for each section.
func documented(t *testing.T) map[string]map[string]metric {
	t.Helper()
	all := map[string]map[string]metric{}
	section := ""
	for line := range strings.Lines(read(t, "../../docs/metrics.md")) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(heading)
			all[section] = map[string]metric{}
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for _, name := range quoted(cells[1]) {
			if _, twice := all[section][name]; twice {
				t.Errorf("docs/metrics.md has %s twice", name)
			}
			all[section][name] = metric{strings.TrimSpace(cells[2]), slices.Sorted(slices.Values(quoted(cells[3])))}
		}
	}
	for _, section := range []string{ofStarling, ofLibraries, ofOthers} {
		if len(all[section]) == 0 {
			t.Fatalf("docs/metrics.md has no table %q", section)
		}
	}
	return all
}

var inBackquotes = regexp.MustCompile("`([^`]+)`")

func quoted(cell string) []string {
	var all []string
	for _, match := range inBackquotes.FindAllStringSubmatch(cell, -1) {
		all = append(all, match[1])
	}
	return all
}

var descParts = regexp.MustCompile(`^Desc{fqName: "([^"]*)",.*variableLabels: {([^}]*)}}$`)

// described returns the labels of all metrics that libraries register in this process.
func described(t *testing.T) map[string][]string {
	t.Helper()
	registry, ok := legacyregistry.Registerer().(prometheus.Collector)
	if !ok {
		t.Fatalf("%T does not list its metrics", legacyregistry.Registerer())
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	all := map[string][]string{}
	for desc := range descs {
		parts := descParts.FindStringSubmatch(strings.ReplaceAll(desc.String(), "\n", " "))
		if parts == nil {
			t.Fatalf("no name in %s", desc)
		}
		var labels []string
		for label := range strings.SplitSeq(parts[2], ",") {
			if label != "" {
				labels = append(labels, label)
			}
		}
		all[parts[1]] = slices.Sorted(slices.Values(labels))
	}
	return all
}

// declared returns the metrics that the code of Starling declares, by their names. It fails the
// test if one of them is not a variable of a package, has a computed name, or is not registered.
func declared(t *testing.T) map[string]metric {
	t.Helper()
	dirs := map[string]*packageMetrics{}
	for _, root := range []string{"../../pkg", "../../cmd"} {
		err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
				return err
			}
			dir := filepath.Dir(file)
			if dir == "../../pkg/metrics" { // the constructor of cluster gauges
				return nil
			}
			if dirs[dir] == nil {
				dirs[dir] = &packageMetrics{t: t, ofVariable: map[string]metric{}, names: map[string]string{}, registered: map[string]bool{}}
			}
			return dirs[dir].add(file)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]metric{}
	for dir, p := range dirs {
		if p.calls != len(p.names) {
			t.Errorf("%s: a metric is not a variable of the package", dir)
		}
		for variable, name := range p.names {
			if !p.registered[variable] {
				t.Errorf("%s: %s is not registered", dir, variable)
			}
			all[name] = p.ofVariable[variable]
		}
	}
	return all
}

// packageMetrics are the metrics that a package declares, by their variables.
type packageMetrics struct {
	t          *testing.T
	ofVariable map[string]metric
	names      map[string]string
	registered map[string]bool
	calls      int
}

var constructor = regexp.MustCompile(`^New(Counter|Gauge|Histogram|Summary)(Vec)?$|^New(ClusterGauge|Desc)$`)

func (p *packageMetrics) add(file string) error {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return err
	}
	imports := map[string]bool{} // names of packages of metrics
	for _, i := range tree.Imports {
		of := strings.Trim(i.Path.Value, `"`)
		if of != "k8s.io/component-base/metrics" && of != "github.com/starlinghq/starling/pkg/metrics" {
			continue
		}
		if name := path.Base(of); i.Name == nil {
			imports[name] = true
		} else {
			imports[i.Name.Name] = true
		}
	}
	if len(imports) == 0 {
		p.findRegistrations(tree, imports)
		return nil
	}
	isCall := func(n ast.Node) (*ast.CallExpr, string) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return nil, ""
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil, ""
		}
		if x, ok := selector.X.(*ast.Ident); !ok || !imports[x.Name] || !constructor.MatchString(selector.Sel.Name) {
			return nil, ""
		}
		return call, selector.Sel.Name
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if call, _ := isCall(n); call != nil {
			p.calls++
		}
		return true
	})
	for _, decl := range tree.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.VAR {
			continue
		}
		for _, spec := range general.Specs {
			value := spec.(*ast.ValueSpec)
			for i, expr := range value.Values {
				ast.Inspect(expr, func(n ast.Node) bool {
					if call, kind := isCall(n); call != nil {
						p.declare(tree, value.Names[i].Name, call, kind)
					}
					return true
				})
			}
		}
	}
	p.findRegistrations(tree, imports)
	return nil
}

// declare adds the metric of a variable, which the call constructs.
func (p *packageMetrics) declare(tree *ast.File, variable string, call *ast.CallExpr, kind string) {
	switch kind {
	case "NewClusterGauge":
		p.names[variable] = p.text(variable, call.Args[0])
		p.ofVariable[variable] = metric{"gauge", []string{"cluster"}}
	case "NewDesc":
		kind := "gauge"
		ast.Inspect(tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "CounterValue" {
				kind = "counter"
			}
			return true
		})
		p.names[variable] = p.text(variable, call.Args[0])
		p.ofVariable[variable] = metric{kind, p.texts(variable, call.Args[2])}
	default:
		name := map[string]string{}
		for _, element := range call.Args[0].(*ast.UnaryExpr).X.(*ast.CompositeLit).Elts {
			field := element.(*ast.KeyValueExpr)
			switch key := field.Key.(*ast.Ident).Name; key {
			case "Namespace", "Subsystem", "Name":
				name[key] = p.text(variable, field.Value)
			}
		}
		var labels []string
		if len(call.Args) > 1 {
			labels = p.texts(variable, call.Args[1])
		}
		p.names[variable] = prometheus.BuildFQName(name["Namespace"], name["Subsystem"], name["Name"])
		p.ofVariable[variable] = metric{strings.ToLower(constructor.FindStringSubmatch(kind)[1]), labels}
	}
}

// findRegistrations finds Register(variable), and variable.Add of cluster gauges.
func (p *packageMetrics) findRegistrations(tree *ast.File, imports map[string]bool) {
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := selector.X.(*ast.Ident)
		switch {
		case !ok:
		case selector.Sel.Name == "Add":
			p.registered[x.Name] = true
		case selector.Sel.Name == "Register" && imports[x.Name]:
			for _, arg := range call.Args {
				if variable, ok := arg.(*ast.Ident); ok {
					p.registered[variable.Name] = true
				}
			}
		}
		return true
	})
}

// text returns the value of a string literal.
func (p *packageMetrics) text(variable string, expr ast.Expr) string {
	if literal, ok := expr.(*ast.BasicLit); ok {
		if text, err := strconv.Unquote(literal.Value); err == nil {
			return text
		}
	}
	p.t.Errorf("%s: write the name and the labels of a metric as string literals, so that this test can read them", variable)
	return ""
}

// texts returns the values of a literal []string, sorted.
func (p *packageMetrics) texts(variable string, expr ast.Expr) []string {
	if ident, ok := expr.(*ast.Ident); ok && ident.Name == "nil" {
		return nil
	}
	list, ok := expr.(*ast.CompositeLit)
	if !ok {
		return []string{p.text(variable, expr)}
	}
	var all []string
	for _, element := range list.Elts {
		all = append(all, p.text(variable, element))
	}
	slices.Sort(all)
	return all
}
