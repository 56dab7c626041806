package expression

import (
	"fmt"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Size returns the number of bytes of the texts in an object, plus that of its other values.
func Size(object map[string]any) int { return deepSize(object, math.MaxInt-1) }

// deepSize returns the number of bytes of the texts in a value and of its other values, each as
// often as it is contained. It stops when that is more than most, and returns most+1.
func deepSize(value any, most int) int {
	size := 1
	add := func(v any) bool {
		size += deepSize(v, most-size)
		return size <= most
	}
	switch v := value.(type) {
	case string:
		size = max(1, len(v))
	case types.String:
		size = max(1, len(v))
	case types.Bytes:
		size = max(1, len(v))
	case map[string]any:
		for key, item := range v {
			if size += len(key); !add(item) {
				break
			}
		}
	case map[string]string:
		for key, item := range v {
			if size += len(key); !add(item) {
				break
			}
		}
	case map[ref.Val]ref.Val:
		for key, item := range v {
			if !add(key) || !add(item) {
				break
			}
		}
	case []any:
		for _, item := range v {
			if !add(item) {
				break
			}
		}
	case []ref.Val:
		for _, item := range v {
			if !add(item) {
				break
			}
		}
	case *types.Optional:
		if v.HasValue() {
			return deepSize(v.GetValue(), most)
		}
	case orderedMap:
		return deepSize(v.Value(), most)
	case traits.Lister:
		if shallowSize(v) > most {
			return most + 1
		}
		for it := v.Iterator(); it.HasNext() == types.True && add(it.Next()); {
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if key := it.Next(); !add(key) || !add(v.Get(key)) {
				break
			}
		}
	case fmt.Stringer:
		size = max(1, len(v.String()))
	}
	return min(size, most+1)
}

// shallowSize returns the number of bytes of a text, or of the entries of a list or map.
func shallowSize(value any) int {
	switch v := value.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 1
}

// bounded returns a size that was computed with a product, at most most+1.
func bounded(size float64, most int) int {
	if size > float64(most) {
		return most + 1
	}
	return int(size)
}
