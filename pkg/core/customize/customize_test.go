package customize_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

var (
	settings = objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	password = objref.Ref{Resource: "secrets", Namespace: "web", Name: "password"}
)

// object returns an object that asks for expansion, with this content in JSON.
func object(t testing.TB, ref objref.Ref, content string) transform.Object {
	t.Helper()
	var fields map[string]any
	raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q,
		"annotations":{"control.kubestellar.io/expand-templates":"true"}},%s}`, ref.Name, ref.Namespace, content)
	if err := kjson.Unmarshal([]byte(raw), &fields); err != nil {
		t.Fatal(err)
	}
	o, err := transform.Standard().Apply(ref, fields)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var edge = customize.NewProperties("edge1", map[string]string{"site": "north", "size": "3"})

func TestExpand(t *testing.T) {
	cases := map[string]struct {
		ref     objref.Ref
		content string
		want    string // of data, in JSON
		wantErr string
	}{
		"Properties":   {content: `"data":{"a":"{{.site}}-{{.clusterName}}","b":"plain"}`, want: `{"a":"north-edge1","b":"plain"}`},
		"Lists":        {content: `"data":[{"a":["x","{{.size}}"]}]`, want: `[{"a":["x","3"]}]`},
		"KeysStay":     {content: `"data":{"{{.site}}":"{{.site}}"}`, want: `{"{{.site}}":"north"}`},
		"Conditions":   {content: `"data":{"a":"{{if eq .site \"north\"}}cold{{else}}warm{{end}}"}`, want: `{"a":"cold"}`},
		"Range":        {content: `"data":{"a":"{{range $k, $v := .}}{{$k}}={{$v}} {{end}}"}`, want: `{"a":"clusterName=edge1 site=north size=3 "}`},
		"Defined":      {content: `"data":{"a":"{{define \"x\"}}<{{.}}>{{end}}{{template \"x\" .site}}"}`, want: `{"a":"\u003cnorth\u003e"}`},
		"NoExpression": {content: `"data":{"a":"{{/* nothing */}}"}`, want: `{"a":""}`},
		"Missing": {
			content: `"data":{"a":"{{.zone}}"}`,
			wantErr: `.data.a cannot be expanded: configmaps.data.a:1:2: executing "configmaps.data.a" at <.zone>: map has no entry for key "zone"`,
		},
		"Syntax":          {content: `"data":{"a":"{{.site"}`, wantErr: `.data.a cannot be parsed as a template: configmaps.data.a:1: unclosed action`},
		"NoSuchFunction":  {content: `"data":{"a":"{{env \"HOME\"}}"}`, wantErr: `.data.a cannot be parsed as a template: configmaps.data.a:1: function "env" not defined`},
		"OddKey":          {content: `"data":{"a-b":"{{.x}}"}`, wantErr: `.data["a-b"] cannot be expanded: configmaps.data["a-b"]:1:2: executing "configmaps.data[\"a-b\"]" at <.x>: map has no entry for key "x"`},
		"SecretIsQuiet":   {ref: password, content: `"stringData":{"a":"hunter2{{.x}}hunter2"}`, wantErr: `.stringData.a cannot be expanded (text withheld: the object is a Secret)`},
		"SecretSyntax":    {ref: password, content: `"stringData":{"a":"{{hunter2}}"}`, wantErr: `.stringData.a cannot be parsed as a template (text withheld: the object is a Secret)`},
		"Loop":            {content: `"data":{"a":"{{range 1000000000}}{{end}}"}`, wantErr: `.data.a ranges over 1000000000: a template can only range over the properties`},
		"LoopOfAVariable": {content: `"data":{"a":"{{$n := 1000000000}}{{range $n}}{{end}}"}`, wantErr: `.data.a ranges over $n: a template can only range over the properties`},
		"LoopOfALength":   {content: `"data":{"a":"{{range len .site}}{{end}}"}`, wantErr: `.data.a ranges over len .site: a template can only range over the properties`},
		"LoopOfADot":      {content: `"data":{"a":"{{with 1000000000000}}{{range .}}{{end}}{{end}}"}`, wantErr: `.data.a ranges over .: a template can only range over the properties`},
		"LoopInALoop":     {content: `"data":{"a":"{{range .}}{{range .}}{{end}}{{end}}"}`, wantErr: `.data.a ranges over .: a template can only range over the properties`},
		"LoopOfANewRoot":  {content: `"data":{"a":"{{$ := 1000000000000}}{{range $}}{{end}}"}`, wantErr: `.data.a assigns a value to $, which a template must not do`},
		"LoopOfASetRoot":  {content: `"data":{"a":"{{$ = 1000000000000}}{{range $}}{{end}}"}`, wantErr: `.data.a assigns a value to $, which a template must not do`},
		"LoopOfACall":     {content: `"data":{"a":"{{define \"x\"}}{{range .}}{{end}}{{end}}{{template \"x\" .}}{{template \"x\" 1000000000000}}"}`, wantErr: `.data.a ranges over .: a template can only range over the properties`},
		"LoopOfItsRoot":   {content: `"data":{"a":"{{define \"x\"}}{{range $}}{{end}}{{end}}{{template \"x\" 1000000000000}}"}`, wantErr: `.data.a ranges over $: a template can only range over the properties`},
		"LoopOfAll":       {content: `"data":{"a":"{{define \"x\"}}{{with $}}{{range $k, $v := .}}{{$k}} {{end}}{{end}}{{end}}{{with .}}{{template \"x\" .}}{{end}}"}`, want: `{"a":"clusterName site size "}`},
		"DeepLoops":       {content: `"data":{"a":"{{range .}}{{range $}}{{range $}}{{range $}}{{end}}{{end}}{{end}}{{end}}"}`, wantErr: `.data.a has loops nested more than 3 deep`},
		"Recursion":       {content: `"data":{"a":"{{define \"x\"}}{{template \"x\"}}{{end}}{{template \"x\"}}"}`, wantErr: `.data.a has a template that calls itself`},
		"NoSuchTemplate":  {content: `"data":{"a":"{{template \"x\"}}"}`, wantErr: `.data.a calls template "x", which does not exist`},
		"TooLong":         {content: `"data":{"a":"` + strings.Repeat(`{{printf \"%50000d\" 1}}`, 22) + `"}`, wantErr: `.data.a becomes longer than 1048576 bytes`},
		"SeveralErrors": {
			content: `"data":{"a":"{{.x}}","b":"{{.site}}","c":"{{.y}}"}`,
			wantErr: `.data.a cannot be expanded: configmaps.data.a:1:2: executing "configmaps.data.a" at <.x>: map has no entry for key "x"; ` +
				`.data.c cannot be expanded: configmaps.data.c:1:2: executing "configmaps.data.c" at <.y>: map has no entry for key "y"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.ref == (objref.Ref{}) {
				tc.ref = settings
			}
			template, err := customize.Compile(object(t, tc.ref, tc.content))
			var got transform.Object
			if err == nil {
				if template == nil {
					t.Fatal("it is no template")
				}
				got, err = template.Expand(edge)
			}
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, text); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if err != nil {
				return
			}
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(got.JSON, &fields); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(fields["data"])); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
			if got.Ref != tc.ref || got.Hash != transform.HashOf(got.JSON) || got.Kind.Kind != "ConfigMap" {
				t.Errorf("object %+v", got)
			}
		})
	}
}

