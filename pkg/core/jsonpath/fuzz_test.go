package jsonpath

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

var seeds = []string{
	`$`, `$.a`, `$["a"]['b']`, `$.a.*`, `$.a[*].b`, `$.l[0]`, `$.l[-1].a`, `$.l[?@.a == 1]`, `$.l[?(@.a=="x" && @.b!=null)].b`,
	`$[?@.a[*]]`, `$.l[?@.a[?@ == 1.5]]['a', "b", 0, *]`, `$["\u0061\x62\u{63}\uD83D\uDE00"]`, `$..a`, `$.a[1:2]`, `$.a[?@.b || @.c]`,
}

// FuzzParse: whatever the text, Parse answers; what it reads it prints such that it reads the same
// again.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := Parse(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a message")
			}
			return
		}
		printed := path.String()
		again, err := Parse(printed)
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", text, printed, err)
		}
		if diff := cmp.Diff(path, again, cmp.AllowUnexported(Path{}, selector{}, test{})); diff != "" {
			t.Errorf("%q is printed as %q, which is another path (-first +second):\n%s", text, printed, diff)
		}
	})
}

// FuzzRemove: whatever the path and the object, nothing goes that the path does not select,
// everything goes that it does, and there is nothing left to be removed afterwards. What the path
// selects is found by another, slower way.
func FuzzRemove(f *testing.F) {
	objects := []string{
		`{"a": {"a": 1, "b": [1, 1.5, "x", null]}, "b": {"a": "x"}, "l": [{"a": 1}, {"a": "x", "b": null}, {"a": [1.5]}, [[]], 7]}`,
		`{"l": [0, 1, 2], "a": []}`,
		`{"": {"": {}}}`,
	}
	for _, seed := range seeds {
		for _, object := range objects {
			f.Add(seed, object)
		}
	}
	f.Fuzz(func(t *testing.T, text, object string) { checkRemove(t, text, object) })
}

// TestRemoveRandomly does the same with paths and objects that often have to do with each other.
func TestRemoveRandomly(t *testing.T) {
	const rounds = 20000
	removed := 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		object, err := json.Marshal(randomObject(r, 4))
		if err != nil {
			t.Fatal(err)
		}
		if checkRemove(t, randomPath(r, "$", 3), string(object)) {
			removed++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if removed < rounds/10 {
		t.Errorf("only %d of %d paths removed anything: this tests little", removed, rounds)
	}
}

func checkRemove(t *testing.T, text, object string) (removed bool) {
	t.Helper()
	path, err := Parse(text)
	if err != nil {
		return false
	}
	var before, got map[string]any
	for _, into := range []*map[string]any{&before, &got} {
		if err := kjson.Unmarshal([]byte(object), into); err != nil || *into == nil {
			return false
		}
	}
	gone := map[string]bool{}
	if !path.Root() {
		locate(before, path.segments, "", gone)
	}
	want := without(before, "", gone)
	Remove(got, path)
	if diff := cmp.Diff(want, any(got)); diff != "" {
		t.Errorf("Remove(%s) from %s (-want +got):\n%s", path, object, diff)
		return false
	}
	if !hasIndex(path) {
		Remove(got, path)
		if diff := cmp.Diff(want, any(got)); diff != "" {
			t.Errorf("Remove(%s) from %s a second time (-first +second):\n%s", path, object, diff)
		}
	}
	return len(gone) > 0
}

// hasIndex reports whether the path has an index, also in a filter.
func hasIndex(path Path) bool {
	return slices.ContainsFunc(path.segments, func(s segment) bool {
		return slices.ContainsFunc(s, func(c selector) bool {
			return c.kind == byIndex || slices.ContainsFunc(c.filter, func(t test) bool { return hasIndex(t.path) })
		})
	})
}

// locate notes where the values are that the segments select below value, as the RFC words it:
// selector by selector, from the list of all children.
func locate(value any, segments []segment, at string, found map[string]bool) {
	if len(segments) == 0 {
		found[at] = true
		return
	}
	chosen := map[string]any{}
	for _, s := range segments[0] {
		for name, child := range childrenOf(value) {
			list, isList := value.([]any)
			take := false
			switch s.kind {
			case byName:
				take = !isList && name == s.name
			case byIndex:
				take = isList && (name == strconv.Itoa(s.index) || s.index < 0 && name == strconv.Itoa(len(list)+s.index))
			case wildcard:
				take = true
			case byFilter:
				take = true
				for _, test := range s.filter {
					take = take && referenceHolds(test, child)
				}
			}
			if take {
				chosen[name] = child
			}
		}
	}
	for name, child := range chosen {
		locate(child, segments[1:], at+"/"+strconv.Quote(name), found)
	}
}

func childrenOf(value any) map[string]any {
	children := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		return v
	case []any:
		for i, child := range v {
			children[strconv.Itoa(i)] = child
		}
	}
	return children
}

