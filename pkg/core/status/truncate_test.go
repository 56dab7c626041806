package status

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestTruncate(t *testing.T) {
	type object = map[string]any
	text := func(n int) string { return strings.Repeat("x", n) }
	list := func(n int, item any) (items []any) {
		for range n {
			items = append(items, item)
		}
		return items
	}
	fields := func(n int) object {
		many := object{}
		for i := range n {
			many["key"+strconv.Itoa(1000+i)] = text(20) // 31 bytes with its comma
		}
		return many
	}
	item := object{"name": text(80)} // 91 bytes
	for name, tc := range map[string]struct {
		status     object
		limit      int
		want       string // as JSON, but for runs of x; "" for the same
		wantCuts   []Cut
		wantString string
	}{
		"Short":    {status: object{"a": text(10)}, limit: 100},
		"JustFits": {status: object{"a": text(10)}, limit: 18},
		"Empty":    {status: object{}, limit: 2},
		"None":     {status: nil, limit: 4},
		"LongString": {
			status: object{"a": text(1000), "b": "short", "c": int64(7), "d": nil, "e": true, "f": 1.5}, limit: 100,
			want:       `{"a":"(44x)…","b":"short","c":7,"d":null,"e":true,"f":1.5}`,
			wantCuts:   []Cut{{".a", 44, 1000, "bytes"}},
			wantString: "the status has about 1052 bytes, more than 100 bytes; shortened: .a",
		},
		"LongStringsShareTheRoom": {
			status: object{"a": text(3000), "b": text(2000), "c": text(100)}, limit: 1119,
			want:       `{"a":"(495x)…","b":"(495x)…","c":"(100x)"}`,
			wantCuts:   []Cut{{".a", 495, 3000, "bytes"}, {".b", 495, 2000, "bytes"}},
			wantString: "the status has about 5122 bytes, more than 1119 bytes; shortened: .a, .b",
		},
		"ListsLoseWholeItems": {
			status: object{"items": list(100, item), "phase": "Done"}, limit: 400,
			want:       `{"items":[{"name":"(80x)"},{"name":"(80x)"},{"name":"(80x)"},{"name":"(80x)"}],"phase":"Done"}`,
			wantCuts:   []Cut{{".items", 4, 100, "items"}},
			wantString: "the status has about 9226 bytes, more than 400 bytes; shortened: .items",
		},
		"LargeItemsAreShortened": {
			status: object{"items": list(2, object{"log": text(9000)})}, limit: 6000,
			want:       `{"items":[{"log":"(2466x)…"},{"log":"(2466x)…"}]}`,
			wantCuts:   []Cut{{".items[].log", 4932, 18000, "bytes"}},
			wantString: "the status has about 18 KiB, more than 6000 bytes; shortened: .items[].log",
		},
		"ObjectsLoseTheirLastFields": {
			status: object{"map": fields(100), "phase": "Done"}, limit: 100,
			want:       `{"map":{"key1000":"(20x)","key1001":"(20x)"},"phase":"Done"}`,
			wantCuts:   []Cut{{".map", 2, 100, "fields"}},
			wantString: "the status has about 3324 bytes, more than 100 bytes; shortened: .map",
		},
		"EscapesCount": {
			status: object{"a": strings.Repeat("<ü", 100)}, limit: 50,
			want:       `{"a":"\u003cü\u003cü\u003cü\u003cü\u003c…"}`,
			wantCuts:   []Cut{{".a", 13, 300, "bytes"}},
			wantString: "the status has about 808 bytes, more than 50 bytes; shortened: .a",
		},
		"NoRoom": {
			status: object{"long-key": text(100)}, limit: 10, want: `{}`,
			wantCuts:   []Cut{{".", 0, 1, "fields"}},
			wantString: "the status has about 115 bytes, more than 10 bytes; shortened: .",
		},
		"WithConditions": {
			status: object{
				"conditions": []any{
					object{"type": "Ready", "lastTransitionTime": "2026-01-02T03:04:05Z"},
					object{"type": "Synced", "lastTransitionTime": "soon"},
				},
				"log": text(1 << 20),
			}, limit: 4096,
			want: `{"conditions":[{"lastTransitionTime":"2026-01-02T03:04:05Z","type":"Ready"},{"lastTransitionTime":"soon","type":"Synced"},` +
				`{"lastTransitionTime":"2026-01-02T03:04:05Z",` +
				`"message":"the status in the cluster has 1048708 bytes, more than the limit of 4096; shortened: .log (2936 of 1048576 bytes left)",` +
				`"reason":"StatusTooLarge","status":"True","type":"starling.io/Truncated"}],"log":"(2936x)…"}`,
			wantCuts:   []Cut{{".log", 2936, 1 << 20, "bytes"}},
			wantString: "the status has about 1.0 MiB, more than 4096 bytes; shortened: .log",
		},
		"ConditionsOfAnotherKind": {
			status: object{"conditions": []any{"Ready"}, "log": text(5000)}, limit: 4096,
			want:       `{"conditions":["Ready"],"log":"(3035x)…"}`,
			wantCuts:   []Cut{{".log", 3035, 5000, "bytes"}},
			wantString: "the status has about 5033 bytes, more than 4096 bytes; shortened: .log",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(tc.status)
			if err != nil {
				t.Fatal(err)
			}
			got, cut := Truncate(tc.status, tc.limit)
			if tc.want == "" {
				if cut != nil || !reflect.DeepEqual(got, tc.status) {
					t.Errorf("truncated: %v", cut)
				}
				return
			}
			short, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if len(short) > tc.limit {
				t.Errorf("%d bytes, want %d at most", len(short), tc.limit)
			}
			if diff := cmp.Diff(tc.want, runs.ReplaceAllStringFunc(string(short), func(run string) string {
				return fmt.Sprintf("(%dx)", len(run))
			})); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if cut == nil {
				t.Fatal("no Truncation is returned")
			}
			if diff := cmp.Diff(tc.wantCuts, cut.Cuts); diff != "" {
				t.Errorf("cuts (-want +got):\n%s", diff)
			}
			if cut.String() != tc.wantString {
				t.Errorf("String() = %q, want %q", cut, tc.wantString)
			}
			if after, err := json.Marshal(tc.status); err != nil || string(after) != string(before) {
				t.Error("the status itself was changed")
			}
		})
	}
}