// TestTextIsBounded: what functions make does not have to be written to be too much.
func TestTextIsBounded(t *testing.T) {
	const times = 24
	wide := strings.Repeat("%[1]900000d", 100)
	for name, text := range map[string]string{
		"Doubling":       `{{$x := "xxxxxxxxxx"}}` + strings.Repeat(`{{$x = print $x $x}}`, times) + `{{len $x}}`,
		"DoublingLines":  `{{$x := "xxxxxxxxxx"}}` + strings.Repeat(`{{$x = println $x $x}}`, times) + `{{len $x}}`,
		"DoublingFormat": `{{$x := "xxxxxxxxxx"}}` + strings.Repeat(`{{$x = printf "%[1]s%[1]s" $x}}`, times) + `{{len $x}}`,
		"DoublingQuotes": `{{$x := "\""}}` + strings.Repeat(`{{$x = printf "%q" $x}}`, times) + `{{len $x}}`,
		"HTML":           `{{$x := "&&&&&&&&&&"}}` + strings.Repeat(`{{$x = html $x $x}}`, times) + `{{len $x}}`,
		"JS":             `{{$x := "\\"}}` + strings.Repeat(`{{$x = js $x}}`, times) + `{{len $x}}`,
		"URL":            `{{$x := "%"}}` + strings.Repeat(`{{$x = urlquery $x $x}}`, times) + `{{len $x}}`,
		"Wide":           `{{printf "` + wide + `" 1 | len}}`,
		"WidthsFollow":   `{{printf "` + strings.Repeat("%[1]*[2]d", 100) + `" 900000 1 | len}}`,
		"Precise":        `{{printf "` + strings.Repeat("%.[1]*[2]f", 100) + `" 900000 1.5 | len}}`,
	} {
		t.Run(name, func(t *testing.T) {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			template, err := customize.Compile(object(t, settings, `"data":{"a":`+string(quoted)+`}`))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := template.Expand(edge); err == nil || !strings.Contains(err.Error(), "makes more than") {
				t.Errorf("Expand() = %s, %v, want an error", got.JSON, err)
			}
		})
	}
}

