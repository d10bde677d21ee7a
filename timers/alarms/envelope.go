package alarms

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// An envelope is the common form of all answers of the REST API.
type envelope struct {
	OK    bool         `json:"ok"`
	Data  any          `json:"data,omitempty"`
	Error *answerError `json:"error,omitempty"`
}

// Codes of errors in answers. They are part of the API and do not change.
const (
	codeInvalidRequest   = "invalid_request"
	codeUnauthorized     = "unauthorized"
	codeNotFound         = "not_found"
	codeMethodNotAllowed = "method_not_allowed"
	codeTooLarge         = "too_large"
	codeRateLimited      = "rate_limited"
	codeInternal         = "internal"
	codeUnavailable      = "unavailable"
)

type answerError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Field     string `json:"field,omitempty"`     // the field of the request that was refused
	Retryable bool   `json:"retryable,omitempty"` // the same request may succeed later
}

func answer(w http.ResponseWriter, data any) { write(w, http.StatusOK, envelope{OK: true, Data: data}) }

func refuse(w http.ResponseWriter, status int, e answerError) {
	write(w, status, envelope{Error: &e})
}

func write(w http.ResponseWriter, status int, e envelope) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	text, err := encode(e)
	if err != nil {
		status, text = http.StatusInternalServerError,
			[]byte(`{"ok":false,"error":{"code":"internal","message":"internal error"}}`)
	}
	w.WriteHeader(status)
	w.Write(append(text, '\n')) // an error means that the client has disconnected
}

// encode encodes JSON without escaping for HTML, which would turn some characters into six bytes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// refuseError answers an error that the client caused. It returns false, without an answer, for any other error.
func refuseError(w http.ResponseWriter, err error) bool {
	var invalid *workqueue.InvalidError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, answerError{Code: codeTooLarge, Field: "body",
			Message: tooLarge.Error()})
	case errors.As(err, &invalid):
		refuse(w, http.StatusBadRequest, answerError{Code: codeInvalidRequest, Field: invalid.Field,
			Message: invalid.Field + " " + invalid.Reason})
	case errors.Is(err, workqueue.ErrNotFound):
		refuse(w, http.StatusNotFound, answerError{Code: codeNotFound, Message: "alarm not found"})
	case isRefused(err):
		refuse(w, http.StatusBadRequest, answerError{Code: codeInvalidRequest, Field: "body",
			Message: "body has a value that the database cannot hold"})
	default:
		return false
	}
	return true
}

// isRefused reports whether the database refused the data: a data exception or a violated constraint.
func isRefused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && len(pg.Code) == 5 && (pg.Code[:2] == "22" || pg.Code[:2] == "23")
}
