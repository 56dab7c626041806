package packages

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// Revision is a revision as it is served, and the digest of its files. It is shared with others: callers only read.
type Revision struct {
	*porchv1alpha1.PackageRevision
	Digest string
}

// Listing is a list of revisions, or a page of one.
type Listing struct {
	metav1.ListMeta
	Items []*Revision
}

// largePage is from which limit on a page is cut from a whole list. Who wants a few shall not wait for all.
const largePage = 250

// List lists what the API server lists with these options, in a namespace or with "" in all.
//
// What is in a list, and at which versions, the API server says each time: it is asked for metadata. What was seen of a revision at that
// version is remembered, and reading that is most of the work. So no answer is older than the API server's own, whoever wrote last
// through whatever replica, and nothing has to be watched or waited for.
//
// Nothing is asked for in pages: whole lists, the API server has in memory; for pages of a list it goes to etcd, and reads each object
// anew. Pages are cut here; by a replica that has not the list that the first page was cut from, from the list at the same
// resourceVersion. A list of no more than atOnce comes whole, whatever the limit, unless that is of somebody who wants a few.
func (s *Store) List(ctx context.Context, namespace string, o metav1.ListOptions, atOnce int) (*Listing, error) {
	next, ours := parseContinue(o.Continue)
	if !ours && (o.Continue != "" || o.Limit > 0 && o.Limit < largePage) {
		return s.readPage(ctx, namespace, o)
	}
	limit := int(o.Limit)
	o.Limit, o.Continue = 0, ""
	key := listKey{namespace, o.LabelSelector, o.FieldSelector, next.Version}
	if whole := s.lists.get(key, s.Clock.Now()); ours && whole != nil {
		return whole.page(next.From, limit, o), nil
	}
	if ours {
		o.ResourceVersion, o.ResourceVersionMatch = next.Version, metav1.ResourceVersionMatchExact
	}
	whole, err := s.whole(ctx, namespace, o)
	if err != nil {
		return nil, Explain(err, "")
	}
	if !ours && len(whole.Items) <= atOnce {
		limit = 0
	}
	page := whole.page(next.From, limit, o)
	if page.Continue != "" {
		key.version = whole.ResourceVersion
		s.lists.add(key, whole, s.Clock.Now())
	}
	return page, nil
}

// readPage reads a page as it is asked for.
func (s *Store) readPage(ctx context.Context, namespace string, o metav1.ListOptions) (*Listing, error) {
	found, err := s.Revisions(namespace).List(ctx, o)
	if err != nil {
		return nil, Explain(err, "")
	}
	out := &Listing{ListMeta: found.ListMeta, Items: make([]*Revision, len(found.Items))}
	for i := range found.Items {
		out.Items[i] = s.seen.add(&found.Items[i])
	}
	return out, nil
}

// whole makes a whole list.
func (s *Store) whole(ctx context.Context, namespace string, o metav1.ListOptions) (*Listing, error) {
	select {
	case s.listing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.listing }()
	if out, err := s.recall(ctx, namespace, o); out != nil || err != nil {
		return out, err
	}
	out := &Listing{}
	body, err := s.rest.Get().Namespace(namespace).Resource(storev1alpha1.PackageRevisions.Resource).VersionedParams(&o, s.codec).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	out.ListMeta, err = readItems(json.NewDecoder(body), func(cr *storev1alpha1.PackageRevision) {
		r := s.seen.get(cr.UID, cr.ResourceVersion)
		if r == nil {
			r = s.seen.add(cr)
		}
		out.Items = append(out.Items, r)
	})
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	return out, nil
}

// readItems reads a list as it comes: as a whole, it may be a hundred megabytes.
func readItems(d *json.Decoder, do func(*storev1alpha1.PackageRevision)) (metav1.ListMeta, error) {
	var list metav1.ListMeta
	if err := begins(d, '{'); err != nil {
		return list, err
	}
	for d.More() {
		field, err := d.Token()
		if err != nil {
			return list, err
		}
		switch field {
		case "metadata":
			err = d.Decode(&list)
		case "items":
			if err = begins(d, '['); err != nil {
				return list, err
			}
			for d.More() {
				cr := &storev1alpha1.PackageRevision{}
				if err := d.Decode(cr); err != nil {
					return list, err
				}
				do(cr)
			}
			_, err = d.Token()
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return list, err
		}
	}
	_, err := d.Token()
	return list, err
}

