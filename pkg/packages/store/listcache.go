package store

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Listing is a list of revisions, or a page of one.
type Listing struct {
	metav1.ListMeta
	Items []*Revision
}

// listCache has the complete lists of which pages were requested last. The zero value is ready to
// use.
type listCache struct {
	mu    sync.Mutex
	known map[listKey]cachedList
}

type listKey struct{ namespace, labels, fields, version string }

type cachedList struct {
	*Listing
	at time.Time
}

const (
	// listTTL is how long a list is cached: clients request pages one after the other.
	listTTL = time.Minute
	// maxLists is the maximum number of cached lists.
	maxLists = 16
)

func (l *listCache) get(key listKey, now time.Time) *Listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cached, ok := l.known[key]; ok && now.Sub(cached.at) < listTTL {
		return cached.Listing
	}
	return nil
}

func (l *listCache) add(key listKey, whole *Listing, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[listKey]cachedList{}
	}
	l.known[key] = cachedList{whole, now}
	var oldest listKey
	for k, cached := range l.known {
		if now.Sub(cached.at) >= listTTL {
			delete(l.known, k)
		} else if oldest == (listKey{}) || cached.at.Before(l.known[oldest].at) {
			oldest = k
		}
	}
	if len(l.known) > maxLists {
		delete(l.known, oldest)
	}
}