func referenceHolds(t test, child any) bool {
	found := map[string]bool{}
	locate(child, t.path.segments, "", found)
	if t.operator == exists {
		return len(found) > 0
	}
	equals := false
	for at := range found {
		value := child
		for at != "" {
			quoted, err := strconv.QuotedPrefix(at[1:])
			if err != nil {
				panic(err)
			}
			name, _ := strconv.Unquote(quoted)
			value, at = childrenOf(value)[name], at[1+len(quoted):]
		}
		number, isNumber := asNumber(value)
		literal, alsoNumber := asNumber(t.literal)
		equals = isNumber && alsoNumber && number.Cmp(literal) == 0 || !isNumber && !alsoNumber && cmp.Equal(value, t.literal)
	}
	return equals == (t.operator == equal)
}

func asNumber(value any) (*big.Float, bool) {
	switch v := value.(type) {
	case int64:
		return new(big.Float).SetInt64(v), true
	case float64:
		return new(big.Float).SetFloat64(v), true
	}
	return nil, false
}

// without returns a copy of the value without the removed parts.
func without(value any, at string, gone map[string]bool) any {
	switch v := value.(type) {
	case map[string]any:
		copied := map[string]any{}
		for name, child := range v {
			if here := at + "/" + strconv.Quote(name); !gone[here] {
				copied[name] = without(child, here, gone)
			}
		}
		return copied
	case []any:
		copied := []any{}
		for i, child := range v {
			if here := at + "/" + strconv.Quote(strconv.Itoa(i)); !gone[here] {
				copied = append(copied, without(child, here, gone))
			}
		}
		return copied
	}
	return value
}

var names = []string{"a", "b", "c d"}

func randomObject(r *rand.Rand, depth int) map[string]any {
	object := map[string]any{}
	for range r.IntN(4) {
		object[names[r.IntN(len(names))]] = randomValue(r, depth-1)
	}
	return object
}

func randomValue(r *rand.Rand, depth int) any {
	if depth > 0 {
		switch r.IntN(3) {
		case 0:
			return randomObject(r, depth)
		case 1:
			list := []any{}
			for range r.IntN(4) {
				list = append(list, randomValue(r, depth-1))
			}
			return list
		}
	}
	return []any{"x", "y", 1, 1.5, true, nil}[r.IntN(6)]
}

// randomPath returns the text of a path with 1 to most segments.
func randomPath(r *rand.Rand, root string, most int) string {
	text := root
	for range 1 + r.IntN(most) {
		var selectors []string
		for range 1 + r.IntN(2)*r.IntN(2) {
			selectors = append(selectors, randomSelector(r, most))
		}
		text += "[" + strings.Join(selectors, ",") + "]"
	}
	return text
}

func randomSelector(r *rand.Rand, most int) string {
	switch n := r.IntN(8); {
	case n < 3:
		return quote(names[r.IntN(len(names))])
	case n < 4:
		return strconv.Itoa(r.IntN(6) - 3)
	case n < 6 || most == 1:
		return "*"
	}
	var tests []string
	for range 1 + r.IntN(2) {
		test := randomPath(r, "@", most-1)
		if path, err := Parse("$" + test[1:]); err == nil && path.singular() && r.IntN(2) == 0 {
			test += []string{" == ", " != "}[r.IntN(2)] + []string{`"x"`, `'y'`, "1", "1.5", "true", "null"}[r.IntN(6)]
		}
		tests = append(tests, test)
	}
	return "?" + strings.Join(tests, " && ")
}
