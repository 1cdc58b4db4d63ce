package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// microTime is how Kubernetes writes the times of a Lease.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// longestName is what a name of an object may have.
const longestName = 253

// Lease is a Lease of coordination.k8s.io/v1. It keeps what it does not know, so that an update leaves as it is what
// others have written.
type Lease struct {
	Name            string
	UID             string // "": it does not exist yet
	ResourceVersion string // of this version; "": it does not exist yet
	Labels          map[string]string
	Annotations     map[string]string
	Spec            Spec

	meta, spec map[string]json.RawMessage // all fields as they came
	managed    json.RawMessage            // managedFields: who wrote which field
}

// Spec is what a Lease says.
type Spec struct {
	HolderIdentity       string // "": nobody
	LeaseDurationSeconds int32
	AcquireTime          time.Time // zero: not known
	RenewTime            time.Time // zero: not known
	LeaseTransitions     int32
}

// isNamed says whether it has the name of an object.
func (l *Lease) isNamed() bool { return l != nil && isName(l.Name) }

func isName(text string) bool { return text != "" && len(text) <= longestName }

// Clone returns a copy that may be changed.
func (l *Lease) Clone() *Lease {
	c := *l
	c.Labels, c.Annotations = maps.Clone(l.Labels), maps.Clone(l.Annotations)
	return &c
}

// WrittenBy returns who gave an annotation the value that it has, as far as the server keeps that: by User-Agent, without
// its version.
func (l *Lease) WrittenBy(annotation string) (managers []string) {
	var entries []struct {
		Manager string `json:"manager"`
		Fields  struct {
			Metadata struct {
				Annotations map[string]struct{} `json:"f:annotations"`
			} `json:"f:metadata"`
		} `json:"fieldsV1"`
	}
	if json.Unmarshal(l.managed, &entries) != nil {
		return nil
	}
	for _, e := range entries {
		if _, ok := e.Fields.Metadata.Annotations["f:"+annotation]; ok {
			managers = append(managers, e.Manager)
		}
	}
	return managers
}

// object is a Lease on its way.
type object struct {
	APIVersion string                     `json:"apiVersion"`
	Kind       string                     `json:"kind"`
	Metadata   map[string]json.RawMessage `json:"metadata"`
	Spec       map[string]json.RawMessage `json:"spec"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Lease) UnmarshalJSON(text []byte) error {
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	*l = Lease{meta: o.Metadata, spec: o.Spec, managed: o.Metadata["managedFields"]}
	delete(l.meta, "managedFields") // the server keeps them where an update names none
	m, s := reader{of: o.Metadata}, reader{of: o.Spec}
	m.read("name", &l.Name)
	m.read("uid", &l.UID)
	m.read("resourceVersion", &l.ResourceVersion)
	m.read("labels", &l.Labels)
	m.read("annotations", &l.Annotations)
	s.read("holderIdentity", &l.Spec.HolderIdentity)
	s.read("leaseDurationSeconds", &l.Spec.LeaseDurationSeconds)
	s.read("acquireTime", &l.Spec.AcquireTime)
	s.read("renewTime", &l.Spec.RenewTime)
	s.read("leaseTransitions", &l.Spec.LeaseTransitions)
	return cmp.Or(m.err, s.err)
}

// reader reads fields until one cannot be read.
type reader struct {
	of  map[string]json.RawMessage
	err error
}

func (r *reader) read(name string, to any) {
	text, ok := r.of[name]
	if !ok || r.err != nil {
		return
	}
	if err := json.Unmarshal(text, to); err != nil {
		r.err = fmt.Errorf("field %s: %w", name, err)
	}
}

// MarshalJSON implements json.Marshaler.
//
// With a UID the update is of this very object. Kubernetes makes a Lease of an update that finds none, resource
// version or not; a UID that no Lease has is a conflict (Store.Update in k8s.io/apiserver/pkg/registry/generic/registry).
func (l *Lease) MarshalJSON() ([]byte, error) {
	m, s := writer{to: maps.Clone(l.meta)}, writer{to: maps.Clone(l.spec)}
	m.write("name", l.Name, true)
	m.write("uid", l.UID, l.UID != "")
	m.write("resourceVersion", l.ResourceVersion, l.ResourceVersion != "")
	m.write("labels", l.Labels, len(l.Labels) > 0)
	m.write("annotations", l.Annotations, len(l.Annotations) > 0)
	s.write("holderIdentity", l.Spec.HolderIdentity, l.Spec.HolderIdentity != "")
	s.write("leaseDurationSeconds", l.Spec.LeaseDurationSeconds, l.Spec.LeaseDurationSeconds > 0)
	s.write("acquireTime", l.Spec.AcquireTime.UTC().Format(microTime), !l.Spec.AcquireTime.IsZero())
	s.write("renewTime", l.Spec.RenewTime.UTC().Format(microTime), !l.Spec.RenewTime.IsZero())
	s.write("leaseTransitions", l.Spec.LeaseTransitions, true)
	if m.err != nil || s.err != nil {
		return nil, fmt.Errorf("lease %s: %w", l.Name, cmp.Or(m.err, s.err))
	}
	return json.Marshal(object{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Metadata: m.to, Spec: s.to})
}

// writer writes fields until one cannot be written.
type writer struct {
	to  map[string]json.RawMessage
	err error
}

// write sets a field, or removes it where it is not there.
func (w *writer) write(name string, value any, there bool) {
	if !there {
		delete(w.to, name)
		return
	}
	text, err := json.Marshal(value)
	if err != nil && w.err == nil {
		w.err = err
	}
	if w.to == nil {
		w.to = map[string]json.RawMessage{}
	}
	w.to[name] = text
}
