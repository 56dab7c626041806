package settings

import "fmt"

// Known are the settings of a WDS as far as a command knows them. Those that it could not read are
// the defaults.
type Known struct {
	Bindings  Bindings
	Transport Transport
	// BindingsUnread and TransportUnread say why the defaults must do, "" if they need not.
	BindingsUnread, TransportUnread string
}

// Unknown returns nothing but defaults, for the reason why.
func Unknown(why string) Known {
	k := Known{BindingsUnread: why, TransportUnread: why}
	k.Bindings, k.Transport = Defaults()
	return k
}

// Notes says what is unknown, and what counts instead.
func (k *Known) Notes() (notes []string) {
	if k.BindingsUnread != "" {
		notes = append(notes, fmt.Sprintf("the settings of the binding-controller, so that the defaults count (--%s=false, --%s=%d, all API groups): %s",
			keyGenerated, keySize, k.Bindings.MaxBindingSize, k.BindingsUnread))
	}
	if k.TransportUnread != "" {
		notes = append(notes, fmt.Sprintf("the settings of the transport-controller, so that the default counts (no --%s): %s", keyManagement, k.TransportUnread))
	}
	return notes
}
