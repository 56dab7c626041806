package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"

func TestText(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":         {"Synced Binding \"web\" for 3 clusters", "Synced Binding \"web\" for 3 clusters"},
		"names":           {"secrets is forbidden: User system:serviceaccount:a:b cannot list", "secrets is forbidden: User system:serviceaccount:a:b cannot list"},
		"digest":          {"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
		"token":           {"got " + jwt + " from x", "got (removed) from x"},
		"header":          {"Authorization: Bearer abcdefgh", "Authorization: Bearer (removed)"},
		"URL":             {"clone https://me:hunter2@git.example.com/x", "clone https://(removed)git.example.com/x"},
		"URL without":     {"clone https://git.example.com/x", "clone https://git.example.com/x"},
		"flag":            {"--token=abc --v=2", "--token=(removed) --v=2"},
		"query":           {"/x?access_token=abc&b=c", "/x?access_token=(removed)&b=c"},
		"JSON":            {`{"password":"hunter2","a":1}`, `{"password":"(removed)","a":1}`},
		"bootstrap token": {"use abcdef.0123456789abcdef now", "use (removed) now"},
		"Secret, YAML":    {"apiVersion: v1\nkind: Secret\nstringData: {a: b}", Removed},
		"Secret, JSON":    {`{"kind":"Secret","stringData":{"a":"b"}}`, Removed},
		"Secret, escaped": {`{"patch":"{\"kind\": \"Secret\"}"}`, Removed},
		"kubeconfig":      {"users:\n- user:\n    client-key-data: x", Removed},
		"registry":        {`{"auths":{"x":{"auth":"eA=="}}}`, Removed},
		"private key":     {"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", Removed},
		"certificate":     {"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----"},
		"encoded":         {"data: " + encode("kind: Secret\nstringData: {}"), "data: (removed)"},
		"encoded twice":   {"data: " + encode(encode("kind: Secret\nstringData: {}")), "data: (removed)"},
		"encoded text":    {"data: " + encode("nothing of interest"), "data: " + encode("nothing of interest")},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Text(c.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLog(t *testing.T) {
	got := Log("a\n-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nwith token=abc\n{\"kind\":\"Secret\"}\nb\n")
	if diff := cmp.Diff("a\n(removed)\nwith token=(removed)\n(removed)\nb\n", got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestObject(t *testing.T) {
	for name, c := range map[string]struct {
		obj, want string
		options   Options
	}{
		"Secret": {
			obj: `{apiVersion: v1, kind: Secret, type: Opaque, data: {a: Yg==}, stringData: {c: d},
				metadata: {name: x, labels: {l: m}, annotations: {copy: b}, managedFields: []}}`,
			want: `{apiVersion: v1, kind: Secret, type: Opaque, data: (removed), stringData: (removed),
				metadata: {name: x, labels: {l: m}, annotations: (removed)}}`,
		},
		"reference to a Secret": {
			obj:  `{apiVersion: v1, kind: Event, involvedObject: {kind: Secret, name: x}, secretRef: {name: y}, secretName: z}`,
			want: `{apiVersion: v1, kind: Event, involvedObject: {kind: Secret, name: x}, secretRef: {name: y}, secretName: z}`,
		},
		"list": {
			obj:  `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, data: {a: Yg==}}]}`,
			want: `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, data: (removed)}]}`,
		},
		"list of Secrets": {
			obj:  `{apiVersion: v1, kind: SecretList, items: [{data: {a: Yg==}}]}`,
			want: `{apiVersion: v1, kind: SecretList, items: (removed)}`,
		},
		"ConfigMap": {
			obj:  `{apiVersion: v1, kind: ConfigMap, data: {a: b}, binaryData: {c: ZA==}}`,
			want: `{apiVersion: v1, kind: ConfigMap, data: {a: (removed)}, binaryData: {c: (removed)}}`,
		},
		"ConfigMap with data": {
			options: Options{ConfigMaps: true},
			obj:     `{apiVersion: v1, kind: ConfigMap, data: {a: b, config.yaml: "password: hunter2"}, binaryData: {c: ZA==}}`,
			want:    `{apiVersion: v1, kind: ConfigMap, data: {a: b, config.yaml: "password: (removed)"}, binaryData: {c: (removed)}}`,
		},
		"kubeconfig": {
			obj:  `{spec: {config: {apiVersion: v1, kind: Config, users: [{user: {token: a}}]}}}`,
			want: `{spec: {config: (removed)}}`,
		},
		"annotation": {
			obj:  `{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", example.com/token: a, starling.io/hold: "true"}}}`,
			want: `{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: (removed), example.com/token: (removed), starling.io/hold: "true"}}}`,
		},
		"environment": {
			obj:  `{spec: {containers: [{env: [{name: A, value: b}, {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}`,
			want: `{spec: {containers: [{env: [{name: A, value: (removed)}, {name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}`,
		},
		"fields": {
			obj:  `{spec: {adminPassword: a, replicas: 2, automountServiceAccountToken: true, empty: {token: ""}}}`,
			want: `{spec: {adminPassword: (removed), replicas: 2, automountServiceAccountToken: true, empty: {token: ""}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parse(t, c.obj)
			got := Object(obj, c.options)
			if diff := cmp.Diff(parse(t, c.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, c.obj), obj); diff != "" {
				t.Errorf("the object was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongTextIsRemoved(t *testing.T) {
	got := Object(map[string]any{"spec": strings.Repeat("a", 17<<10)}, Options{})
	if diff := cmp.Diff(map[string]any{"spec": "(removed) of 17408 bytes"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSecretsNeverRemain: wherever in an object a Secret is, and however it is encoded there, its
// data are not in what remains.
func TestSecretsNeverRemain(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 7))
		marker := fmt.Sprintf("planted-%d-data", seed)
		var value any = map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "x", "annotations": map[string]any{"copy": marker}},
			"data": map[string]any{"key": encode(marker)}, "stringData": map[string]any{"key": marker},
		}
		var way []string
		encodings := 0
		for range 1 + random.IntN(4) {
			step := random.IntN(6)
			if step > 2 && encodings == depth {
				step = 0
			}
			switch step {
			case 0:
				way = append(way, "field")
				value = map[string]any{"spec": value, "other": int64(1)}
			case 1:
				way = append(way, "list")
				value = []any{"a", value}
			case 2:
				way = append(way, "annotation")
				value = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"annotations": map[string]any{"example.com/a": value}}}
			case 3:
				way = append(way, "YAML")
				text, err := yaml.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				value = string(text)
			case 4:
				way = append(way, "JSON")
				text, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				value = string(text)
			case 5:
				way = append(way, "base64")
				text, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				encodings++
				value = encode(string(text))
			}
		}
		out, err := json.Marshal(Object(map[string]any{"root": value}, Options{ConfigMaps: true}))
		if err != nil {
			t.Fatal(err)
		}
		if contains(string(out), marker, depth+1) {
			t.Fatalf("seed %d: a Secret remains after %v:\n%s", seed, way, out)
		}
	}
}

// contains reports whether a text contains another one, also in base64.
func contains(text, marker string, depth int) bool {
	if strings.Contains(text, marker) || strings.Contains(text, encode(marker)) {
		return true
	}
	for _, part := range encoded.FindAllString(text, -1) {
		if decoded, ok := decode(part); ok && depth > 0 && contains(decoded, marker, depth-1) {
			return true
		}
	}
	return false
}

// FuzzText: nothing that is a credential remains, nothing is removed twice, and nothing panics.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "a", jwt, "Bearer abcdefgh", encode("kind: Secret"), "https://a:b@c", "token: \"x\"", "\xff\xfe", "password==="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := Text(text)
		if twice := Text(once); twice != once {
			t.Errorf("Text(%q) is %q, and of that %q", text, once, twice)
		}
		if whole := Text(text + " Bearer " + jwt + " " + text); strings.Contains(whole, jwt) {
			t.Errorf("a token remains in %q", whole)
		}
	})
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &out); err != nil {
		t.Fatal(err)
	}
	return integers(out).(map[string]any)
}

// integers returns JSON with int64 instead of float64, as clients decode it.
func integers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = integers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case float64:
		return int64(v)
	}
	return value
}
