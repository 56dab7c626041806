package expression

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// observed is a list that counts the items that are read of it.
type observed struct {
	traits.Lister
	reads *int
}

// Iterator implements traits.Iterable.
func (o observed) Iterator() traits.Iterator { return observedIterator{o.Lister.Iterator(), o.reads} }

type observedIterator struct {
	traits.Iterator
	reads *int
}

// Next implements traits.Iterator.
func (i observedIterator) Next() ref.Val {
	*i.reads++
	return i.Iterator.Next()
}

// TestReadersReadWhatTheyCount: a function ends at once if its arguments are of other types than it
// wants, or than those it compares with. To find out what it reads must not take longer.
func TestReadersReadWhatTheyCount(t *testing.T) {
	reads := 0
	list := func(n int) ref.Val {
		return observed{types.NewRefValList(types.DefaultTypeAdapter, make([]ref.Val, n)), &reads}
	}
	values := map[string]ref.Val{
		"a number": types.Int(7), "no text": types.String(""), "a letter": types.String("x"), "a text": types.String(strings.Repeat("xy", 50_000)),
		"no list": list(0), "a short list": list(50), "a list": list(20_000), "a long list": list(1_000_000),
	}
	const most = 500_000
	for function, of := range readers {
		for receiver, first := range values {
			for argument, second := range values {
				for last, third := range values {
					reads = 0
					counted := of([]ref.Val{first, second, third}, most)
					if reads > 8*counted+1000 {
						t.Errorf("%s reads %d items and counts %d", fmt.Sprintf("%s of %s, %s and %s", function, receiver, argument, last), reads, counted)
					}
				}
			}
		}
	}
}
