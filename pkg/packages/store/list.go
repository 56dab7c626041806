package store

import (
	"context"
	"encoding/base64"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// largePage is the limit from which pages are cut from a complete list. A request for a small page
// must not wait for all revisions.
const largePage = 250

// List lists what the API server lists with these options, in one namespace, or with "" in all.
//
// The API server returns metadata on each call: which revisions are in the list, at which
// resourceVersions. The revisions themselves come from a cache by UID and resourceVersion, because
// decoding them is most of the work. The result is therefore never older than the API server's own,
// whichever replica wrote last, and no watch is needed.
//
// Pages are cut here and are not requested from the API server: it has complete lists in memory,
// but for pages it reads each object from etcd. A replica that does not have the list of the first
// page lists again at the same resourceVersion. A list of at most atOnce revisions is returned
// completely, whatever the limit, unless the limit is below largePage.
func (s *Store) List(ctx context.Context, namespace string, o metav1.ListOptions, atOnce int) (*Listing, error) {
	next, ours := parseContinue(o.Continue)
	if !ours && (o.Continue != "" || o.Limit > 0 && o.Limit < largePage) {
		page, err := s.read(ctx, namespace, o)
		return page, TranslateError(err, "")
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
	whole, err := s.listAll(ctx, namespace, o)
	if err != nil {
		return nil, TranslateError(err, "")
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

// read lists with exactly these options.
func (s *Store) read(ctx context.Context, namespace string, o metav1.ListOptions) (*Listing, error) {
	found, err := s.Revisions(namespace).List(ctx, o)
	if err != nil {
		return nil, err
	}
	out := &Listing{ListMeta: found.ListMeta, Items: make([]*Revision, len(found.Items))}
	for i := range found.Items {
		cr := &found.Items[i]
		if out.Items[i] = s.cached.get(cr.UID, cr.ResourceVersion); out.Items[i] == nil {
			out.Items[i] = s.cached.add(cr)
		}
	}
	return out, nil
}

// listAll returns a complete list.
func (s *Store) listAll(ctx context.Context, namespace string, o metav1.ListOptions) (*Listing, error) {
	select {
	case s.listSlots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.listSlots }()
	if out, err := s.listFromCache(ctx, namespace, o); out != nil || err != nil {
		return out, err
	}
	return s.read(ctx, namespace, o)
}

// listFromCache builds a list from cached revisions. It returns nil if too many are missing.
func (s *Store) listFromCache(ctx context.Context, namespace string, o metav1.ListOptions) (*Listing, error) {
	if s.cached.known.Len() == 0 {
		return nil, nil //nolint:nilnil // too many are missing
	}
	list, err := s.metadata.Resource(storev1alpha1.PackageRevisions).Namespace(namespace).List(ctx, o)
	if err != nil {
		return nil, err
	}
	found := list.Items
	out := &Listing{ListMeta: list.ListMeta, Items: make([]*Revision, len(found))}
	var missing []int
	for i := range found {
		if out.Items[i] = s.cached.get(found[i].UID, found[i].ResourceVersion); out.Items[i] == nil {
			missing = append(missing, i)
		}
	}
	const oneByOne, most = 25, 40 // reading that many one by one costs as much as the list
	if len(missing) > min(len(found)/oneByOne, most) {
		return nil, nil //nolint:nilnil // too many are missing
	}
	for _, i := range missing {
		// The revision as it was in the list: later changes belong to a later list.
		one, err := s.Revisions(found[i].Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + found[i].Name, ResourceVersion: list.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		if err != nil || len(one.Items) != 1 || one.Items[0].ResourceVersion != found[i].ResourceVersion {
			return nil, nil //nolint:nilerr,nilnil // the caller reads the list, which may fail too
		}
		out.Items[i] = s.cached.add(&one.Items[0])
	}
	return out, nil
}

// page cuts a page from a complete list. A limit of 0 means all remaining items. The options are
// those of the list.
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

// continueToken is the position of a page in a list that was cut here.
type continueToken struct {
	// Version is the resourceVersion of the list.
	Version string `json:"packages"`
	// From is the number of items before the page.
	From int `json:"from"`
}

func (c continueToken) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // impossible for a string and a number
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseContinue parses a token. It returns false for tokens of the API server.
func parseContinue(text string) (continueToken, bool) {
	var c continueToken
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Version == "" || c.From < 0 {
		return continueToken{}, false
	}
	return c, true
}
