package functions

// Resolve returns the name of the function of an image.
func Resolve(image string) (string, error) {
	name, _, err := resolve(image)
	return name, err
}
