package combine

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// maxValue bounds how large one value is, in bytes of JSON: more than the longest status that an agent reports, and less than what
// a CombinedStatus takes.
//
// What an evaluation costs does not bound it: in CEL a list of a thousand times the object holds it once, as JSON a thousand times.
const maxValue = 512 << 10

// valueOf returns the value as a CombinedStatus holds it, and about how many bytes it has.
func valueOf(v ref.Val) (value controlv1alpha1.Value, size int, err error) {
	w := writer{left: maxValue}
	native, err := w.jsonOf(v, 0)
	if err != nil {
		return controlv1alpha1.Value{}, maxValue - max(0, w.left), err
	}
	value, err = valueOfNative(native)
	return value, maxValue - w.left, err
}

func valueOfNative(native any) (controlv1alpha1.Value, error) {
	switch native := native.(type) {
	case nil:
		return controlv1alpha1.Value{Type: controlv1alpha1.ValueNull}, nil
	case bool:
		return controlv1alpha1.Value{Type: controlv1alpha1.ValueBool, Bool: &native}, nil
	case string:
		return textOf(native), nil
	case int64:
		return numberValue(number{whole: true, i: native}), nil
	case uint64:
		return numberValueOf(strconv.FormatUint(native, 10)), nil
	case float64:
		return numberValue(number{f: native}), nil
	}
	raw, err := encode(native)
	if err != nil {
		return controlv1alpha1.Value{}, err
	}
	if _, ok := native.([]any); ok {
		return controlv1alpha1.Value{Type: controlv1alpha1.ValueArray, Array: &runtime.RawExtension{Raw: raw}}, nil
	}
	return controlv1alpha1.Value{Type: controlv1alpha1.ValueObject, Object: &runtime.RawExtension{Raw: raw}}, nil
}

func textOf(text string) controlv1alpha1.Value {
	return controlv1alpha1.Value{Type: controlv1alpha1.ValueString, String: &text}
}

func numberValueOf(text string) controlv1alpha1.Value {
	return controlv1alpha1.Value{Type: controlv1alpha1.ValueNumber, Number: &text}
}

// maxDepth bounds how deep lists and maps nest: as much as a JSON decoder of Kubernetes takes, and then some.
const maxDepth = 1000

// writer makes JSON of values, as long as there is room.
type writer struct{ left int }

// take takes room for so many bytes.
func (w *writer) take(bytes int) error {
	if w.left -= bytes; w.left < 0 {
		return fmt.Errorf("the value has more than %d KiB: select less", maxValue>>10)
	}
	return nil
}

// jsonOf returns the value in the types of JSON, with int64 and uint64 beside float64.
func (w *writer) jsonOf(v ref.Val, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("the value nests too deep")
	}
	if err := w.take(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		// What is no text cannot be written as JSON.
		return strings.ToValidUTF8(string(v), "\uFFFD"), w.take(len(v))
	case types.Bytes:
		if err := w.take(base64.StdEncoding.EncodedLen(len(v))); err != nil {
			return nil, err
		}
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.Time.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case *types.Type:
		return v.TypeName(), nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return w.jsonOf(v.GetValue(), depth+1)
	case traits.Lister:
		// Asked first: each item takes room, and to walk through a list of lists may take long.
		if size, ok := v.Size().(types.Int); ok && int64(size) > int64(w.left) {
			return nil, w.take(w.left + 1)
		}
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			item, err := w.jsonOf(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	case traits.Mapper:
		object := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			item, err := w.jsonOf(v.Get(key), depth+1)
			if err != nil {
				return nil, err
			}
			text, ok := key.ConvertToType(types.StringType).(types.String)
			if !ok {
				return nil, fmt.Errorf("%s cannot be a key", key.Type().TypeName())
			}
			if err := w.take(len(text)); err != nil {
				return nil, err
			}
			object[strings.ToValidUTF8(string(text), "\uFFFD")] = item
		}
		return object, nil
	}
	if types.IsUnknownOrError(v) {
		return nil, fmt.Errorf("%v", v)
	}
	// Types of Kubernetes' libraries: quantities, URLs, addresses.
	return fmt.Sprint(v.Value()), nil
}

