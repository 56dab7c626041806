package localfleet

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/install/apply"
	"github.com/starlinghq/starling/pkg/install/chart"
)

// installChart installs or upgrades one of Starling's charts in a space. It writes nothing if this
// version of the chart is installed. The lock of commands keeps others from doing it too.
func (f *Fleet) installChart(ctx context.Context, space, name string) error {
	_, err := chart.Install(ctx, f.adminConfig(space), chart.Chart{Files: f.cfg.Charts, Name: name})
	if err != nil {
		return fmt.Errorf("install Starling's APIs in space %q: %w", space, err)
	}
	return nil
}

// applyAll applies objects to a space: first CRDs and Namespaces, then the others, which need them.
func (f *Fleet) applyAll(ctx context.Context, space string, objs []*unstructured.Unstructured) error {
	if err := apply.Objects(ctx, f.adminConfig(space), objs); err != nil {
		return fmt.Errorf("apply objects in space %q: %w", space, err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
