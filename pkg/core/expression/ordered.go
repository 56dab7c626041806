package expression

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// ordered adapts native values such that maps are iterated in the order of their keys. CEL's own
// maps are iterated in random order, so that expressions such as obj.metadata.labels.map(k, k)
// would not be deterministic.
type ordered struct{ types.Adapter }

// NativeToValue implements types.Adapter.
func (o ordered) NativeToValue(value any) ref.Val {
	switch value := value.(type) {
	case map[string]any:
		return orderedMap{types.NewStringInterfaceMap(o, value)}
	case map[string]string:
		return orderedMap{types.NewStringStringMap(o, value)}
	case map[ref.Val]ref.Val:
		return orderedMap{types.NewRefValMap(o, value)}
	case []any:
		return types.NewDynamicList(o, value) // for the maps in it
	}
	return o.Adapter.NativeToValue(value)
}

type orderedMap struct{ traits.Mapper }

// IsZeroValue implements traits.Zeroer.
func (m orderedMap) IsZeroValue() bool { return m.Size() == types.IntZero }

// Iterator implements traits.Iterable.
func (m orderedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		if a, ok := a.(types.String); ok {
			if b, ok := b.(types.String); ok {
				return cmp.Compare(a, b)
			}
		}
		if a.Type() == b.Type() {
			if comparer, ok := a.(traits.Comparer); ok {
				if order, ok := comparer.Compare(b).(types.Int); ok {
					return int(order)
				}
			}
		}
		return cmp.Compare(fmt.Sprintf("%s %v", a.Type().TypeName(), a), fmt.Sprintf("%s %v", b.Type().TypeName(), b))
	})
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}
