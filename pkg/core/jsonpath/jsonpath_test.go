package jsonpath_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/jsonpath"
)

func TestParse(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"Root":                {`$`, `$`},
		"Names":               {`$.spec.replicas`, `$.spec.replicas`},
		"DoubleQuotes":        {`$["spec"]["a b"]`, `$.spec["a b"]`},
		"SingleQuotes":        {`$['spec']['it\'s']`, `$.spec["it's"]`},
		"OtherLetters":        {`$.größe._x1`, `$.größe._x1`},
		"QualifiedName":       {`$.metadata.labels["example.com/phase"]`, `$.metadata.labels["example.com/phase"]`},
		"SeveralNames":        {`$.metadata.labels["a","b" , 'c']`, `$.metadata.labels["a", "b", "c"]`},
		"Wildcards":           {`$.a.*[*]`, `$.a[*][*]`},
		"Indices":             {`$.a[0][-1][10]`, `$.a[0][-1][10]`},
		"Blanks":              {"$ .a [ \t'b' ]\n[ 1 , * ]", `$.a.b[1, *]`},
		"Filter":              {`$.a[?(@.name=="x" && @.value==1)]`, `$.a[?@.name == "x" && @.value == 1]`},
		"BareFilter":          {`$.a[?@.name == 'x']`, `$.a[?@.name == "x"]`},
		"NestedParentheses":   {`$.a[?((@.b&&(@.c!=null)) && @.d == true)]`, `$.a[?@.b && @.c != null && @.d == true]`},
		"LiteralFirst":        {`$.a[?'x' == @['n-1'][0]]`, `$.a[?@["n-1"][0] == "x"]`},
		"ChildItself":         {`$.a[?@ != false]`, `$.a[?@ != false]`},
		"Existence":           {`$.a[?@.b[*].c]`, `$.a[?@.b[*].c]`},
		"FilterInFilter":      {`$.a[?@.env[?@.name=="x"]]`, `$.a[?@.env[?@.name == "x"]]`},
		"Numbers":             {`$[?@.a==-1 && @.b==1.5 && @.c==1e3 && @.d==2.0 && @.e==-0 && @.f==1e21]`, `$[?@.a == -1 && @.b == 1.5 && @.c == 1000 && @.d == 2 && @.e == 0 && @.f == 1e+21]`},
		"Escapes":             {`$["\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"]`, `$["\"\\/\u0008\u000c\u000a\u000d\u0009é😀"]`},
		"EscapesOfJavaScript": {`$["\v\0\x41\u{1F600}\a\'` + "\\\n" + `"]`, `$["\u000b\u0000A😀a'"]`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path, err := jsonpath.Parse(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, path.String()); diff != "" {
				t.Errorf("Parse(%s) (-want +got):\n%s", tc.text, diff)
			}
		})
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"Empty":         {``, `at character 1: expected $, found the end`},
		"NoRoot":        {`spec.a`, `at character 1: expected $, found 's'`},
		"BlankAtEnd":    {`$.a `, `at character 4: expected ., [ or the end, found ' '; a name with characters other than letters, digits and _ must be written as ["name"], without a dot`},
		"Dash":          {`$.größe-b`, `at character 8: expected ., [ or the end, found '-'; a name with characters other than letters, digits and _ must be written as ["name"], without a dot`},
		"DotAtEnd":      {`$.a.`, `at character 5: expected a name or *, found the end; a name with characters other than letters, digits and _ must be written as ["name"], without a dot`},
		"DotBracket":    {`$.["a"]`, `at character 3: expected a name or *, found '['; a name with characters other than letters, digits and _ must be written as ["name"], without a dot`},
		"Descendants":   {`$..a`, `at character 3: .. (descendants) is not supported`},
		"Slice":         {`$.a[1:2]`, `at character 6: slices are not supported`},
		"SliceFromHead": {`$.a[:2]`, `at character 5: slices are not supported`},
		"BareName":      {`$.a[b]`, `at character 5: expected "name" or 'name' or * or an index or ?, found 'b'`},
		"Unclosed":      {`$.a["b"`, `at character 8: expected , or ], found the end`},
		"OpenString":    {`$.a["b]`, `at character 5: the string is not terminated`},
		"LeadingZero":   {`$.a[01]`, `at character 5: a number must not have leading zeros`},
		"MinusZero":     {`$.a[-0]`, `at character 5: -0 is not a valid index`},
		"HugeIndex":     {`$.a[9007199254740992]`, `at character 5: 9007199254740992 is not a valid index`},
		"Or":            {`$.a[?@.b || @.c]`, `at character 10: || is not supported, only &&; use one path for each alternative`},
		"Not":           {`$.a[?!@.b]`, `at character 6: ! is not supported`},
		"Less":          {`$.a[?@.b < 1]`, `at character 10: expected == or !=, found '<'; other comparisons are not supported`},
		"SingleEquals":  {`$.a[?@.b = 1]`, `at character 10: expected == or !=, found '='; other comparisons are not supported`},
		"Match":         {`$.a[?@.b =~ 'x']`, `at character 10: expected == or !=, found '='; other comparisons are not supported`},
		"Function":      {`$.a[?length(@.b) == 1]`, `at character 6: expected @ or a literal (string, number, true, false, null), found 'l'`},
		"RootInFilter":  {`$.a[?$.b == 1]`, `at character 6: $ is not supported in a filter, only @`},
		"TwoPaths":      {`$.a[?@.b == @.c]`, `at character 13: expected a literal, found '@'; a path can be compared only with a literal`},
		"TwoLiterals":   {`$.a[?1 == 1]`, `at character 11: expected a path, found '1'; a literal can be compared only with a path`},
		"LiteralAlone":  {`$.a[?true]`, `at character 10: expected == or !=, found ']'`},
		"Plural":        {`$.a[?@.*==1]`, `at character 6: only a path of names and indices can be compared`},
		"Parenthesis":   {`$.a[?(@.b]`, `at character 10: expected && or ), found ']'`},
		"TwoFilters":    {`$.a[?@.b @.c]`, `at character 10: expected && or , or ], found '@'`},
		"Number":        {`$.a[?@ == 1.]`, `at character 13: expected a digit, found ']'`},
		"HugeNumber":    {`$.a[?@ == 1e999]`, `at character 11: 1e999 is out of range`},
		"Surrogate":     {`$["\uD83D"]`, `at character 6: not a Unicode character`},
		"BadPair":       {`$["\uD83D\u0041"]`, `at character 6: not a Unicode character`},
		"Hex":           {`$["\u00g0"]`, `at character 8: expected a hexadecimal digit, found 'g'`},
		"Octal":         {`$["\012"]`, `at character 5: octal escapes are not supported`},
		"Control":       {"$['a\nb']", `at character 5: a control character in a string must be written as \u and four hexadecimal digits`},
		"NoUTF8":        {"$.é\xff", `at character 4: invalid UTF-8`},
		"Deep":          {`$[?` + strings.Repeat("(", 20) + `@`, `at character 20: nested too deeply`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path, err := jsonpath.Parse(tc.text)
			if err == nil {
				t.Fatalf("Parse(%s) = %s, want an error", tc.text, path)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("Parse(%s) (-want +got):\n%s", tc.text, diff)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	const containers = `{"c": [
		{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y"}, {"name": "X"}]},
		{"name": "b", "env": [{"name": "Z", "value": null}], "tty": false},
		"no object"]}`
	cases := map[string]struct {
		object string
		paths  []string
		want   string
	}{
		"Name":               {`{"a": {"b": 1, "c": 2}}`, []string{`$.a.b`}, `{"a": {"c": 2}}`},
		"LastName":           {`{"a": {"b": 1}}`, []string{`$.a.b`}, `{"a": {}}`},
		"SeveralNames":       {`{"a": {"b": 1, "c": 2, "d": 3}}`, []string{`$.a["b", "d", "x"]`}, `{"a": {"c": 2}}`},
		"Null":               {`{"a": null, "b": 1}`, []string{`$.a`}, `{"b": 1}`},
		"Missing":            {`{"a": {"b": 1}}`, []string{`$.b.c`, `$.a.c`}, `{"a": {"b": 1}}`},
		"NoObject":           {`{"a": 1, "b": [1], "c": "x", "d": null}`, []string{`$.a.b`, `$.b.c`, `$.c.c`, `$.c[0]`, `$.d.e`}, `{"a": 1, "b": [1], "c": "x", "d": null}`},
		"IndexOfAnObject":    {`{"a": {"0": 1}}`, []string{`$.a[0]`}, `{"a": {"0": 1}}`},
		"Root":               {`{"a": 1}`, []string{`$`}, `{"a": 1}`},
		"Index":              {`{"a": [0, 1, 2, 3]}`, []string{`$.a[1]`, `$.a[9]`, `$.a[-9]`}, `{"a": [0, 2, 3]}`},
		"FromTheEnd":         {`{"a": [0, 1, 2, 3]}`, []string{`$.a[-1]`, `$.a[-3]`}, `{"a": [0, 2]}`},
		"IndicesAreOfBefore": {`{"a": [0, 1, 2, 3]}`, []string{`$.a[0]`, `$.a[1]`, `$.a[-4]`}, `{"a": [2, 3]}`},
		"Wildcard":           {`{"a": [0, {"x": 1}], "b": {"x": 2}}`, []string{`$.a[*]`, `$.b.*`}, `{"a": [], "b": {}}`},
		"BelowWildcard":      {`{"a": [0, {"x": 1, "y": 2}, {"x": 3}], "b": {"c": {"x": 2}}}`, []string{`$.*[*].x`}, `{"a": [0, {"y": 2}, {}], "b": {"c": {}}}`},
		"Filter":             {containers, []string{`$.c[*].env[?(@.name=="X" && @.value=="1")]`}, `{"c": [{"name": "a", "env": [{"name": "Y"}, {"name": "X"}]}, {"name": "b", "env": [{"name": "Z", "value": null}], "tty": false}, "no object"]}`},
		"Unequal":            {containers, []string{`$.c[?@.name != "a"]`}, `{"c": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y"}, {"name": "X"}]}]}`},
		"Exists":             {containers, []string{`$.c[0].env[?@.value]`, `$.c[1].env[?@.value]`}, `{"c": [{"name": "a", "env": [{"name": "Y"}, {"name": "X"}]}, {"name": "b", "env": [], "tty": false}, "no object"]}`},
		"ExistsThoughFalse":  {containers, []string{`$.c[?@.tty]`, `$.c[0].env`}, `{"c": [{"name": "a"}, "no object"]}`},
		"FilterInFilter":     {containers, []string{`$.c[?@.env[?@.name == "Z"]]`, `$.c[0].env`}, `{"c": [{"name": "a"}, "no object"]}`},
		"FilterOfAnObject":   {`{"a": {"x": {"drop": true}, "y": {"drop": false}, "z": 1}}`, []string{`$.a[?@.drop == true]`}, `{"a": {"y": {"drop": false}, "z": 1}}`},
		"NullIsNotMissing":   {`{"a": [{"x": null}, {}]}`, []string{`$.a[?@.x == null]`}, `{"a": [{}]}`},
		"ChildItself":        {`{"a": ["x", "y", 1]}`, []string{`$.a[?@ == "x"]`}, `{"a": ["y", 1]}`},
		"NumbersByValue":     {`{"a": [1, 1.0, 1e0, 1.5, "1", 9007199254740993, true]}`, []string{`$.a[?@ == 1.0]`, `$.a[?@ == 1.5]`, `$.a[?@ == 9007199254740992]`}, `{"a": ["1", 9007199254740993, true]}`},
		"TypesDiffer":        {`{"a": ["1", true, null, {}, []]}`, []string{`$.a[?@ == 1]`, `$.a[?@ == "true"]`, `$.a[?@ == false]`}, `{"a": ["1", true, null, {}, []]}`},
		"ParentAndChild":     {`{"a": {"b": {"c": 1}}}`, []string{`$.a.b.c`, `$.a.b`}, `{"a": {}}`},
		"FiltersSeeBefore":   {`{"a": [{"k": 1, "v": 1}, {"k": 2, "v": 2}]}`, []string{`$.a[*].k`, `$.a[?@.k == 1].v`}, `{"a": [{}, {"v": 2}]}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := decode(t, tc.object)
			jsonpath.Remove(object, parseAll(t, tc.paths)...)
			if diff := cmp.Diff(encode(t, decode(t, tc.want)), encode(t, object)); diff != "" {
				t.Errorf("Remove(%q) (-want +got):\n%s", tc.paths, diff)
			}
		})
	}
}

func TestMaySelect(t *testing.T) {
	cases := map[string]struct {
		path string
		want bool
	}{
		"Itself":         {`$.metadata.name`, true},
		"Quoted":         {`$['metadata']["\x6eame"]`, true},
		"AmongOthers":    {`$.metadata['labels', 'name']`, true},
		"Wildcard":       {`$.metadata.*`, true},
		"WildcardAbove":  {`$.*.name`, true},
		"Filter":         {`$.metadata[?@ == 'x']`, true},
		"Index":          {`$.metadata[0]`, false},
		"Sibling":        {`$.metadata.labels`, false},
		"Above":          {`$.metadata`, false},
		"Below":          {`$.metadata.name.x`, false},
		"SomewhereElse":  {`$.spec.name`, false},
		"WholeObject":    {`$`, false},
		"ElsewhereAbove": {`$['spec', 'data'].name`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := parseAll(t, []string{tc.path})[0].MaySelect("metadata", "name"); got != tc.want {
				t.Errorf("MaySelect() = %v, want %v", got, tc.want)
			}
		})
	}
}

// TestCostIsBounded would not end if selectors that select the same children multiplied.
func TestCostIsBounded(t *testing.T) {
	const depth = 150
	object := decode(t, strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth))
	paths := parseAll(t, []string{
		"$" + strings.Repeat("[*,*]", depth),
		"$.a[?@" + strings.Repeat(`["a",*]`, depth-2) + "]",
		"$" + strings.Repeat("[?@.a[*,*]]", depth-10),
	})
	jsonpath.Remove(object, paths...)
	if got, want := encode(t, object), `{"a":{}}`; got != want {
		t.Errorf("left: %s, want %s", got, want)
	}
}

func parseAll(t *testing.T, texts []string) []jsonpath.Path {
	t.Helper()
	paths := make([]jsonpath.Path, len(texts))
	for i, text := range texts {
		var err error
		if paths[i], err = jsonpath.Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// decode decodes JSON as the transport does.
func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := kjson.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return object
}

func encode(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// BenchmarkRemove removes one variable from each container, and one container. The cost is that of
// what the paths lead through.
func BenchmarkRemove(b *testing.B) {
	var paths []jsonpath.Path
	for _, text := range []string{`$.spec.containers[*].env[?@.name == "DEBUG"]`, `$.spec.containers[?@.name == "profiler"]`, "$.spec.replicas"} {
		path, err := jsonpath.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		paths = append(paths, path)
	}
	for _, size := range []int{1, 10, 100, 1000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				containers := make([]any, size)
				for i := range containers {
					containers[i] = map[string]any{"name": "server", "env": []any{
						map[string]any{"name": "DEBUG", "value": "true"}, map[string]any{"name": "REGION", "value": "eu"},
					}}
				}
				object := map[string]any{"spec": map[string]any{"replicas": int64(2), "containers": containers}}
				b.StartTimer()
				jsonpath.Remove(object, paths...)
			}
		})
	}
}
