package combine

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// The oracle knows only these few CEL expressions, and computes in Go what each yields. It makes
// tables without incremental state, with values as strings and sums as fractions.

// member is the state of one cluster in the model.
type member struct {
	reported bool
	status   map[string]any // nil: without status
	label    string
	version  int
}

type world struct {
	replicas int64
	version  int
	members  map[string]*member
}

type atom struct {
	text string
	// yields returns the value, or an error.
	yields func(w *world, name string) (any, error)
	// object and labels are true if it uses the object in the WDS, and the labels of the cluster.
	object, labels bool
}

func key(name string) func(*world, string) (any, error) {
	return func(w *world, cluster string) (any, error) {
		if v, ok := w.members[cluster].status[name]; ok {
			return v, nil
		}
		return nil, fmt.Errorf("no such key: %s", name)
	}
}

var atoms = []atom{
	{text: "returned.status.a", yields: key("a")},
	{text: "returned.status.b", yields: key("b")},
	{text: "returned.?status.?a", yields: func(w *world, c string) (any, error) { return w.members[c].status["a"], nil }},
	{text: "inventory.name", labels: true, yields: func(_ *world, c string) (any, error) { return c, nil }},
	{text: "inventory.labels.l", labels: true, yields: func(w *world, c string) (any, error) { return w.members[c].label, nil }},
	{text: "obj.spec.replicas", object: true, yields: func(w *world, _ string) (any, error) { return w.replicas, nil }},
	{text: "returned.status.n", yields: key("n")},
	{text: "returned.status.n * 2", yields: func(w *world, c string) (any, error) {
		n, err := key("n")(w, c)
		if err != nil {
			return nil, err
		}
		return n.(int64) * 2, nil
	}},
	{text: "obj.spec.replicas / returned.status.n", object: true, yields: func(w *world, c string) (any, error) {
		n, err := key("n")(w, c)
		if err != nil {
			return nil, err
		}
		if n.(int64) == 0 {
			return nil, fmt.Errorf("division by zero")
		}
		return w.replicas / n.(int64), nil
	}},
	{text: "has(returned.status.n) && returned.status.n > 1", yields: func(w *world, c string) (any, error) {
		n, ok := w.members[c].status["n"]
		return ok && n.(int64) > 1, nil
	}},
	{text: "propagation.lastReturnedUpdateTimestamp != null", yields: func(w *world, c string) (any, error) { return w.members[c].reported, nil }},
	{text: "returned.status == null", yields: func(w *world, c string) (any, error) { return w.members[c].status == nil, nil }},
	{text: "[returned.?status.?n.orValue(0), inventory.name < 'c03']", labels: true, yields: func(w *world, c string) (any, error) {
		n, ok := w.members[c].status["n"]
		if !ok {
			n = int64(0)
		}
		return []any{n, c < "c03"}, nil
	}},
}

func randomValue(r *rand.Rand) any {
	return []any{nil, true, false, int64(1), int64(2), 0.5, 2.0, "x", "7", "2.5", []any{int64(1)}, map[string]any{"k": "v"}}[r.IntN(12)]
}

func (m *member) shuffle(r *rand.Rand) {
	m.version++
	m.reported = r.IntN(5) > 0
	m.status = nil
	if !m.reported || r.IntN(6) == 0 {
		return
	}
	m.status = map[string]any{}
	if r.IntN(4) > 0 {
		m.status["a"] = randomValue(r)
	}
	if r.IntN(4) > 0 {
		m.status["b"] = randomValue(r)
	}
	if r.IntN(4) > 0 {
		m.status["n"] = int64(r.IntN(4))
	}
}

// query is a StatusCollector of the model.
type query struct {
	filter   *atom
	selected []atom
	groups   []atom
	kinds    []controlv1alpha1.AggregatorType
	subjects []atom
	limit    int
}

