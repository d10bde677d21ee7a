package alarms_test

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers/alarms"
)

// Every operation of the document is served, and every route is documented.
func TestTheDocumentIsTheServers(t *testing.T) {
	t.Parallel()
	a := newAPI(t, alarms.ServerOptions{Rate: -1})
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	for template, item := range at(a.doc.root, "paths").(object) {
		for _, method := range methods {
			_, documented := item.(object)[strings.ToLower(method)]
			w := httptest.NewRecorder()
			a.server.ServeHTTP(w, httptest.NewRequest(method, strings.ReplaceAll(template, "{id}", uuid.NewString()),
				nil))
			if served := w.Code != 405; served != documented {
				t.Errorf("%s %s: documented %v, answers %d", method, template, documented, w.Code)
			}
		}
	}
	routes := alarms.Routes(a.server)
	if len(routes) < 5 {
		t.Errorf("only %d routes", len(routes))
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		if at(a.doc.root, "paths", path, strings.ToLower(method)) == nil {
			t.Errorf("%s is not documented", route)
		}
	}
}

// Every reference can be resolved, and every operation describes its authentication and its answers.
func TestTheDocumentIsWhole(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	if version := d.root["openapi"]; version != "3.1.0" {
		t.Errorf("version %v", version)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case object:
			if _, ok := v["$ref"]; ok && d.resolve(v) == nil {
				t.Errorf("%v leads nowhere", v["$ref"])
			}
			for _, member := range v {
				walk(member)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(d.root)
	ids := map[any]bool{}
	for template, item := range at(d.root, "paths").(object) {
		for method, operation := range item.(object) {
			if method == "parameters" {
				continue
			}
			id := at(operation, "operationId")
			if id == nil || ids[id] || at(operation, "responses", "200") == nil {
				t.Errorf("%s %s: operationId %v, responses %v", method, template, id, at(operation, "responses"))
			}
			ids[id] = true
			if _, public := operation.(object)["security"]; public == strings.HasPrefix(template, "/v1/") {
				t.Errorf("%s %s: public %v", method, template, public)
			}
		}
	}
}

// The Go types and the document's schemas have the same fields.
func TestTheDocumentHasTheTypesFields(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for name, v := range map[string]any{"Alarm": alarms.View{}, "Wake": alarms.Wake{},
		"CreateRequest": alarms.CreateRequest{}} {
		properties := at(d.root, "components", "schemas", name, "properties").(object)
		fields := map[string]bool{}
		for i := range reflect.TypeOf(v).NumField() {
			field, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			fields[field] = true
			if !has(properties, field) {
				t.Errorf("%s lacks %s", name, field)
			}
		}
		for field := range properties {
			if !fields[field] {
				t.Errorf("%s has %s, the Go type does not", name, field)
			}
		}
	}
}

func TestAWakeFitsTheDocument(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for _, w := range []alarms.Wake{aWake(), {UserID: "u", Message: "m", AlarmID: uuid.NewString(),
		Origin: alarms.Origin, Attempt: 1}} {
		body, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		d.fits(t, "wake", at(d.root, "webhooks", "wake", "post", "requestBody", "content", "application/json",
			"schema"), body)
	}
}
