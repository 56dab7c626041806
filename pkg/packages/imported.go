package packages

import (
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// Mirror makes a revision that is imported say what its files say, under the digest that they were put with. The files stay as their
// author wrote them: nothing is rendered, and nothing written into the Kptfile. An error says what is wrong with them.
func Mirror(cr *storev1alpha1.PackageRevision, files kptpkg.Files, digest string) error {
	s := &sealed{files: files}
	if err := s.read(cr.Name); err != nil {
		return err
	}
	s.into(cr, digest)
	return nil
}