func randomQuery(r *rand.Rand) query {
	some := func(least int) []atom {
		var list []atom
		for range least + r.IntN(3) {
			list = append(list, atoms[r.IntN(len(atoms))])
		}
		return list
	}
	q := query{limit: 1 + r.IntN(6)}
	if r.IntN(2) == 0 {
		q.filter = &atoms[r.IntN(len(atoms))]
		if strings.ContainsAny(q.filter.text, "*[") {
			q.filter = nil // known to be no boolean: refused
		}
	}
	if r.IntN(2) == 0 {
		q.selected = some(1)
		return q
	}
	q.groups = some(0)
	for range 1 + r.IntN(3) {
		q.kinds = append(q.kinds, []controlv1alpha1.AggregatorType{"COUNT", "SUM", "AVG", "MIN", "MAX"}[r.IntN(5)])
		subject := atoms[r.IntN(len(atoms))]
		for strings.ContainsAny(subject.text, "[&=") { // refused
			subject = atoms[r.IntN(len(atoms))]
		}
		q.subjects = append(q.subjects, subject)
	}
	return q
}

func (q query) spec() spec {
	s := spec{Limit: int64(q.limit)}
	if q.filter != nil {
		s.Filter = expr(q.filter.text)
	}
	for i, a := range q.selected {
		s.Select = append(s.Select, named{Name: fmt.Sprintf("s%d", i), Def: controlv1alpha1.Expression(a.text)})
	}
	for i, a := range q.groups {
		s.GroupBy = append(s.GroupBy, named{Name: fmt.Sprintf("g%d", i), Def: controlv1alpha1.Expression(a.text)})
	}
	for i, kind := range q.kinds {
		f := field{Name: fmt.Sprintf("f%d", i), Type: kind}
		if kind != "COUNT" {
			f.Subject = expr(q.subjects[i].text)
		}
		s.CombinedFields = append(s.CombinedFields, f)
	}
	return s
}

func (q query) uses() (object, labels bool) {
	all := slices.Concat(q.selected, q.groups)
	for i, kind := range q.kinds {
		if kind != "COUNT" {
			all = append(all, q.subjects[i])
		}
	}
	if q.filter != nil {
		all = append(all, *q.filter)
	}
	for _, a := range all {
		object, labels = object || a.object, labels || a.labels
	}
	return object, labels
}

// show is a value as text that sorts as values do within their type; with the type in front.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "0 null"
	case bool:
		return fmt.Sprintf("1 %v", v)
	case int64:
		return showNumber(new(big.Rat).SetInt64(v))
	case float64:
		return showNumber(new(big.Rat).SetFloat64(v))
	case string:
		return "3 " + v
	default:
		text, _ := json.Marshal(v)
		if _, ok := v.([]any); ok {
			return "4 " + string(text)
		}
		return "5 " + string(text)
	}
}

func showNumber(r *big.Rat) string { return "2 " + r.FloatString(6) } // all are small and not negative

