package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PackageRevisionResources holds the files of the PackageRevision of the same name, and exists as
// long as it does. An update replaces all files, renders the package, and returns the result of the
// render.
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
	// Resources are the contents of the files, by path.
	Resources map[string]string `json:"resources,omitempty"`
}

// PackageRevisionResourcesStatus is the result of the last render.
type PackageRevisionResourcesStatus struct {
	RenderStatus RenderStatus `json:"renderStatus,omitempty"`
}

// RenderStatus is the result of a render of a package.
type RenderStatus struct {
	Result ResultList `json:"result,omitempty"`
	// Err is why the render failed. It is empty if it did not.
	Err string `json:"error"`
}

// ResultList holds the results of all functions, in the format of kpt.
type ResultList struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// ExitCode of the pipeline: 0 if it passed.
	ExitCode int       `json:"exitCode"`
	Items    []*Result `json:"items,omitempty"`
}

// Result is the result of one function.
type Result struct {
	Image    string       `json:"image,omitempty"`
	ExecPath string       `json:"exec,omitempty"`
	Stderr   string       `json:"stderr,omitempty"`
	ExitCode int          `json:"exitCode"`
	Results  []ResultItem `json:"results,omitempty"`
}

// ResultItem is one message of a function.
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

// File is the file of an object, and the index of the object in it.
type File struct {
	Path  string `json:"path,omitempty"`
	Index int    `json:"index,omitempty"`
}

// Field is the field that a message is about.
type Field struct {
	Path          string `json:"path,omitempty"`
	CurrentValue  string `json:"currentValue,omitempty"`
	ProposedValue string `json:"proposedValue,omitempty"`
}

// PorchPackage is a package: all revisions with the same package name in a repository.
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

// PackageStatus is the observed state of a package.
type PackageStatus struct {
	// LatestRevision is the number of the highest published revision; 0 if none is published.
	LatestRevision int `json:"latestRevision,omitempty"`
}