var runs = regexp.MustCompile("x{20,}")

// FuzzTruncate checks that every result fits, has a Truncation, is the same every time, and is a
// part of the input.
func FuzzTruncate(f *testing.F) {
	f.Add([]byte(`{"a":"`+strings.Repeat("<é\\u2028", 50)+`","b":[1,2,{"c":null}],"conditions":[{"type":"Ready"}]}`), 40)
	f.Add([]byte(`{"conditions":[{"type":"Ready","message":"`+strings.Repeat("x", 5000)+`","lastTransitionTime":"2026-01-02T03:04:05Z"}]}`), 3000)
	f.Add([]byte(`{"a":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)+`}`), 300)
	f.Add([]byte(`{"`+strings.Repeat("k\\\"", 300)+`":{"":[true,1.5e300]}}`), 2)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		var status map[string]any
		if err := utiljson.Unmarshal(text, &status); err != nil || limit < 2 {
			return
		}
		got, cut := Truncate(status, limit)
		encodedStatus, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if len(encodedStatus) > limit && (status != nil || cut != nil) {
			t.Fatalf("%d bytes, limit %d", len(encodedStatus), limit)
		}
		again, cutAgain := Truncate(status, limit)
		if !reflect.DeepEqual(got, again) || !reflect.DeepEqual(cut, cutAgain) {
			t.Fatal("not the same every time")
		}
		if cut == nil {
			if !reflect.DeepEqual(got, status) {
				t.Fatal("truncated without a Truncation")
			}
			return
		}
		if len(cut.Cuts) == 0 || cut.Size <= cut.Limit {
			t.Fatalf("truncated without a Cut: %+v", cut)
		}
		if _, noted := withCondition(map[string]any{}, ""); noted {
			t.Fatal("a condition where there are none")
		}
		if list, ok := got["conditions"].([]any); ok && len(list) > 0 {
			if last, ok := list[len(list)-1].(map[string]any); ok && last["type"] == ConditionTruncated {
				got["conditions"] = list[:len(list)-1]
			}
		}
		if !partOf(got, status) {
			t.Fatalf("holds what was not reported: %s", encodedStatus)
		}
	})
}

// partOf reports whether a value is another one with parts left out.
func partOf(part, whole any) bool {
	switch p := part.(type) {
	case map[string]any:
		w, ok := whole.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range p {
			if of, has := w[key]; !has || !partOf(value, of) {
				return false
			}
		}
		return true
	case []any:
		w, ok := whole.([]any)
		if !ok || len(p) > len(w) {
			return false
		}
		for i := range p {
			if !partOf(p[i], w[i]) {
				return false
			}
		}
		return true
	case string:
		w, ok := whole.(string)
		begin, cut := strings.CutSuffix(p, "…")
		return ok && (p == w || cut && strings.HasPrefix(w, begin))
	}
	return reflect.DeepEqual(part, whole)
}

// TestTruncateRandom does what the fuzz test does with trees of all shapes.
func TestTruncateRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	var tree func(depth int) any
	tree = func(depth int) any {
		kind := random.IntN(6)
		if depth == 0 {
			kind %= 4
		}
		switch kind {
		case 0:
			return int64(random.IntN(1e6))
		case 1:
			return random.IntN(2) == 0
		case 2, 3:
			return strings.Repeat(string([]rune("ab<\"é\n…")[random.IntN(7)]), random.IntN(600))
		case 4:
			items := []any{}
			for range random.IntN(30) {
				items = append(items, tree(depth-1))
			}
			return items
		}
		object := map[string]any{}
		for i := range random.IntN(30) {
			object["k"+strconv.Itoa(i)] = tree(depth - 1)
		}
		return object
	}
	used := 0.0
	const rounds = 300
	for range rounds {
		status := map[string]any{"a": tree(3), "b": tree(3), "conditions": []any{map[string]any{"type": "Ready", "message": tree(0)}}}
		size := measure(status).size
		if text, err := json.Marshal(status); err != nil || len(text) != size {
			t.Fatalf("measured %d bytes, has %d", size, len(text))
		}
		limit := 2 + random.IntN(size)
		got, cut := Truncate(status, limit)
		text, err := json.Marshal(got)
		if err != nil || len(text) > limit || (cut != nil) != (size > limit) {
			t.Fatalf("%d bytes, limit %d of %d, %v", len(text), limit, size, cut)
		}
		if len(cut.String()) > 1024 {
			t.Fatalf("String() is too long: %s", cut)
		}
		used += float64(len(text)) / float64(limit)
	}
	if used/rounds < 0.5 {
		t.Errorf("on average %.0f %% of the room is used", used/rounds*100)
	}
}
