package demo

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/txwork/txwork/outbox"
)

// inputHeader is the first line of an input file. It may be left out.
var inputHeader = []string{"id", "from", "to", "amount"}

// ReadTransfers reads transfers from CSV, one in each line: `id,from,to,amount`, with or without that line as a header.
// Ids must be unique. Accounts are any text and need not exist. The amount is a positive decimal number with at most
// two digits after the point. Spaces around a field are ignored.
//
// Reading stops at the first mistake, with an error that begins with the file name and the line.
func ReadTransfers(name string, r io.Reader) ([]Transfer, error) {
	in := &input{name: name, csv: csv.NewReader(skipMark(r)), lines: map[string]int{}}
	in.csv.ReuseRecord = true
	in.csv.TrimLeadingSpace = true
	in.csv.FieldsPerRecord = -1 // counted below, for a better message
	var transfers []Transfer
	for {
		fields, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		t, err := in.transfer(fields)
		if err != nil {
			return nil, err
		}
		transfers = append(transfers, t)
	}
	if len(transfers) == 0 {
		return nil, fmt.Errorf("%s: holds no transfers: want lines of %s", name, strings.Join(inputHeader, ","))
	}
	return transfers, nil
}

func readFile(name string) ([]Transfer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return ReadTransfers(name, f)
}

// skipMark drops the byte order mark that spreadsheets write at the start of their exports.
func skipMark(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if mark, err := b.Peek(3); err == nil && string(mark) == "\uFEFF" {
		_, _ = b.Discard(3)
	}
	return b
}

type input struct {
	name  string
	csv   *csv.Reader
	lines map[string]int // line of each id so far
	begun bool
}

// next returns the next line with content, except the header.
func (in *input) next() ([]string, error) {
	fields, err := in.csv.Read()
	if err != nil {
		return nil, in.explain(err)
	}
	first := !in.begun
	in.begun = true
	for i, field := range fields {
		fields[i] = strings.TrimSpace(field)
	}
	if len(fields) != len(inputHeader) {
		return nil, in.wrong("has %d fields, want the %d of %s", len(fields), len(inputHeader),
			strings.Join(inputHeader, ","))
	}
	if !first || !isHeader(fields) {
		return fields, nil
	}
	if !slices.EqualFunc(fields, inputHeader, strings.EqualFold) {
		return nil, in.wrong("the header is %q, want %q", strings.Join(fields, ","), strings.Join(inputHeader, ","))
	}
	return in.next()
}

// isHeader takes the first line for a header if its amount is not empty and contains no digit.
func isHeader(fields []string) bool {
	return !strings.ContainsAny(fields[3], "0123456789") && fields[3] != ""
}

func (in *input) transfer(fields []string) (Transfer, error) {
	t := Transfer{ID: strings.Clone(fields[0]), From: strings.Clone(fields[1]), To: strings.Clone(fields[2])}
	if err := in.checkNames(t); err != nil {
		return t, err
	}
	amount, err := parseAmount(fields[3])
	if err != nil {
		return t, in.wrong("amount %q: %w", fields[3], err)
	}
	t.Amount = amount
	line := in.line()
	if before, taken := in.lines[t.ID]; taken {
		return t, in.wrong("id %q is that of line %d already", t.ID, before)
	}
	in.lines[t.ID] = line
	return t, nil
}

func (in *input) checkNames(t Transfer) error {
	for i, field := range []string{t.ID, t.From, t.To} {
		if err := checkName(field); err != nil {
			return in.wrong("%s %w", inputHeader[i], err)
		}
	}
	if t.From == t.To {
		return in.wrong("from and to are the same account %q", t.From)
	}
	return nil
}

// maxName bounds ids and account names: an account is the key of its messages.
const maxName = min(200, outbox.MaxKey)

// checkName refuses names that PostgreSQL would refuse later.
func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > maxName:
		return fmt.Errorf("is %d bytes long, at most %d are allowed", len(s), maxName)
	case !utf8.ValidString(s):
		return fmt.Errorf("%q is not valid UTF-8", s)
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("%q contains a NUL character", s)
	}
	return nil
}

func (in *input) line() int {
	line, _ := in.csv.FieldPos(0)
	return line
}

func (in *input) wrong(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", in.name, in.line(), fmt.Errorf(format, args...))
}

// explain gives a CSV error the same form as the other errors.
func (in *input) explain(err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("%s:%d: %w", in.name, parse.Line, parse.Err)
	}
	if errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%s: %w", in.name, err)
}
