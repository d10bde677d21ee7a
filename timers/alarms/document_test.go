package alarms_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers/alarms"
)

// A document is the OpenAPI document as the tests read it.
type document struct{ root map[string]any }

func readDocument(t testing.TB) *document {
	t.Helper()
	d := &document{}
	if err := json.Unmarshal(alarms.OpenAPI, &d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

type object = map[string]any

// at returns the value at a path of members.
func at(v any, path ...string) any {
	for _, name := range path {
		o, ok := v.(object)
		if !ok {
			return nil
		}
		v = o[name]
	}
	return v
}

// resolve follows a $ref.
func (d *document) resolve(v any) object {
	o, _ := v.(object)
	ref, ok := o["$ref"].(string)
	if !ok {
		return o
	}
	return d.resolve(at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
}

// path returns the template that matches a request's path.
func (d *document) path(actual string) string {
	for template := range at(d.root, "paths").(object) {
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(template), `\{id\}`, `[^/]+`) + "$"
		if regexp.MustCompile(pattern).MatchString(actual) {
			return template
		}
	}
	return ""
}

// check checks an exchange against the document: the operation must list the status, the answer must match its schema,
// and a body that was accepted must match the schema of the request.
func (d *document) check(t testing.TB, method, path, body string, x exchange) {
	t.Helper()
	template := d.path(path)
	if template == "" {
		if x.status != 404 {
			t.Errorf("%s %s is not documented and answers %d", method, path, x.status)
		}
		return
	}
	operation := d.operation(template, method)
	response := d.resolve(at(operation, "responses", strconv.Itoa(x.status)))
	if response == nil {
		t.Errorf("%s %s answers %d, which is not documented", method, template, x.status)
		return
	}
	if x.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s answers %q", method, template, x.header.Get("Content-Type"))
	}
	d.fits(t, fmt.Sprint(method, " ", template, " ", x.status), at(response, "content", "application/json", "schema"),
		x.body)
	if schema := at(operation, "requestBody", "content", "application/json", "schema"); schema != nil &&
		x.status == 200 && !bytes.Contains(x.body, []byte(`"deduped":true`)) {
		d.fits(t, "request", schema, []byte(body))
	}
}

// operation returns the operation of a method. For a method that the path does not have, it returns any operation,
// because all of them describe the same 405.
func (d *document) operation(template, method string) any {
	item := at(d.root, "paths", template).(object)
	if operation, ok := item[strings.ToLower(method)]; ok {
		return operation
	}
	responses := object{}
	if get, ok := item["get"]; ok {
		responses["405"] = at(get, "responses", "405")
	}
	return object{"responses": responses}
}

func (d *document) fits(t testing.TB, what string, schema any, body []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s: %v: %s", what, err, body)
		return
	}
	for _, problem := range d.validate(schema, v, "$") {
		t.Errorf("%s: %s: %s", what, problem, body)
	}
}

// validate implements the part of JSON Schema that the document uses, and reports any keyword that it does not know.
func (d *document) validate(schema, v any, where string) (problems []string) {
	s := d.resolve(schema)
	wrong := func(format string, args ...any) {
		problems = append(problems, where+" "+fmt.Sprintf(format, args...))
	}
	for keyword, want := range s {
		switch keyword {
		case "type":
			if !hasType(v, want.(string)) {
				wrong("is %v, want type %v", v, want)
			}
		case "enum":
			if !slices.Contains(want.([]any), v) {
				wrong("is %v, want one of %v", v, want)
			}
		case "const":
			if !reflect.DeepEqual(v, want) {
				wrong("is %v, want %v", v, want)
			}
		case "format":
			if text, ok := v.(string); ok && !hasFormat(text, want.(string)) {
				wrong("is %q, want format %v", text, want)
			}
		case "required":
			for _, name := range want.([]any) {
				if o, ok := v.(object); ok && !has(o, name.(string)) {
					wrong("lacks %v", name)
				}
			}
		case "properties":
			o, _ := v.(object)
			for name, member := range o {
				if sub, known := want.(object)[name]; known {
					problems = append(problems, d.validate(sub, member, where+"."+name)...)
				} else if s["additionalProperties"] == false {
					wrong("has %q, which is not documented", name)
				}
			}
		case "items":
			list, _ := v.([]any)
			for i, item := range list {
				problems = append(problems, d.validate(want, item, fmt.Sprintf("%s[%d]", where, i))...)
			}
		case "minLength", "maxLength", "minimum", "maximum", "maxItems":
			if size, ok := magnitude(v, keyword); ok && (strings.HasPrefix(keyword, "min") && size < want.(float64) ||
				strings.HasPrefix(keyword, "max") && size > want.(float64)) {
				wrong("is %v, want %s %v", size, keyword, want)
			}
		case "pattern":
			if text, ok := v.(string); ok && !regexp.MustCompile(want.(string)).MatchString(text) {
				wrong("is %q, want pattern %v", text, want)
			}
		case "additionalProperties", "description", "default":
		default:
			wrong("has a schema with %q, which this test does not know", keyword)
		}
	}
	return problems
}

func has(o object, name string) bool { _, ok := o[name]; return ok }

func hasType(v any, want string) bool {
	switch v := v.(type) {
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "number" || want == "integer" && v == float64(int64(v))
	case object:
		return want == "object"
	case []any:
		return want == "array"
	}
	return want == "null"
}

func hasFormat(text, want string) bool {
	var err error
	switch want {
	case "date-time":
		if text != "" { // clients of the original service send an empty fire_at for none
			_, err = time.Parse(time.RFC3339, text)
		}
	case "uuid":
		_, err = uuid.Parse(text)
	}
	return err == nil
}

func magnitude(v any, keyword string) (float64, bool) {
	switch v := v.(type) {
	case string:
		return float64(len([]rune(v))), strings.HasSuffix(keyword, "Length")
	case []any:
		return float64(len(v)), strings.HasSuffix(keyword, "Items")
	case float64:
		return v, strings.HasSuffix(keyword, "imum")
	}
	return 0, false
}