// answer returns rows and errors as text.
func (q query) answer(w *world) (rows, errs []string, omitted int) {
	type line struct {
		cluster string
		shown   []string
		raw     []any
	}
	failed := map[string][]string{} // by column: "cluster: error"
	var lines []line
	for _, c := range slices.Sorted(maps.Keys(w.members)) {
		bad := false
		if q.filter != nil {
			v, err := q.filter.yields(w, c)
			if err == nil && (v == nil || v == any(false)) {
				continue
			}
			if err != nil || v != any(true) {
				text := "strange"
				if err != nil {
					text = err.Error()
				}
				failed["filter"] = append(failed["filter"], c+": "+text)
				if len(q.kinds) > 0 {
					continue
				}
			}
		}
		l := line{cluster: c}
		take := func(column string, a atom) {
			v, err := a.yields(w, c)
			l.raw = append(l.raw, v)
			l.shown = append(l.shown, show(v))
			if err != nil {
				failed[column] = append(failed[column], c+": "+err.Error())
				l.shown[len(l.shown)-1] = "3 " + err.Error()
				bad = true
			}
		}
		for i, a := range q.selected {
			take(fmt.Sprintf("s%d", i), a)
		}
		for i, a := range q.groups {
			take(fmt.Sprintf("g%d", i), a)
		}
		for i, kind := range q.kinds {
			if kind == "COUNT" {
				l.raw = append(l.raw, nil)
				continue
			}
			take(fmt.Sprintf("f%d", i), q.subjects[i])
		}
		if !bad || len(q.kinds) == 0 {
			lines = append(lines, l)
		}
	}
	for column, list := range failed {
		errs = append(errs, fmt.Sprintf("%s %s +%d", column, list[0], len(list)-1))
	}
	if len(q.kinds) == 0 {
		for _, l := range lines {
			rows = append(rows, strings.Join(l.shown, "|"))
		}
	} else {
		groups := map[string][]line{}
		if len(q.groups) == 0 {
			groups[""] = nil
		}
		for _, l := range lines {
			key := strings.Join(l.shown[:len(q.groups)], "|")
			groups[key] = append(groups[key], l)
		}
		strange := map[string][]string{}
		for key, members := range groups {
			row := []string{key}
			if len(q.groups) == 0 {
				row = nil
			}
			for i, kind := range q.kinds {
				column := fmt.Sprintf("f%d", i)
				var numbers []*big.Rat
				for _, l := range members {
					switch v := l.raw[len(q.groups)+i].(type) {
					case nil:
					case int64:
						numbers = append(numbers, new(big.Rat).SetInt64(v))
					case float64:
						numbers = append(numbers, new(big.Rat).SetFloat64(v))
					case string:
						if n, ok := new(big.Rat).SetString(v); ok {
							numbers = append(numbers, n)
							break
						}
						strange[column] = append(strange[column], l.cluster)
					default:
						strange[column] = append(strange[column], l.cluster)
					}
				}
				sum := new(big.Rat)
				for _, n := range numbers {
					sum.Add(sum, n)
				}
				slices.SortFunc(numbers, func(a, b *big.Rat) int { return a.Cmp(b) })
				switch {
				case kind == "COUNT":
					row = append(row, show(int64(len(members))))
				case kind == "SUM":
					row = append(row, showNumber(sum))
				case kind == "AVG" && len(members) == 0:
					row = append(row, "2 NaN")
					errs = append(errs, column+" average of nothing")
				case kind == "AVG":
					row = append(row, showNumber(sum.Quo(sum, new(big.Rat).SetInt64(int64(len(members))))))
				case kind == "MIN" && len(numbers) == 0:
					row = append(row, "2 +Inf")
				case kind == "MIN":
					row = append(row, showNumber(numbers[0]))
				case len(numbers) == 0:
					row = append(row, "2 -Inf")
				default:
					row = append(row, showNumber(numbers[len(numbers)-1]))
				}
			}
			rows = append(rows, strings.Join(row, "|"))
		}
		slices.Sort(rows)
		for column, clusters := range strange {
			slices.Sort(clusters)
			errs = append(errs, fmt.Sprintf("%s no number in %s +%d", column, clusters[0], len(clusters)-1))
		}
	}
	slices.Sort(errs)
	if more := len(rows) - q.limit; more > 0 {
		rows, omitted = rows[:q.limit], more
	}
	return rows, errs, omitted
}

// shown is what a table says, in the oracle's words.
func shown(t *testing.T, table controlv1alpha1.NamedStatusCombination) (rows, errs []string) {
	t.Helper()
	for _, r := range table.Rows {
		var row []string
		for _, v := range r.Columns {
			row = append(row, shownValue(t, v))
		}
		rows = append(rows, strings.Join(row, "|"))
	}
	more := func(text string) (string, int) {
		rest, tail, found := strings.Cut(text, " (and ")
		n := 0
		if found {
			if _, err := fmt.Sscanf(tail, "%d", &n); err != nil {
				t.Fatal(err)
			}
		}
		return rest, n
	}
	for _, e := range table.RowErrors {
		text, n := more(e.Error)
		if strings.HasPrefix(text, "the filter must evaluate to") {
			text = "strange"
		}
		errs = append(errs, fmt.Sprintf("%s %s: %s +%d", e.ColumnName, e.WEC.ClusterID, text, n))
	}
	for _, e := range table.AggregationErrors {
		text, n := more(e.Error)
		if text == "no values to average" {
			errs = append(errs, e.ColumnName+" average of nothing")
			continue
		}
		cluster, _, _ := strings.Cut(strings.TrimPrefix(text, "for WEC "), ",")
		errs = append(errs, fmt.Sprintf("%s no number in %s +%d", e.ColumnName, cluster, n))
	}
	slices.Sort(errs)
	return rows, errs
}

func shownValue(t *testing.T, v controlv1alpha1.Value) string {
	t.Helper()
	switch v.Type {
	case "Null":
		return "0 null"
	case "Bool":
		return show(*v.Bool)
	case "String":
		return show(*v.String)
	case "Number":
		if n, ok := new(big.Rat).SetString(*v.Number); ok {
			return showNumber(n)
		}
		return "2 " + *v.Number
	case "Array":
		return "4 " + string(v.Array.Raw)
	default:
		return "5 " + string(v.Object.Raw)
	}
}

