package customize

import (
	"errors"
	"fmt"
	"text/template"
	"text/template/parse"
)

// maxCost limits the steps of the expansion of one string, and maxTotal the steps of all strings of
// an object. A call of a function counts as textCost steps.
const (
	maxCost  = 100_000
	maxTotal = 2 * maxCost
	textCost = 100
)

// cost is an upper bound of the steps of an expansion: the coefficients of a polynomial in the
// number of properties.
type cost [maxDepth + 1]int

// maxDepth limits the nesting of loops.
const maxDepth = 3

func constant(n int) cost { return cost{n} }

// plus returns the sum of costs. Each coefficient is limited to 2*maxCost, so nothing overflows.
func (c cost) plus(others ...cost) cost {
	for _, other := range others {
		for degree := range c {
			c[degree] = min(c[degree]+other[degree], 2*maxCost)
		}
	}
	return c
}

// of returns the cost for that number of properties, or a number above maxCost.
func (c cost) of(properties int) int {
	total, power := 0, 1
	for _, coefficient := range c {
		if coefficient > 0 {
			total = min(total+coefficient*power, 2*maxCost)
		}
		power = min(power*max(properties, 1), 2*maxCost)
	}
	return total
}

// inspected is what is known about a template before it is executed.
type inspected struct {
	// mentions are the properties that the template names. all is true if it may use any property.
	mentions []string
	all      bool
	cost     cost
}

// inspect returns which properties a template uses, and its maximum cost. Only range and recursive
// calls make loops. A template may range only over the properties, whose number is known: anything
// else could be a number, and range would loop as many times. Recursive calls are errors.
func inspect(t *template.Template) (inspected, error) {
	i := inspector{root: t, called: map[callee]cost{}, running: map[string]bool{}}
	c := i.tree(t.Tree, scope{dot: true, root: true})
	if i.err != nil {
		return inspected{}, i.err
	}
	i.found.cost = c
	return i.found, nil
}

// scope records whether "." and "$" are certainly the properties.
type scope struct{ dot, root bool }

// yieldsProperties reports whether a pipeline certainly yields the properties.
func (s scope) yieldsProperties(p *parse.PipeNode) bool {
	if p == nil || len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	switch arg := p.Cmds[0].Args[0].(type) {
	case *parse.DotNode:
		return s.dot
	case *parse.VariableNode:
		return s.root && len(arg.Ident) == 1 && arg.Ident[0] == "$"
	}
	return false
}

// callee is a template that is called, with the properties or with other data.
type callee struct {
	name       string
	properties bool
}

type inspector struct {
	root *template.Template
	// called are the templates that were inspected. running are the templates that are being
	// inspected.
	called  map[callee]cost
	running map[string]bool
	found   inspected
	err     error
}

func (i *inspector) fail(err error) {
	if i.err == nil {
		i.err = err
	}
}

func (i *inspector) tree(t *parse.Tree, at scope) cost {
	if t == nil || t.Root == nil {
		return constant(0)
	}
	return i.list(t.Root, at)
}

func (i *inspector) list(l *parse.ListNode, at scope) cost {
	if l == nil {
		return constant(0)
	}
	var total cost
	for _, node := range l.Nodes {
		total = total.plus(i.node(node, at))
	}
	return total
}

func (i *inspector) node(node parse.Node, at scope) cost {
	switch n := node.(type) {
	case *parse.ActionNode:
		return i.pipe(n.Pipe)
	case *parse.IfNode:
		return i.pipe(n.Pipe).plus(i.list(n.List, at), i.list(n.ElseList, at))
	case *parse.WithNode:
		return i.pipe(n.Pipe).plus(i.list(n.List, scope{dot: at.yieldsProperties(n.Pipe), root: at.root}), i.list(n.ElseList, at))
	case *parse.RangeNode:
		return i.loop(n, at)
	case *parse.TemplateNode:
		return i.call(n, at)
	}
	return constant(1)
}

func (i *inspector) loop(n *parse.RangeNode, at scope) cost {
	if !at.yieldsProperties(n.Pipe) {
		i.fail(fmt.Errorf("ranges over %s: a template can only range over the properties", n.Pipe))
	}
	once := constant(1).plus(i.pipe(n.Pipe), i.list(n.List, scope{root: at.root}))
	if once[maxDepth] > 0 {
		i.fail(fmt.Errorf("has loops nested more than %d deep", maxDepth))
	}
	var all cost
	copy(all[1:], once[:maxDepth]) // times the number of properties
	return all.plus(i.list(n.ElseList, at))
}

func (i *inspector) call(n *parse.TemplateNode, at scope) cost {
	total := constant(1).plus(i.pipe(n.Pipe))
	if i.running[n.Name] {
		i.fail(errors.New("has a template that calls itself"))
		return total
	}
	template := i.root.Lookup(n.Name)
	if template == nil || template.Tree == nil {
		i.fail(fmt.Errorf("calls template %q, which does not exist", n.Name))
		return total
	}
	with := callee{n.Name, at.yieldsProperties(n.Pipe)}
	known, ok := i.called[with]
	if !ok {
		i.running[n.Name] = true
		known = i.tree(template.Tree, scope{dot: with.properties, root: with.properties})
		delete(i.running, n.Name)
		i.called[with] = known
	}
	return total.plus(known)
}

func (i *inspector) pipe(p *parse.PipeNode) cost {
	if p == nil {
		return constant(0)
	}
	for _, variable := range p.Decl {
		if variable.Ident[0] == "$" {
			i.fail(errors.New("assigns a value to $, which a template must not do"))
		}
	}
	var total cost
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			total = total.plus(i.arg(arg))
		}
	}
	return total
}

func (i *inspector) arg(node parse.Node) cost {
	switch n := node.(type) {
	case *parse.FieldNode:
		i.found.mentions = append(i.found.mentions, n.Ident[0])
	case *parse.VariableNode:
		switch {
		case n.Ident[0] != "$":
		case len(n.Ident) > 1:
			i.found.mentions = append(i.found.mentions, n.Ident[1])
		default:
			i.found.all = true
		}
	case *parse.DotNode:
		i.found.all = true
	case *parse.IdentifierNode:
		return constant(textCost)
	case *parse.ChainNode:
		return i.arg(n.Node)
	case *parse.PipeNode:
		return i.pipe(n)
	}
	return constant(1)
}
