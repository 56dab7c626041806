package match

// Requests is what all policies together ask for the status of one object.
type Requests struct {
	// Known is false while something that could change the answer has not been read since the
	// start: the object's resource, the policies, the Namespaces, or where policies that want its
	// status deliver to. What is said below is then true as far as it goes, and nothing may be
	// taken back because of what is missing in it (invariant 1).
	Known bool
	// Singleton reports whether a policy that selects the object wants the status of the one
	// cluster it goes to.
	Singleton bool
	// SingletonClusters are the destinations of all policies that do, sorted. Shared: do not change
	// it.
	SingletonClusters []string
	// MultiWEC reports whether a policy that selects the object wants the statuses of all clusters
	// aggregated.
	MultiWEC bool
	// MultiWECClusters are the destinations of all policies that do, sorted. Shared: do not change
	// it.
	MultiWECClusters []string
}
