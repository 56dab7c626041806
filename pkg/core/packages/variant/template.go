package variant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/expression"
)

// Limits of the cost of evaluations, in units of CEL. A label or annotation costs less than ten
// units, as does each round of a loop. The time that the libraries take to count the cost is
// quadratic in the number of rounds: with the limit of Kubernetes an evaluation can take a minute;
// with these limits, some hundredths of a second.
const (
	evaluationLimit uint64 = 20_000
	targetLimit     uint64 = 100_000
	setLimit        uint64 = expression.ObjectLimit
)

// Variables of expressions.
const (
	varRepo       = "repoDefault"
	varPackage    = "packageDefault"
	varUpstream   = "upstream"
	varTarget     = "target"
	varRepository = "repository"
)

// environments returns the environment of repoExpr, which has no variable repository, and that of
// all other expressions.
var environments = sync.OnceValues(func() ([2]*cel.Env, error) {
	object := cel.MapType(cel.StringType, cel.DynType)
	first := []cel.EnvOption{
		cel.Variable(varRepo, cel.StringType), cel.Variable(varPackage, cel.StringType),
		cel.Variable(varUpstream, object), cel.Variable(varTarget, object),
	}
	var envs [2]*cel.Env
	var err error
	if envs[0], err = expression.Environment(first...); err != nil {
		return envs, err
	}
	envs[1], err = expression.Environment(append(first, cel.Variable(varRepository, object))...)
	return envs, err
})

// Compiled holds the compiled expressions of one generation of a set. It is immutable and safe for
// concurrent use.
type Compiled struct {
	templates []*template // by the index in spec.targets; nil where there is none
}

// template is a template with its compiled expressions.
type template struct {
	spec                      *configv1alpha2.PackageVariantTemplate
	repo, name                *program
	labels, annotations, data []entry
	removeKeys                []*program
	injectors                 []*program // nil where the name is static
	validators, mutators      [][]entry  // configMapExprs by function
}

// program is an expression that evaluates to a string.
type program struct {
	*expression.Expression
	at string // the field, relative to spec.targets[i]
}

// entry is a MapExpr. If keyExpr or valueExpr is not nil, it replaces key or value.
type entry struct {
	key, value         string
	keyExpr, valueExpr *program
}

