package workqueue

import "slices"

// manySuffix ends the name of the function that writes many rows.
const manySuffix = "_many"

// A manyField is a field of the objects, with the expression that makes the parameter's value of it.
type manyField struct{ param, name, typ, value string }

// manyFields are the fields of the objects: the parameters, but of bytes.
func (s Spec) manyFields() (fields []manyField) {
	params := s.writerParams()
	payload := s.writerPayload(params)
	for _, p := range params {
		if p.Type != "bytea" {
			fields = append(fields, manyField{p.Name, p.Name, p.Type, "%s"})
			continue
		}
		if p.Name == payload {
			fields = append(fields, manyField{p.Name, p.Name, "jsonb", "convert_to(%s::text, 'UTF8')"},
				manyField{p.Name, p.Name + "_text", "text", "convert_to(%s, 'UTF8')"})
		}
		fields = append(fields, manyField{p.Name, p.Name + "_base64", "text", "decode(%s, 'base64')"})
	}
	return fields
}

// validateMany refuses parameters that would have the same field.
func (s Spec) validateMany() error {
	if s.Writer.ChangeMany != "" && (s.Writer.Change == "" || slices.ContainsFunc(s.Unique, func(name string) bool {
		c, _ := s.column(name)
		return !c.NotNull
	})) {
		return invalid("writer", "of table %q has ChangeMany without Change, or unique values that may be NULL", s.Table)
	}
	names := map[string]bool{}
	for _, f := range s.manyFields() {
		if names[f.name] {
			return invalid("writer", "of table %q has two parameters for the field %q of objects: set Writer.None, or "+
				"Column.Written", s.Table, f.name)
		}
		names[f.name] = true
	}
	return nil
}
