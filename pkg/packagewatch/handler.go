package packagewatch

import "k8s.io/client-go/tools/cache"

// Handler makes a handler of a function that is given an object before and after a change; nil for none. Of what was deleted unseen, it is
// given the last state that was seen.
func Handler[T any](on func(before, after *T)) cache.ResourceEventHandler {
	typed := func(obj any) *T {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		t, _ := obj.(*T)
		return t
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { on(nil, typed(obj)) },
		UpdateFunc: func(before, after any) { on(typed(before), typed(after)) },
		DeleteFunc: func(obj any) {
			if before := typed(obj); before != nil {
				on(before, nil)
			}
		},
	}
}