func begins(d *json.Decoder, with json.Delim) error {
	token, err := d.Token()
	if err == nil && token != with {
		err = fmt.Errorf("begins with %v, not with %v", token, with)
	}
	return err
}

// recall makes a list of what is remembered; nil if that is too little.
func (s *Store) recall(ctx context.Context, namespace string, o metav1.ListOptions) (*Listing, error) {
	if s.seen.empty() {
		return nil, nil //nolint:nilnil // it is too little
	}
	meta, found, err := s.versions(ctx, namespace, o)
	if err != nil {
		return nil, err
	}
	out := &Listing{ListMeta: meta, Items: make([]*Revision, len(found))}
	var missing []int
	for i := range found {
		if out.Items[i] = s.seen.get(found[i].uid, found[i].resourceVersion); out.Items[i] == nil {
			missing = append(missing, i)
		}
	}
	const oneByOne, most = 25, 40 // as much as these cost, the list would
	if len(missing) > min(len(found)/oneByOne, most) {
		return nil, nil //nolint:nilnil // it is too little
	}
	for _, i := range missing {
		// As it was in the list: what has changed since belongs to a later one.
		one, err := s.Revisions(found[i].namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + found[i].name, ResourceVersion: meta.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		if err != nil || len(one.Items) != 1 || one.Items[0].ResourceVersion != found[i].resourceVersion {
			return nil, nil //nolint:nilerr,nilnil // the list is read, and that may fail
		}
		out.Items[i] = s.seen.add(&one.Items[0])
	}
	return out, nil
}

// page cuts a page from a whole list; no limit is all that is left. Options are those that the list was made with.
func (l *Listing) page(from, limit int, o metav1.ListOptions) *Listing {
	from = min(max(from, 0), len(l.Items))
	to := len(l.Items)
	if limit > 0 {
		to = min(from+limit, to)
	}
	out := &Listing{ListMeta: metav1.ListMeta{ResourceVersion: l.ResourceVersion}, Items: l.Items[from:to]}
	if to < len(l.Items) {
		out.Continue = continueToken{Version: l.ResourceVersion, From: to}.String()
		if left := int64(len(l.Items) - to); o.LabelSelector == "" && o.FieldSelector == "" {
			out.RemainingItemCount = &left
		}
	}
	return out
}

// continueToken is where a page of a list that was cut here begins.
type continueToken struct {
	// Version is the resourceVersion of the list.
	Version string `json:"packages"`
	// From is how many come before.
	From int `json:"from"`
}

func (c continueToken) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // of a string and a number
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseContinue reads a token; false for one that is the API server's.
func parseContinue(text string) (continueToken, bool) {
	var c continueToken
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Version == "" || c.From < 0 {
		return continueToken{}, false
	}
	return c, true
}

// lists are the whole lists of which pages were asked for last. The zero value is ready to use.
type lists struct {
	mu    sync.Mutex
	known map[listKey]keptList
}

type listKey struct{ namespace, labels, fields, version string }

type keptList struct {
	*Listing
	at time.Time
}

const (
	// listFor is how long a list is kept: who asks for all pages asks for one after the other.
	listFor = time.Minute
	// maxLists is how many are.
	maxLists = 16
)

func (l *lists) get(key listKey, now time.Time) *Listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept, ok := l.known[key]; ok && now.Sub(kept.at) < listFor {
		return kept.Listing
	}
	return nil
}

func (l *lists) add(key listKey, whole *Listing, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[listKey]keptList{}
	}
	l.known[key] = keptList{whole, now}
	var oldest listKey
	for k, kept := range l.known {
		if now.Sub(kept.at) >= listFor {
			delete(l.known, k)
		} else if oldest == (listKey{}) || kept.at.Before(l.known[oldest].at) {
			oldest = k
		}
	}
	if len(l.known) > maxLists {
		delete(l.known, oldest)
	}
}
