package expression

import (
	"regexp"
	"regexp/syntax"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// reader returns the size of what a function reads of its arguments, the receiver first, and of
// what it makes of them in excess of that. It does not take longer than the function would, and
// stops when the size is more than most.
type reader func(args []ref.Val, most int) int

// readers are the functions that do not simply read all of their arguments once. Any other function
// does, as far as we know: so a new one does not go uncounted.
var readers = map[string]reader{
	// These read no content. CEL counts the call.
	"@not_strictly_false": nothing, "cel.@mapInsert": nothing, "dyn": nothing, "type": nothing,
	"optional.of": nothing, "optional.ofNonZeroValue": nothing, "optional.none": nothing, "hasValue": nothing, "value": nothing,
	"or": nothing, "orValue": nothing, "first": nothing, "last": nothing,

	// These read each entry of a list, but not what is in it.
	"size": sizeOf, "reverse": entries, "slice": entries, "optional.unwrap": entries, "unwrapOpt": entries,
	"_+_": added,

	// CEL counts all that these read. Of functions with several overloads, it counts only those
	// whose types are known before the evaluation.
	"startsWith": nothing, "endsWith": nothing, "contains": nothing, "lowerAscii": nothing, "upperAscii": nothing, "trim": nothing,

	"_==_": compared, "_!=_": compared, "@in": contained,
	"indexOf": found, "lastIndexOf": found,
	"sets.contains": each, "sets.equivalent": each, "sets.intersects": each, "distinct": each,
	"matches": matched, "find": matched, "findAll": matched,

	// These make much of little.
	"replace": replaced, "join": joined, "format": formatted, "lists.range": counted, "quantity": quantities, "isQuantity": quantities,
}

// all reads all of the arguments.
func all(args []ref.Val, most int) int {
	size := 0
	for _, arg := range args {
		if size += deepSize(arg, most-size); size > most {
			return most + 1
		}
	}
	return size
}

func nothing([]ref.Val, int) int { return 0 }

func entries(args []ref.Val, most int) int { return min(shallowSize(args[0]), most+1) }

// sizeOf counts the characters of a text.
func sizeOf(args []ref.Val, most int) int {
	if text, ok := args[0].(types.String); ok {
		return min(len(text), most+1)
	}
	return 0
}

// added copies both lists or texts. The result of a loop is a list that grows in place.
func added(args []ref.Val, most int) int {
	size := 0
	for _, arg := range args {
		if _, grows := arg.(traits.MutableLister); !grows {
			size += shallowSize(arg)
		}
	}
	return min(size, most+1)
}

// compared reads two values as long as they are equal: at most the smaller one.
func compared(args []ref.Val, most int) int {
	for bound := min(64, most); ; bound = min(4*bound, most) {
		size := min(deepSize(args[0], bound), deepSize(args[1], bound))
		if size <= bound || bound == most {
			return size
		}
	}
}

// contained compares an item with each item of a list, or finds a key in a map. Neither is read
// farther than the smaller of the two: what is compared is no more.
func contained(args []ref.Val, most int) int {
	list, ok := args[1].(traits.Lister)
	if !ok {
		return deepSize(args[0], most)
	}
	for bound := min(64, most); ; bound = min(4*bound, most) {
		item, items := deepSize(args[0], bound), deepSize(list, bound)
		switch n := bounded(float64(item)*float64(shallowSize(list)), most); {
		case items <= bound:
			return min(n, items)
		case item <= bound && n <= most:
			return n
		case item <= bound || bound == most:
			return deepSize(list, most)
		}
	}
}

// found compares a text with each part of a text, or an item with each item of a list.
func found(args []ref.Val, most int) int {
	if _, ok := args[0].(traits.Lister); ok {
		return contained([]ref.Val{args[1], args[0]}, most)
	}
	return bounded(float64(deepSize(args[0], most))*float64(deepSize(args[1], most)), most)
}

// each compares each item with each one.
func each(args []ref.Val, most int) int {
	return bounded(float64(deepSize(args[0], most))*float64(deepSize(args[len(args)-1], most)), most)
}

// stepsPerSize is the number of steps of a regular expression that take as long as reading one unit
// of size.
const stepsPerSize = 100

// matched makes a step for each character of a text and each instruction of a regular expression,
// after it has compiled the latter.
func matched(args []ref.Val, most int) int {
	pattern, ok := args[1].(types.String)
	if !ok || len(pattern) > most {
		return deepSize(args[1], most)
	}
	parsed, err := syntax.Parse(string(pattern), syntax.Perl)
	if err != nil {
		return len(pattern)
	}
	n := instructions(parsed)
	return bounded(n+n*float64(shallowSize(args[0]))/stepsPerSize, most)
}

// instructions returns about how many instructions a regular expression has.
func instructions(re *syntax.Regexp) float64 {
	n := 1 + float64(len(re.Rune))
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= float64(max(re.Min, re.Max, 1))
	}
	return n
}

// replaced makes a text that contains the last text as often as the second one is found.
func replaced(args []ref.Val, most int) int {
	if len(args) < 3 {
		return all(args, most)
	}
	text, old, with := deepSize(args[0], most), shallowSize(args[1]), shallowSize(args[2])
	return bounded(float64(text)+float64(text+1)/float64(max(1, old))*float64(with), most)
}

// joined makes a text that contains the separator between all others.
func joined(args []ref.Val, most int) int {
	size := float64(deepSize(args[0], most))
	if len(args) > 1 {
		size += float64(shallowSize(args[0])) * float64(shallowSize(args[1]))
	}
	return bounded(size, most)
}

// precision finds the precision of a number in a format.
var precision = regexp.MustCompile(`%\.(\d+)`)

// formatted makes a text with as many digits as the format says, and at most eight characters of
// one byte.
func formatted(args []ref.Val, most int) int {
	size := all(args, most)
	format, ok := args[0].(types.String)
	if !ok || size > most {
		return size
	}
	for _, digits := range precision.FindAllStringSubmatch(string(format), -1) {
		size = addNumber(size, digits[1], most)
	}
	return size
}

// counted makes a list with as many entries as the number says.
func counted(args []ref.Val, most int) int {
	if n, ok := args[0].(types.Int); ok {
		return int(max(1, min(int64(n), int64(most)+1)))
	}
	return 1
}

// exponent finds the exponent of a quantity.
var exponent = regexp.MustCompile(`[eE][+-]?(\d+)`)

// quantities make a number with as many digits as its exponent says.
func quantities(args []ref.Val, most int) int {
	size := all(args, most)
	text, ok := args[0].(types.String)
	if !ok || size > most {
		return size
	}
	if digits := exponent.FindStringSubmatch(string(text)); digits != nil {
		size = addNumber(size, digits[1], most)
	}
	return size
}

// addNumber adds a number that is written in digits.
func addNumber(size int, digits string, most int) int {
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return most + 1
	}
	return min(size+int(n), most+1)
}
