package foresight

// State says how a link is.
type State string

// States, the worst first.
const (
	// Broken: nothing goes on here until somebody acts.
	Broken State = "Broken"
	// Unknown: what this link needs could not be read.
	Unknown State = "Unknown"
	// Waiting: it goes on by itself.
	Waiting State = "Waiting"
	// Good: it is as it should be.
	Good State = "Good"
)

// Link is one step between an object in the WDS and its status from a cluster.
type Link struct {
	// Name says which step it is.
	Name  string `json:"name"`
	State State  `json:"state"`
	// Text says what is the case, for which objects.
	Text string `json:"text"`
	// Fix has what mends a link that is not good: commands, or sentences.
	Fix []string `json:"fix,omitempty"`
}

// First returns the first link that is not good, nil if all are.
func First(links []Link) *Link {
	for i := range links {
		if links[i].State != Good {
			return &links[i]
		}
	}
	return nil
}

// Fact is something that was to be read.
type Fact[T any] struct {
	// Value is what was read. A nil pointer means that it does not exist.
	Value T `json:"value"`
	// Unread says why it could not be read, as in "you may not list leases". It is empty if it was.
	Unread string `json:"unread,omitempty"`
}

// Known returns the fact that was read.
func Known[T any](value T) Fact[T] { return Fact[T]{Value: value} }

// Unread returns a fact that could not be read.
func Unread[T any](why string) Fact[T] { return Fact[T]{Unread: why} }
