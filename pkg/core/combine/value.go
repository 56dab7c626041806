package combine

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// maxValue limits the size of one value, in bytes of JSON: more than the largest status that an
// agent reports, and less than a CombinedStatus can hold.
//
// The cost limit of an evaluation does not limit the size: a CEL list that contains the object a
// thousand times stores it once, but its JSON contains the object a thousand times.
const maxValue = 512 << 10

// valueOf returns the value as a CombinedStatus stores it, and its approximate size in bytes.
func valueOf(v ref.Val) (value controlv1alpha1.Value, size int, err error) {
	w := writer{left: maxValue}
	native, err := w.jsonOf(v, 0)
	if err != nil {
		return controlv1alpha1.Value{}, maxValue - max(0, w.left), err
	}
	value, err = valueOfNative(native)
	return value, maxValue - w.left, err
}

// sizeOfValue returns the number of bytes that a value refers to.
func sizeOfValue(v *controlv1alpha1.Value) int {
	switch {
	case v.String != nil:
		return len(*v.String)
	case v.Number != nil:
		return len(*v.Number)
	case v.Array != nil:
		return len(v.Array.Raw)
	case v.Object != nil:
		return len(v.Object.Raw)
	}
	return 0
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

// maxDepth limits the nesting of lists and maps, to about what the JSON decoders of Kubernetes
// accept.
const maxDepth = 1000

// writer converts values to JSON, up to a number of bytes.
type writer struct{ left int }

// reserve subtracts bytes from what is left, and returns an error if too few are left.
func (w *writer) reserve(bytes int) error {
	if w.left -= bytes; w.left < 0 {
		return fmt.Errorf("the value has more than %d KiB; select a part of it", maxValue>>10)
	}
	return nil
}

// jsonOf returns the value in Go types of JSON. Numbers are int64, uint64 or float64.
func (w *writer) jsonOf(v ref.Val, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("the value is nested too deeply; select a part of it")
	}
	if err := w.reserve(1); err != nil {
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
		if f := float64(v); depth > 0 && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return formatFloat(f), nil // JSON has no such numbers
		}
		return float64(v), nil
	case types.String:
		// JSON cannot contain invalid UTF-8.
		return strings.ToValidUTF8(string(v), "\uFFFD"), w.reserve(len(v))
	case types.Bytes:
		if err := w.reserve(base64.StdEncoding.EncodedLen(len(v))); err != nil {
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
		// The size is checked first: each item needs at least one byte, and iterating over a list
		// of lists may take long.
		if size, ok := v.Size().(types.Int); ok && int64(size) > int64(w.left) {
			return nil, w.reserve(w.left + 1)
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
			if err := w.reserve(len(text)); err != nil {
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

// encode returns canonical JSON: keys are sorted.
func encode(native any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(native); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// number is a number of an aggregate. Sums of whole numbers are exact unless they overflow.
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

// compareNumbers orders numbers; NaN is first.
func compareNumbers(n, m number) int {
	if n.whole && m.whole {
		return cmp.Compare(n.i, m.i)
	}
	return cmp.Compare(n.float(), m.float())
}

// parseNumber parses the number in a string.
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
	if a.Type == controlv1alpha1.ValueNumber && b.Type == a.Type {
		n, errN := parseNumber(*a.Number)
		m, errM := parseNumber(*b.Number)
		if order := compareNumbers(n, m); order != 0 && errN == nil && errM == nil {
			return order
		}
	}
	return cmp.Or(cmp.Compare(rank(a.Type), rank(b.Type)), cmp.Compare(keyOf(a), keyOf(b)))
}

func rank(t controlv1alpha1.ValueType) int {
	return slices.Index([]controlv1alpha1.ValueType{
		controlv1alpha1.ValueNull, controlv1alpha1.ValueBool, controlv1alpha1.ValueNumber, controlv1alpha1.ValueString,
		controlv1alpha1.ValueArray, controlv1alpha1.ValueObject,
	}, t)
}

// keyOf returns a string that is the same for equal values: 1 and 1.0 are equal, 1 and "1" are not.
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