// encode writes JSON in one way: keys sorted, no number that JSON does not have.
func encode(native any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(finite(native)); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// finite makes strings of the numbers that JSON does not have. It changes what it is given.
func finite(native any) any {
	switch native := native.(type) {
	case float64:
		if math.IsNaN(native) || math.IsInf(native, 0) {
			return formatFloat(native)
		}
	case []any:
		for i := range native {
			native[i] = finite(native[i])
		}
	case map[string]any:
		for key := range native {
			native[key] = finite(native[key])
		}
	}
	return native
}

// number is what aggregates calculate with. It is exact as long as only whole numbers come in and fit.
type number struct {
	whole bool
	i     int64
	f     float64
}

func (n number) float() float64 {
	if n.whole {
		return float64(n.i)
	}
	return n.f
}

func (n number) String() string {
	if n.whole {
		return strconv.FormatInt(n.i, 10)
	}
	return formatFloat(n.f)
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func numberValue(n number) controlv1alpha1.Value { return numberValueOf(n.String()) }

func (n number) plus(m number) number {
	if n.whole && m.whole {
		if sum := n.i + m.i; (sum > n.i) == (m.i > 0) {
			return number{whole: true, i: sum}
		}
	}
	return number{f: n.float() + m.float()}
}

// compareNumbers orders numbers; what is no number (NaN) comes first.
func compareNumbers(n, m number) int {
	if n.whole && m.whole {
		return cmp.Compare(n.i, m.i)
	}
	return cmp.Compare(n.float(), m.float())
}

// parseNumber reads the number that a string holds.
func parseNumber(text string) (number, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number{whole: true, i: i}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // then it is an infinity
		return number{}, err
	}
	return number{f: f}, nil
}

// compareValues orders values: null, booleans, numbers, strings, lists, maps.
func compareValues(a, b *controlv1alpha1.Value) int {
	if order := cmp.Compare(rank(a.Type), rank(b.Type)); order != 0 {
		return order
	}
	switch a.Type {
	case controlv1alpha1.ValueNull:
		return 0
	case controlv1alpha1.ValueBool:
		return cmp.Compare(boolRank(*a.Bool), boolRank(*b.Bool))
	case controlv1alpha1.ValueNumber:
		n, errN := parseNumber(*a.Number)
		m, errM := parseNumber(*b.Number)
		if errN != nil || errM != nil {
			return cmp.Compare(*a.Number, *b.Number) // cannot be: we wrote them
		}
		return cmp.Or(compareNumbers(n, m), cmp.Compare(*a.Number, *b.Number))
	case controlv1alpha1.ValueString:
		return cmp.Compare(*a.String, *b.String)
	case controlv1alpha1.ValueArray:
		return bytes.Compare(a.Array.Raw, b.Array.Raw)
	default:
		return bytes.Compare(a.Object.Raw, b.Object.Raw)
	}
}

func rank(t controlv1alpha1.ValueType) int {
	switch t {
	case controlv1alpha1.ValueNull:
		return 0
	case controlv1alpha1.ValueBool:
		return 1
	case controlv1alpha1.ValueNumber:
		return 2
	case controlv1alpha1.ValueString:
		return 3
	case controlv1alpha1.ValueArray:
		return 4
	default:
		return 5
	}
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// keyOf returns a text that is the same for equal values: 1 and 1.0 are equal, 1 and "1" are not.
func keyOf(v *controlv1alpha1.Value) string {
	switch v.Type {
	case controlv1alpha1.ValueBool:
		return "b" + strconv.FormatBool(*v.Bool)
	case controlv1alpha1.ValueNumber:
		text := *v.Number
		const exact = 1 << 53
		if n, err := parseNumber(text); err == nil && !n.whole && math.Abs(n.f) < exact && n.f == math.Trunc(n.f) {
			text = strconv.FormatInt(int64(n.f), 10)
		}
		return "n" + text
	case controlv1alpha1.ValueString:
		return "s" + *v.String
	case controlv1alpha1.ValueArray:
		return "a" + string(v.Array.Raw)
	case controlv1alpha1.ValueObject:
		return "o" + string(v.Object.Raw)
	default:
		return "0"
	}
}