// Compile compiles the expressions of a set, or returns every error in them. It takes about a
// millisecond for each expression.
func Compile(spec *configv1alpha2.PackageVariantSetSpec) (*Compiled, []string) {
	envs, err := environments()
	if err != nil {
		return nil, []string{err.Error()}
	}
	c := &Compiled{templates: make([]*template, len(spec.Targets))}
	var wrong []string
	for i := range spec.Targets {
		if t := spec.Targets[i].Template; t != nil {
			compiler := compiler{envs: envs, in: fmt.Sprintf("spec.targets[%d].", i)}
			c.templates[i] = compiler.template(t)
			wrong = append(wrong, compiler.wrong...)
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return c, nil
}

type compiler struct {
	envs  [2]*cel.Env
	in    string
	wrong []string
}

func (c *compiler) template(spec *configv1alpha2.PackageVariantTemplate) *template {
	t := &template{spec: spec}
	if d := spec.Downstream; d != nil {
		t.repo = c.program(c.envs[0], "template.downstream.repoExpr", d.RepoExpr)
		t.name = c.program(c.envs[1], "template.downstream.packageExpr", d.PackageExpr)
	}
	t.labels = c.entries("template.labelExprs", spec.LabelExprs)
	t.annotations = c.entries("template.annotationExprs", spec.AnnotationExprs)
	if pc := spec.PackageContext; pc != nil {
		t.data = c.entries("template.packageContext.dataExprs", pc.DataExprs)
		for i := range pc.RemoveKeyExprs {
			t.removeKeys = append(t.removeKeys, c.program(c.envs[1], fmt.Sprintf("template.packageContext.removeKeyExprs[%d]", i), &pc.RemoveKeyExprs[i]))
		}
	}
	for i := range spec.Injectors {
		t.injectors = append(t.injectors, c.program(c.envs[1], fmt.Sprintf("template.injectors[%d].nameExpr", i), spec.Injectors[i].NameExpr))
	}
	if p := spec.Pipeline; p != nil {
		for i := range p.Validators {
			t.validators = append(t.validators, c.entries(fmt.Sprintf("template.pipeline.validators[%d].configMapExprs", i), p.Validators[i].ConfigMapExprs))
		}
		for i := range p.Mutators {
			t.mutators = append(t.mutators, c.entries(fmt.Sprintf("template.pipeline.mutators[%d].configMapExprs", i), p.Mutators[i].ConfigMapExprs))
		}
	}
	return t
}

func (c *compiler) entries(at string, specs []configv1alpha2.MapExpr) []entry {
	var all []entry
	for i := range specs {
		s, at := &specs[i], fmt.Sprintf("%s[%d]", at, i)
		e := entry{keyExpr: c.program(c.envs[1], at+".keyExpr", s.KeyExpr), valueExpr: c.program(c.envs[1], at+".valueExpr", s.ValueExpr)}
		if s.Key != nil {
			e.key = *s.Key
		}
		if s.Value != nil {
			e.value = *s.Value
		}
		all = append(all, e)
	}
	return all
}

// program compiles an expression. It returns nil if there is none.
func (c *compiler) program(env *cel.Env, at string, source *string) *program {
	if source == nil {
		return nil
	}
	e, err := expression.Compile([]*cel.Env{env}, *source, evaluationLimit, "a string", types.StringKind)
	if err != nil {
		c.wrong = append(c.wrong, c.in+at+": "+expression.OneLine(err.Error()))
		return nil
	}
	return &program{e, at}
}

// evaluation evaluates the expressions for one target. After the first error, expressions are not
// evaluated.
type evaluation struct {
	variables map[string]any
	// cost is the cost of this target, spent that of all targets of the set so far.
	cost  uint64
	spent *uint64
	err   error
	// exhausted is true if err says that spent exceeds its limit, interrupted if the context ended.
	exhausted, interrupted bool
	context                context.Context //nolint:containedctx // of one planning
}

func (e *evaluation) text(p *program) string {
	if e.err == nil && *e.spent > setLimit {
		e.err, e.exhausted = fmt.Errorf("%s: not evaluated: the expressions of all targets together exceed the cost limit of %d", p.at, setLimit), true
	}
	if e.err != nil {
		return ""
	}
	value, cost, err := p.Evaluate(e.context, e.variables)
	e.cost += cost
	*e.spent += cost
	var interrupted *expression.InterruptedError
	switch {
	case errors.As(err, &interrupted):
		e.interrupted = true
		err = errors.New("not evaluated within the time for one PackageVariantSet, so what the target wants is not known, and it stays as it is; it is retried")
	case err != nil:
	case e.cost > targetLimit:
		err = fmt.Errorf("the expressions of this target up to here exceed the cost limit of %d", targetLimit)
	case *e.spent > setLimit:
		err, e.exhausted = fmt.Errorf("the expressions of all targets up to here exceed the cost limit of %d", setLimit), true
	}
	if err != nil {
		e.err = fmt.Errorf("%s: %w", p.at, err)
		return ""
	}
	result, ok := value.(types.String)
	if !ok {
		e.err = fmt.Errorf("%s: must evaluate to a string, evaluates to %s", p.at, value.Type().TypeName())
		return ""
	}
	return string(result)
}

// overlay returns the static map with the entries added, which override it in their order; nil if
// the result is empty.
func (e *evaluation) overlay(static map[string]string, entries []entry) map[string]string {
	out := make(map[string]string, len(static)+len(entries))
	maps.Copy(out, static)
	for i := range entries {
		key, value := entries[i].key, entries[i].value
		if p := entries[i].keyExpr; p != nil {
			key = e.text(p)
		}
		if p := entries[i].valueExpr; p != nil {
			value = e.text(p)
		}
		out[key] = value
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// noRepositoryError is the error if a Repository does not exist. It is its name.
type noRepositoryError string

func (e noRepositoryError) Error() string {
	return fmt.Sprintf("repository %q could not be loaded: no such Repository in this namespace", clip(string(e)))
}

// renderer renders the templates of one set.
type renderer struct {
	compiled     *Compiled
	upstream     *configv1alpha1.Upstream
	upstreamVar  map[string]any
	repositories map[string]*Repository
	// repositoryVars are computed when they are needed.
	repositoryVars map[string]map[string]any
	spent          uint64
	context        context.Context //nolint:containedctx // of one planning
}

// render evaluates the template of a target. If there is an error there is no spec, except if only
// the Repository is missing and nothing depends on it.
func (r *renderer) render(t *Target) *rendering {
	e := &evaluation{context: r.context, spent: &r.spent, variables: map[string]any{varRepo: t.Repository, varPackage: t.Package, varUpstream: r.upstreamVar}}
	out := &rendering{object: t.Object, named: t.Repository}
	spec := &configv1alpha1.PackageVariantSpec{Upstream: r.upstream.DeepCopy(), Downstream: &configv1alpha1.Downstream{Repo: t.Repository, Package: t.Package}}
	if c := r.compiled.templates[t.Spec]; c == nil {
		out.spec = spec
		if r.repositories[t.Repository] == nil {
			out.err = noRepositoryError(t.Repository)
		}
	} else if out.named, out.err = r.evaluate(t, c, spec, e); out.err == nil {
		out.spec = spec
	}
	out.repository = r.metadata(out.named)
	out.cost, out.exhausted, out.interrupted = e.cost, e.exhausted, e.interrupted
	if out.spec != nil {
		out.wrong = validateSpec(out.spec)
	}
	return out
}

// evaluate fills the spec of the PackageVariant of a target, and returns the name of the Repository
// that it used.
func (r *renderer) evaluate(t *Target, c *template, spec *configv1alpha1.PackageVariantSpec, e *evaluation) (named string, err error) {
	if t.Object != nil {
		e.variables[varTarget] = variable(t.Object)
	} else {
		e.variables[varTarget] = map[string]any{"repo": t.Repository, "package": t.Package}
	}
	down := c.spec.Downstream
	switch {
	case c.repo != nil:
		spec.Downstream.Repo = e.text(c.repo)
	case down != nil && down.Repo != nil:
		spec.Downstream.Repo = *down.Repo
	}
	named = spec.Downstream.Repo
	if e.err != nil {
		return named, e.err
	}
	repository, err := r.repository(named)
	if err != nil {
		return named, err
	}
	e.variables[varRepository] = repository
	switch {
	case c.name != nil:
		// Names of revisions and of clusters have dots, packages have none.
		spec.Downstream.Package = strings.ReplaceAll(e.text(c.name), ".", "-")
	case down != nil && down.Package != nil:
		spec.Downstream.Package = *down.Package
	}
	c.fill(spec, e)
	return named, e.err
}

// fill sets all fields of the spec except upstream and downstream.
func (t *template) fill(spec *configv1alpha1.PackageVariantSpec, e *evaluation) {
	if p := t.spec.AdoptionPolicy; p != nil {
		spec.AdoptionPolicy = *p
	}
	if p := t.spec.DeletionPolicy; p != nil {
		spec.DeletionPolicy = *p
	}
	spec.Labels = e.overlay(t.spec.Labels, t.labels)
	spec.Annotations = e.overlay(t.spec.Annotations, t.annotations)
	if pc := t.spec.PackageContext; pc != nil {
		out := &configv1alpha1.PackageContext{Data: e.overlay(pc.Data, t.data), RemoveKeys: slices.Clone(pc.RemoveKeys)}
		for _, p := range t.removeKeys {
			out.RemoveKeys = append(out.RemoveKeys, e.text(p))
		}
		slices.Sort(out.RemoveKeys)
		out.RemoveKeys = slices.Compact(out.RemoveKeys)
		if len(out.Data)+len(out.RemoveKeys) > 0 {
			spec.PackageContext = out
		}
	}
	for i := range t.spec.Injectors {
		s := &t.spec.Injectors[i]
		injector := configv1alpha1.InjectionSelector{Group: s.Group, Version: s.Version, Kind: s.Kind}
		if p := t.injectors[i]; p != nil {
			injector.Name = e.text(p)
		} else {
			injector.Name = *s.Name
		}
		spec.Injectors = append(spec.Injectors, injector)
	}
	if p := t.spec.Pipeline; p != nil && len(p.Validators)+len(p.Mutators) > 0 {
		spec.Pipeline = &configv1alpha1.Pipeline{
			Validators: functionsOf(p.Validators, t.validators, e), Mutators: functionsOf(p.Mutators, t.mutators, e),
		}
	}
}

func functionsOf(specs []configv1alpha2.FunctionTemplate, entries [][]entry, e *evaluation) []configv1alpha1.Function {
	var all []configv1alpha1.Function
	for i := range specs {
		f := *specs[i].Function.DeepCopy()
		f.ConfigMap = e.overlay(f.ConfigMap, entries[i])
		all = append(all, f)
	}
	return all
}

func (r *renderer) repository(name string) (map[string]any, error) {
	if known, ok := r.repositoryVars[name]; ok {
		return known, nil
	}
	repository := r.repositories[name]
	if repository == nil {
		return nil, noRepositoryError(name)
	}
	v := variable(&repository.Metadata)
	r.repositoryVars[name] = v
	return v, nil
}

// variable returns the value of an object in expressions.
func variable(m *Metadata) map[string]any {
	empty := map[string]string{}
	v := map[string]any{"name": m.Name, "namespace": m.Namespace, "labels": m.Labels, "annotations": m.Annotations}
	if m.Labels == nil {
		v["labels"] = empty
	}
	if m.Annotations == nil {
		v["annotations"] = empty
	}
	return v
}
