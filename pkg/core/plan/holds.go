package plan

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Holder is a Transaction that holds something.
type Holder struct {
	// Transaction is its name.
	Transaction string `json:"transaction"`
	// UID is its identity: another Transaction may have the name later. Earlier versions have
	// written none.
	UID types.UID `json:"uid,omitempty"`
}

// Is reports whether it is the Transaction with this name and UID.
func (h Holder) Is(name string, uid types.UID) bool {
	return h.Transaction == name && (h.UID == "" || h.UID == uid)
}

// TransactionHold is what a Transaction holds in mailboxes.
type TransactionHold struct {
	Holder
	// Objects are in the form that ParseHold parses. Sorted.
	Objects []string `json:"objects"`
	// Clusters are the mailboxes, sorted; none are all. A Transaction holds its objects in all of
	// them while it installs; where it would break something, it holds them until that is not so
	// any more.
	Clusters []string `json:"clusters,omitempty"`
}

// HeldFor is the part of the message of a condition Held that says that the transport obeys what a
// Transaction holds. The controller of transactions waits for it.
func HeldFor(transaction string) string { return " held for transaction " + transaction + " " }

// Lasts reports whether the hold outlives its Transaction.
func (h *TransactionHold) Lasts() bool { return len(h.Clusters) > 0 }

// Refs returns the objects.
func (h *TransactionHold) Refs() ([]objref.Ref, error) {
	refs := make([]objref.Ref, 0, len(h.Objects))
	for _, text := range h.Objects {
		ref, err := parseRef(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// NewTransactionHold returns a TransactionHold of these objects. No clusters are all.
func NewTransactionHold(by Holder, refs []objref.Ref, clusters []string) TransactionHold {
	h := TransactionHold{Holder: by, Clusters: slices.Sorted(slices.Values(clusters))}
	for _, ref := range refs {
		h.Objects = append(h.Objects, ref.GroupResource().String()+"/"+ref.Namespace+"/"+ref.Name)
	}
	slices.Sort(h.Objects)
	h.Objects = slices.Compact(h.Objects)
	return h
}

// Holds are what Transactions hold in mailboxes. They are immutable.
type Holds struct {
	everywhere Hold
	at         map[string]Hold
	list       []TransactionHold
}

// List returns the single holds, which are shared: do not change them.
func (h Holds) List() []TransactionHold { return h.list }

// Any reports whether anything may be held in some mailbox.
func (h Holds) Any() bool { return h.everywhere.Any() || len(h.at) > 0 }

// At returns what is held in a mailbox.
func (h Holds) At(mailbox string) Hold { return h.everywhere.Union(h.at[mailbox]) }

// Holder returns a Transaction that holds an object in a mailbox, the zero Holder if none does, or
// if everything is held because the text could not be parsed.
func (h Holds) Holder(mailbox string, ref objref.Ref) Holder {
	for i := range h.list {
		one := &h.list[i]
		if len(one.Clusters) > 0 && !slices.Contains(one.Clusters, mailbox) {
			continue
		}
		if refs, err := one.Refs(); err == nil && slices.Contains(refs, ref) {
			return one.Holder
		}
	}
	return Holder{}
}

// Of returns the part of these objects. If everything is held, that is everything.
func (h Holds) Of(counts func(objref.Ref) bool) Holds {
	if h.everywhere.all || !h.Any() {
		return h
	}
	var list []TransactionHold
	for i := range h.list {
		refs, _ := h.list[i].Refs() // ParseHolds has reported an invalid one
		refs = slices.DeleteFunc(refs, func(ref objref.Ref) bool { return !counts(ref) })
		if len(refs) > 0 {
			list = append(list, NewTransactionHold(h.list[i].Holder, refs, h.list[i].Clusters))
		}
	}
	if len(list) == 0 {
		return Holds{}
	}
	part, _ := ParseHolds(EncodeHolds(list))
	return part
}

// Refs returns the objects that are held in some mailbox; all is true if that is every object.
func (h Holds) Refs() (refs map[objref.Ref]struct{}, all bool) {
	refs = maps.Clone(h.everywhere.refs)
	if refs == nil {
		refs = map[objref.Ref]struct{}{}
	}
	for _, hold := range h.at {
		maps.Copy(refs, hold.refs)
	}
	return refs, h.everywhere.all
}

// Union returns what either holds.
func (h Hold) Union(other Hold) Hold {
	switch {
	case h.all || other.all:
		return HoldAll()
	case len(h.refs) == 0:
		return other
	case len(other.refs) == 0:
		return h
	}
	united := Hold{refs: make(map[objref.Ref]struct{}, len(h.refs)+len(other.refs))}
	for _, refs := range []map[objref.Ref]struct{}{h.refs, other.refs} {
		for ref := range refs {
			united.refs[ref] = struct{}{}
		}
	}
	return united
}

// Equal reports whether both hold the same.
func (h Holds) Equal(other Holds) bool {
	if !h.everywhere.Equal(other.everywhere) || len(h.at) != len(other.at) {
		return false
	}
	for mailbox, hold := range h.at {
		if of, ok := other.at[mailbox]; !ok || !hold.Equal(of) {
			return false
		}
	}
	return true
}

const (
	// packed begins an annotation that is compressed. A transport of an earlier version cannot
	// parse it, and so holds everything.
	packed = "gzip:"
	// packFrom is the length from which holds are compressed: all annotations of an object together
	// may have 256 KiB.
	packFrom = 64 << 10
	// maxUnpacked bounds what an annotation may become.
	maxUnpacked = 64 << 20
)

// DecodeHolds decodes the annotation that has TransactionHolds.
func DecodeHolds(text string) ([]TransactionHold, error) {
	raw := []byte(text)
	if rest, is := strings.CutPrefix(text, packed); is {
		var err error
		if raw, err = unpack(rest); err != nil {
			return nil, fmt.Errorf("want a compressed JSON list of holds: %w", err)
		}
	}
	var list []TransactionHold
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("want a JSON list of holds: %w", err)
	}
	return list, nil
}

func unpack(text string) ([]byte, error) {
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(reader, maxUnpacked+1))
	if err == nil && len(raw) > maxUnpacked {
		err = errors.New("it is too long")
	}
	return raw, err
}

// EncodeHolds encodes TransactionHolds as an annotation; "" for none.
func EncodeHolds(list []TransactionHold) string {
	if len(list) == 0 {
		return ""
	}
	raw, _ := json.Marshal(list) // it has strings only
	if len(raw) < packFrom {
		return string(raw)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(raw) // to memory, which does not fail
	_ = w.Close()
	return packed + base64.StdEncoding.EncodeToString(b.Bytes())
}

// ParseHolds parses the annotation that has TransactionHolds. A text that cannot be parsed holds
// everything: it is not known what its author meant to hold.
func ParseHolds(text string) (Holds, error) {
	list, err := DecodeHolds(text)
	if err != nil {
		return Holds{everywhere: HoldAll()}, err
	}
	h := Holds{at: map[string]Hold{}, list: list}
	var errs []error
	for i := range list {
		refs, err := list[i].Refs()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		hold := Hold{refs: make(map[objref.Ref]struct{}, len(refs))}
		for _, ref := range refs {
			hold.refs[ref] = struct{}{}
		}
		if len(list[i].Clusters) == 0 {
			h.everywhere = h.everywhere.Union(hold)
		}
		for _, cluster := range list[i].Clusters {
			h.at[cluster] = h.at[cluster].Union(hold)
		}
	}
	if len(errs) > 0 {
		return Holds{everywhere: HoldAll()}, errors.Join(errs...)
	}
	return h, nil
}
