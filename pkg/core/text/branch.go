package text

// Branch returns what a drawing of a tree has before a node, and before what is below the node.
func Branch(last bool) (before, below string) {
	if last {
		return "└── ", "    "
	}
	return "├── ", "│   "
}