// TestObjectsAreBounded: many strings that cost little each cost too much together.
func TestObjectsAreBounded(t *testing.T) {
	fields := make([]string, 300)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"f%d":"{{range .}}{{range $}}{{range $}}x{{end}}{{end}}{{end}}"`, i)
	}
	template, err := customize.Compile(object(t, settings, `"data":{`+strings.Join(fields, ",")+`}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := template.Expand(edge); err != nil {
		t.Errorf("with three properties: %v", err)
	}
	many := map[string]string{}
	for i := range 30 {
		many[fmt.Sprintf("p%d", i)] = "x"
	}
	const want = "the templates of the object loop too often for the number of properties of the cluster"
	if _, err := template.Expand(customize.NewProperties("edge1", many)); err == nil || err.Error() != want {
		t.Errorf("with thirty properties: error %v, want %s", err, want)
	}
}

func TestErrorsAreBounded(t *testing.T) {
	var fields []string
	for i := range 9 {
		fields = append(fields, fmt.Sprintf(`"f%d":"{{.x}}"`, i))
	}
	template, err := customize.Compile(object(t, settings, `"data":{`+strings.Join(fields, ",")+`}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = template.Expand(edge); err == nil || !strings.HasSuffix(err.Error(), " … and 4 more") {
		t.Errorf("error %v, want five and the number of the others", err)
	}
}

func TestIdentityIsNoTemplate(t *testing.T) {
	for field, content := range map[string]string{
		".apiVersion":         `"apiVersion":"{{.site}}/v1","kind":"ConfigMap","metadata":{"name":"n","namespace":"web"`,
		".kind":               `"apiVersion":"v1","kind":"{{.site}}","metadata":{"name":"n","namespace":"web"`,
		".metadata.name":      `"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"{{.site}}","namespace":"web"`,
		".metadata.namespace": `"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","namespace":"{{.site}}"`,
	} {
		raw := "{" + content + `,"annotations":{"control.kubestellar.io/expand-templates":"true"}}}`
		_, err := customize.Compile(transform.Object{Ref: settings, JSON: []byte(raw)})
		want := field + " cannot be a template, because it identifies the object and must be the same in all clusters"
		if err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", field, err, want)
		}
	}
}

func TestWhatIsNoTemplate(t *testing.T) {
	with := object(t, settings, `"data":{"a":"plain"}`)
	without := transform.Object{Ref: settings, JSON: []byte(strings.ReplaceAll(string(object(t, settings, `"data":{"a":"{{.site}}"}`).JSON), `"true"`, `"false"`))}
	elsewhere := transform.Object{Ref: settings, JSON: []byte(`{"data":{"control.kubestellar.io/expand-templates":"true","a":"{{.x}}"}}`)}
	for name, o := range map[string]transform.Object{"NoBraces": with, "NotTrue": without, "Elsewhere": elsewhere} {
		if template, err := customize.Compile(o); template != nil || err != nil {
			t.Errorf("%s: Compile() = %v, %v, want nothing", name, template, err)
		}
	}
}

func TestPrecedenceOfProperties(t *testing.T) {
	labels := map[string]string{"a": "label", "b": "label", "c": "label", "clusterName": "label", "topology.kubernetes.io/zone": "z"}
	annotations := map[string]string{"a": "annotation", "b": "annotation"}
	data := map[string]string{"a": "map", "not-an-identifier": "x", "type": "keyword"}
	p := customize.NewProperties("edge1", labels, annotations, data)
	template, err := customize.Compile(object(t, settings, `"data":{"a":"{{range $k, $v := .}}{{$k}}={{$v}} {{end}}"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := template.Expand(p)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"a=map b=annotation c=label clusterName=label "`; !strings.Contains(string(got.JSON), want) {
		t.Errorf("%s\nwant %s", got.JSON, want)
	}
}

func TestKeyTellsWhatMatters(t *testing.T) {
	compile := func(content string) *customize.Template {
		template, err := customize.Compile(object(t, settings, content))
		if err != nil {
			t.Fatal(err)
		}
		return template
	}
	other := customize.NewProperties("edge2", map[string]string{"site": "north", "size": "4"})
	for name, tc := range map[string]struct {
		content string
		equal   bool
	}{
		"SameValue":  {`"data":{"a":"{{.site}}"}`, true},
		"OtherValue": {`"data":{"a":"{{.site}}{{.size}}"}`, false},
		"Name":       {`"data":{"a":"{{$.clusterName}}"}`, false},
		"Nothing":    {`"data":{"a":"{{1}}"}`, true},
		"All":        {`"data":{"a":"{{index . \"site\"}}"}`, false},
		"Chain":      {`"data":{"a":"{{(print .size).x}}"}`, false},
		"Missing":    {`"data":{"a":"{{.zone}}"}`, true},
	} {
		template := compile(tc.content)
		if got := template.Key(edge) == template.Key(other); got != tc.equal {
			t.Errorf("%s: equal keys: %t, want %t", name, got, tc.equal)
		}
	}
	if compile(`"data":{"a":"{{.site}}"}`).Key(edge) == compile(`"data":{"b":"{{.site}}"}`).Key(edge) {
		t.Error("different objects have equal keys")
	}
	if !edge.Equal(customize.NewProperties("edge1", map[string]string{"size": "3", "site": "north"})) || edge.Equal(other) || edge.Equal(nil) {
		t.Error("Equal() is wrong")
	}
}

// FuzzExpand: no text makes the expansion panic or run away, equal inputs give equal results, equal
// keys too, and what no template is stays as it is.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{
		"{{.site}}", "{{range .}}{{range $}}x{{end}}{{else}}y{{end}}", `{{define "a"}}{{.}}{{end}}{{template "a" .}}`, "{{with .site}}{{.}}{{end}}",
		`{{block "a" .}}{{end}}{{printf "%9d" 1 | html}}`, "{{ (index . \"site\").x }}", "{{.clusterName", "{{$x := .}}{{range $x}}{{end}}",
		"{{with 9}}{{range .}}{{end}}{{end}}", `{{$x := "a"}}{{range $}}{{$x = print $x $x}}{{end}}{{$x}}`, `{{printf "%[1]*[1]d%+.3q" 9 .site}}`,
	} {
		f.Add(text, "north")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		quoted, err := json.Marshal(map[string]string{"a": text, "b": "fixed"})
		if err != nil {
			return
		}
		source := object(t, settings, `"data":`+string(quoted))
		template, err := customize.Compile(source)
		if err != nil || template == nil {
			return
		}
		p := customize.NewProperties("c", map[string]string{"site": value})
		one, errOne := template.Expand(p)
		two, errTwo := template.Expand(customize.NewProperties("c", map[string]string{"site": value}))
		if fmt.Sprint(errOne) != fmt.Sprint(errTwo) || string(one.JSON) != string(two.JSON) {
			t.Fatalf("two results:\n%s %v\n%s %v", one.JSON, errOne, two.JSON, errTwo)
		}
		if errOne == nil && !strings.Contains(string(one.JSON), `"b":"fixed"`) {
			t.Errorf("something else changed: %s", one.JSON)
		}
		other := customize.NewProperties("other", map[string]string{"site": value})
		if three, err := template.Expand(other); template.Key(p) == template.Key(other) && (fmt.Sprint(err) != fmt.Sprint(errOne) || string(three.JSON) != string(one.JSON)) {
			t.Errorf("equal keys, and different results:\n%s %v\n%s %v", one.JSON, errOne, three.JSON, err)
		}
	})
}

func BenchmarkExpand(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		var fields []string
		for i := range n {
			fields = append(fields, fmt.Sprintf(`"f%d":"{{.site}}"`, i))
		}
		template, err := customize.Compile(object(b, settings, `"data":{`+strings.Join(fields, ",")+`}`))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%d-fields", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := template.Expand(edge); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
