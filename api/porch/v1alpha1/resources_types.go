package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PackageRevisionResources are the files of a PackageRevision of the same name. They exist as long as it does; an update replaces all
// files, and answers with what rendering them came to.
//
// +kubebuilder:object:root=true
type PackageRevisionResources struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PackageRevisionResourcesSpec   `json:"spec,omitempty"`
	Status PackageRevisionResourcesStatus `json:"status,omitempty"`
}

// PackageRevisionResourcesList is a list of PackageRevisionResources.
//
// +kubebuilder:object:root=true
type PackageRevisionResourcesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PackageRevisionResources `json:"items"`
}

// PackageRevisionResourcesSpec holds the files.
type PackageRevisionResourcesSpec struct {
	PackageName    string `json:"packageName,omitempty"`
	WorkspaceName  string `json:"workspaceName,omitempty"`
	Revision       int    `json:"revision,omitempty"`
	RepositoryName string `json:"repository,omitempty"`
	// Resources are the files by their paths.
	Resources map[string]string `json:"resources,omitempty"`
}

// PackageRevisionResourcesStatus says what rendering came to.
type PackageRevisionResourcesStatus struct {
	RenderStatus RenderStatus `json:"renderStatus,omitempty"`
}

// RenderStatus is the outcome of the pipeline.
type RenderStatus struct {
	Result ResultList `json:"result,omitempty"`
	// Err is why rendering failed, "" if it did not.
	Err string `json:"error"`
}

// ResultList is what the functions said, as kpt reports it.
type ResultList struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// ExitCode is that of the pipeline: 0 if it passed.
	ExitCode int       `json:"exitCode"`
	Items    []*Result `json:"items,omitempty"`
}

// Result is what one function said.
type Result struct {
	Image    string       `json:"image,omitempty"`
	ExecPath string       `json:"exec,omitempty"`
	Stderr   string       `json:"stderr,omitempty"`
	ExitCode int          `json:"exitCode"`
	Results  []ResultItem `json:"results,omitempty"`
}

// ResultItem is one remark of a function.
type ResultItem struct {
	Message     string              `json:"message,omitempty"`
	Severity    string              `json:"severity,omitempty"`
	ResourceRef *ResourceIdentifier `json:"resourceRef,omitempty"`
	Field       *Field              `json:"field,omitempty"`
	File        *File               `json:"file,omitempty"`
	Tags        map[string]string   `json:"tags,omitempty"`
}

// ResourceIdentifier identifies an object in a package.
type ResourceIdentifier struct {
	metav1.TypeMeta `json:",inline"`
	Name            string `json:"name,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
}

// File is where an object stands.
type File struct {
	Path  string `json:"path,omitempty"`
	Index int    `json:"index,omitempty"`
}

// Field is a field that a remark is about.
type Field struct {
	Path          string `json:"path,omitempty"`
	CurrentValue  string `json:"currentValue,omitempty"`
	ProposedValue string `json:"proposedValue,omitempty"`
}

// PorchPackage is a package: all revisions of one name in a repository.
//
// +kubebuilder:object:root=true
type PorchPackage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PackageSpec   `json:"spec,omitempty"`
	Status PackageStatus `json:"status,omitempty"`
}

// PorchPackageList is a list of PorchPackages.
//
// +kubebuilder:object:root=true
type PorchPackageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PorchPackage `json:"items"`
}

// PackageSpec identifies a package.
type PackageSpec struct {
	PackageName    string `json:"packageName,omitempty"`
	RepositoryName string `json:"repository,omitempty"`
}

// PackageStatus says what is published of a package.
type PackageStatus struct {
	// LatestRevision is the highest published one, 0 if none is.
	LatestRevision int `json:"latestRevision,omitempty"`
}
