package cli

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// clusterPatch changes a ManagedCluster.
type clusterPatch struct {
	Metadata metadata `json:"metadata"`
	Spec     *spec    `json:"spec,omitempty"`
}

type metadata struct {
	UID types.UID `json:"uid"`
	// ResourceVersion lets the patch fail if anything has changed since; "" does not.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Labels are those to set, and to remove if the value is nil.
	Labels map[string]*string `json:"labels,omitempty"`
}

type spec struct {
	HubAcceptsClient bool `json:"hubAcceptsClient"`
}

// errNotShown: a confirmation counts for the cluster that was shown, and for no other one.
var errNotShown = errors.New("it has changed since it was shown, or was re-created under its name: run the command again")

// patch changes the ManagedCluster, if it is the one that was shown.
func (m *member) patch(ctx context.Context, p clusterPatch) error {
	p.Metadata.UID = m.cluster.UID
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	changed, err := m.Clusters.Patch(ctx, m.cluster.Name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return notShown(err)
	}
	m.cluster = changed
	return nil
}

// notShown returns errNotShown if the API server says that the UID or the resource version is
// another one. To a patch that has another UID, it says that this field cannot be changed.
func notShown(err error) error {
	isUID := func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" }
	status, is := errors.AsType[*apierrors.StatusError](err)
	if is && (apierrors.IsConflict(err) || status.ErrStatus.Details != nil && slices.ContainsFunc(status.ErrStatus.Details.Causes, isUID)) {
		return errNotShown
	}
	return err
}