func (w *world) into(q *Question) {
	q.Object, q.ObjectVersion = map[string]any{"spec": map[string]any{"replicas": w.replicas}}, fmt.Sprint(w.version)
	q.Clusters = nil
	for _, name := range slices.Sorted(maps.Keys(w.members)) {
		m := w.members[name]
		q.Clusters = append(q.Clusters, Cluster{Name: name, Labels: map[string]string{"l": m.label}, Version: m.report().Version})
	}
	q.Report = func(cluster string) Report { return w.members[cluster].report() }
}

func (m *member) report() Report {
	if !m.reported {
		return Report{}
	}
	return Report{Reported: true, Version: fmt.Sprint(m.version), Status: m.status, Updated: updatedAt}
}

// TestAnswerIsThatOfTheModel: random StatusCollectors over random histories of a fleet yield what
// the oracle says, and evaluate no row for which nothing changed.
func TestAnswerIsThatOfTheModel(t *testing.T) {
	seeds, steps := 60, 25
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		w := &world{replicas: 3, members: map[string]*member{}}
		queries := map[string]query{}
		q := Question{Collectors: map[string]*Collector{}}
		var table Table
		for step := range steps {
			// What the oracle expects to be evaluated: rows of the world before that are not so any
			// more.
			before := map[string]string{}
			state := func(name string, c string) string {
				object, labels := queries[name].uses()
				m := w.members[c]
				text := m.report().Version
				if object {
					text += fmt.Sprintf(" object %d", w.version)
				}
				if labels {
					text += " label " + m.label
				}
				return text + fmt.Sprintf(" %p", q.Collectors[name])
			}
			for name := range queries {
				for c := range w.members {
					before[name+" "+c] = state(name, c)
				}
			}
			for range 1 + r.IntN(3) {
				c := fmt.Sprintf("c%02d", r.IntN(9))
				switch m := w.members[c]; {
				case r.IntN(8) == 0:
					w.replicas, w.version = int64(r.IntN(5)), w.version+1
				case r.IntN(3) == 0:
					name := string(rune('p' + r.IntN(3)))
					if r.IntN(4) == 0 {
						delete(queries, name)
						delete(q.Collectors, name)
						break
					}
					queries[name] = randomQuery(r)
					s := queries[name].spec()
					compiled, errs := Compile(&s)
					if compiled == nil {
						t.Fatalf("%+v: %v", s, errs)
					}
					q.Collectors[name] = compiled
				case m == nil:
					w.members[c] = &member{label: "x", version: 1000*seed + 100*step}
					w.members[c].shuffle(r)
				case r.IntN(6) == 0:
					delete(w.members, c)
				case r.IntN(4) == 0:
					m.label = string(rune('x' + r.IntN(3)))
				default:
					m.shuffle(r)
				}
			}
			expected := 0
			for name := range queries {
				for c := range w.members {
					if before[name+" "+c] != state(name, c) {
						expected++
					}
				}
			}
			w.into(&q)
			results, count, _ := table.Answer(t.Context(), q)
			if count != expected {
				t.Errorf("seed %d step %d: %d rows evaluated, want %d", seed, step, count, expected)
			}
			var names []string
			for _, result := range results {
				names = append(names, result.Name)
				query := queries[result.Name]
				wantRows, wantErrs, omitted := query.answer(w)
				rows, errs := shown(t, result)
				if diff := cmp.Diff(wantRows, rows); diff != "" {
					t.Errorf("seed %d step %d: rows of %+v (-want +got):\n%s", seed, step, query.spec(), diff)
				}
				if diff := cmp.Diff(wantErrs, errs); diff != "" {
					t.Errorf("seed %d step %d: errors of %+v (-want +got):\n%s", seed, step, query.spec(), diff)
				}
				if int(result.OmittedRows) != omitted {
					t.Errorf("seed %d step %d: %d rows omitted, want %d", seed, step, result.OmittedRows, omitted)
				}
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(queries)), names); diff != "" {
				t.Errorf("seed %d step %d: results (-want +got):\n%s", seed, step, diff)
			}
			if t.Failed() {
				return
			}
		}
	}
}
