package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

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

// readPage reads one page with exactly these options.
func (s *Store) readPage(ctx context.Context, namespace string, o metav1.ListOptions) (*Listing, error) {
	found, err := s.Revisions(namespace).List(ctx, o)
	if err != nil {
		return nil, TranslateError(err, "")
	}
	out := &Listing{ListMeta: found.ListMeta, Items: make([]*Revision, len(found.Items))}
	for i := range found.Items {
		out.Items[i] = s.cached.add(&found.Items[i])
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
	out := &Listing{}
	body, err := s.rest.Get().Namespace(namespace).Resource(storev1alpha1.PackageRevisions.Resource).VersionedParams(&o, s.codec).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	out.ListMeta, err = readItems(json.NewDecoder(body), func(cr *storev1alpha1.PackageRevision) {
		r := s.cached.get(cr.UID, cr.ResourceVersion)
		if r == nil {
			r = s.cached.add(cr)
		}
		out.Items = append(out.Items, r)
	})
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	return out, nil
}

// readItems decodes a list item by item, since a complete list may have a hundred megabytes.
func readItems(d *json.Decoder, do func(*storev1alpha1.PackageRevision)) (metav1.ListMeta, error) {
	var list metav1.ListMeta
	if err := expectDelim(d, '{'); err != nil {
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
			if err = expectDelim(d, '['); err != nil {
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

func expectDelim(d *json.Decoder, with json.Delim) error {
	token, err := d.Token()
	if err == nil && token != with {
		err = fmt.Errorf("unexpected token %v, want %v", token, with)
	}
	return err
}

// listFromCache builds a list from cached revisions. It returns nil if too many are missing.
func (s *Store) listFromCache(ctx context.Context, namespace string, o metav1.ListOptions) (*Listing, error) {
	if s.cached.known.Len() == 0 {
		return nil, nil //nolint:nilnil // too many are missing
	}
	meta, found, err := s.versions(ctx, namespace, o)
	if err != nil {
		return nil, err
	}
	out := &Listing{ListMeta: meta, Items: make([]*Revision, len(found))}
	var missing []int
	for i := range found {
		if out.Items[i] = s.cached.get(found[i].uid, found[i].resourceVersion); out.Items[i] == nil {
			missing = append(missing, i)
		}
	}
	const oneByOne, most = 25, 40 // reading that many one by one costs as much as the list
	if len(missing) > min(len(found)/oneByOne, most) {
		return nil, nil //nolint:nilnil // too many are missing
	}
	for _, i := range missing {
		// The revision as it was in the list: later changes belong to a later list.
		one, err := s.Revisions(found[i].namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + found[i].name, ResourceVersion: meta.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		if err != nil || len(one.Items) != 1 || one.Items[0].ResourceVersion != found[i].resourceVersion {
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
