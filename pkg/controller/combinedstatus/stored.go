package combinedstatus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/match"
)

// stored is what the cache holds of a CombinedStatus.
type stored struct {
	metav1.ObjectMeta
	// hash is the hash of its results.
	hash string
}

// byPair is the index of CombinedStatuses by what they are about.
const byPair = "pair"

// NewInformer returns the informer on the CombinedStatuses of a WDS, not started.
func NewInformer(wdsClient *client.Client) (cache.SharedIndexInformer, error) {
	informer, err := client.NewInformer(wdsClient.CombinedStatuses(), &controlv1alpha1.CombinedStatus{}, cache.Indexers{byPair: pairIndex})
	if err != nil {
		return nil, err
	}
	return informer, informer.SetTransform(reduce)
}

// reduce is the transform of the informer. It may be called again with what it returned.
func reduce(obj any) (any, error) {
	cs, ok := obj.(*controlv1alpha1.CombinedStatus)
	if !ok {
		return obj, nil
	}
	hash, err := hashOf(cs.Results)
	if err != nil {
		hash = "" // another client wrote what cannot be decoded
	}
	kept := &stored{ObjectMeta: cs.ObjectMeta, hash: hash}
	kept.ManagedFields = nil
	return kept, nil
}

func pairIndex(obj any) ([]string, error) {
	kept, ok := obj.(*stored)
	if !ok {
		return nil, fmt.Errorf("index %T", obj)
	}
	if pair, ok := pairOf(kept); ok {
		return []string{pairKey(pair)}, nil
	}
	return nil, nil
}

func pairKey(pair match.Pair) string { return pair.Policy + ": " + pair.Ref.String() }

// hashOf returns a hash that is the same for results with the same meaning, also after an API
// server has re-encoded their JSON.
func hashOf(results []controlv1alpha1.NamedStatusCombination) (string, error) {
	text, err := json.Marshal(results)
	if err != nil {
		return "", err
	}
	var plain any
	if err := utiljson.Unmarshal(text, &plain); err != nil {
		return "", err
	}
	list, _ := plain.([]any)
	if len(list) == 0 {
		list = nil
	}
	if text, err = json.Marshal(list); err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

var _ metav1.Object = &stored{}

// kindOfCombinedStatus is the type of a new CombinedStatus.
var kindOfCombinedStatus = metav1.TypeMeta{APIVersion: controlv1alpha1.GroupVersion.String(), Kind: "CombinedStatus"}
