package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/page"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/postgres"
)

// vectors is testdata/unique_fields.json, which clients in other languages are tested with, too. The forms were written
// by hand, and hashed with Python.
type vectors struct {
	Accepted []struct{ Fields, Form, Hash string }
	Refused  []string
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/unique_fields.json")
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hashInGo returns the hash of fields that are JSON, as a program reads them.
func hashInGo(fields string) (form, sum string, err error) {
	decoder := json.NewDecoder(strings.NewReader(fields))
	decoder.UseNumber()
	var values map[string]any
	if err = decoder.Decode(&values); err != nil {
		return "", "", err
	}
	b, err := canonical(values)
	return string(b), hash(b), err
}

func newHashes(t *testing.T) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	up, _, err := DDL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	db.Define(t, up)
	return db
}

// hashesInSQL returns the hashes that the database makes of fields.
func hashesInSQL(t *testing.T, db *pgtest.DB, fields []string) []string {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), "SELECT jobs_unique_hash(f.text::jsonb) FROM unnest($1::text[]) WITH "+
		"ORDINALITY AS f (text, n) ORDER BY f.n", fields)
	if err != nil {
		t.Fatal(err)
	}
	hashes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return hashes
}

func TestVectorsOfUniqueFields(t *testing.T) {
	t.Parallel()
	db := newHashes(t)
	v := readVectors(t)
	for _, one := range v.Accepted {
		form, sum, err := hashInGo(one.Fields)
		if err != nil || form != one.Form || sum != one.Hash {
			t.Errorf("%s is %q with the hash %s in Go, want %q with %s: %v", one.Fields, form, sum, one.Form, one.Hash, err)
		}
		if got := hashesInSQL(t, db, []string{one.Fields})[0]; got != one.Hash {
			t.Errorf("%s has the hash %s in SQL, want %s", one.Fields, got, one.Hash)
		}
	}
	over := func(fields int, name, text string) string {
		m := map[string]string{name: text}
		for i := range fields - 1 {
			m[fmt.Sprint("other", i)] = ""
		}
		b, _ := json.Marshal(m)
		return string(b)
	}
	for _, fields := range []string{over(MaxFields, "a", ""), over(1, strings.Repeat("ü", 31), ""),
		over(1, "a", strings.Repeat("ü", 512))} {
		_, sum, err := hashInGo(fields)
		if got := hashesInSQL(t, db, []string{fields})[0]; err != nil || got != sum {
			t.Errorf("%s has the hash %s in SQL, want %s: %v", fields, got, sum, err)
		}
	}
	for _, fields := range append(v.Refused, over(MaxFields+1, "a", ""), over(1, strings.Repeat("ü", 32), ""),
		over(1, "a", strings.Repeat("ü", 512)+"a")) {
		// encoding/json puts U+FFFD in the place of lone surrogates: see TestValuesOfGo for what programs can give
		if _, _, err := hashInGo(fields); err == nil && !strings.Contains(fields, `"\ud`) {
			t.Errorf("Go accepts %s", fields)
		}
		_, err := db.Pool.Exec(t.Context(), "SELECT jobs_unique_hash($1::text::jsonb)", fields)
		// 22023 is the function's, the others are those of a text that jsonb refuses
		switch postgres.State(err) {
		case "22023", "22P02", "22P05", "22003":
		default:
			t.Errorf("SQL on %s: %v", fields, err)
		}
	}
	if _, err := db.Pool.Exec(t.Context(), "SELECT jobs_unique_hash(NULL)"); postgres.State(err) != "22023" {
		t.Errorf("SQL on NULL: %v", err)
	}
}

// What programs in Go can give beside what JSON can say.
func TestValuesOfGo(t *testing.T) {
	t.Parallel()
	type customer int
	type name string
	for _, v := range []struct {
		value any
		form  string
	}{
		{customer(-7), "1:an2:-7"}, {name("x"), "1:as1:x"}, {uint64(math.MaxUint64), "1:an20:18446744073709551615"},
		{1.10, "1:an3:1.1"}, {float32(0.1), "1:an3:0.1"}, {math.Copysign(0, -1), "1:an1:0"}, {1e21, "1:an22:1" +
			strings.Repeat("0", 21)}, {5e-7, "1:an9:0.0000005"}, {json.Number("1.0"), "1:an1:1"}, {nil, "1:az0:"},
	} {
		form, err := canonical(map[string]any{"a": v.value})
		if err != nil || string(form) != v.form {
			t.Errorf("%T %v is %q, want %q: %v", v.value, v.value, form, v.form, err)
		}
	}
	for _, bad := range []any{[]int{1}, map[string]any{}, struct{}{}, new(int), math.NaN(), math.Inf(-1), 1e38, 5e-324,
		"a\x00", "\xff", "\xed\xa0\x80", strings.Repeat("a", MaxFieldText+1), json.Number(""), json.Number("01"),
		json.Number("+1"), json.Number("1."), json.Number("0x1"), json.Number("1_0"),
		json.Number("1e9223372036854775807"),
		json.Number("10e2147483647"), json.Number("1e-2147483648"), json.Number("1\n"), 1i} {
		if form, err := canonical(map[string]any{"a": bad}); err == nil {
			t.Errorf("%T %v is accepted as %q", bad, bad, form)
		}
	}
	for _, bad := range []string{"", "a\x00", "\xff", strings.Repeat("a", MaxFieldName+1)} {
		if _, err := canonical(map[string]any{bad: 1}); err == nil {
			t.Errorf("the name %q is accepted", bad)
		}
	}
}

// Go, the database and the program in Python that docs/sql.md prints make the same hashes of random fields.
func TestRandomUniqueFieldsMeet(t *testing.T) {
	t.Parallel()
	db := newHashes(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	fields, want := make([]string, pgtest.Size(10_000, 200_000)), map[string]string{}
	for i := range fields {
		fields[i] = randomFields(random)
		form, sum, err := hashInGo(fields[i])
		if err != nil {
			t.Fatalf("%s: %v", fields[i], err)
		}
		if other, ok := want[sum]; ok && other != form {
			t.Fatalf("%q and %q have the hash %s", form, other, sum)
		}
		want[sum] = form
	}
	hashes := hashesInSQL(t, db, fields)
	for i, got := range hashes {
		if form := want[got]; form == "" {
			t.Fatalf("the database makes %s of %s, and Go does not", got, fields[i])
		}
	}
	for i, got := range hashesInPython(t, fields) {
		if got != hashes[i] {
			t.Fatalf("Python makes %s of %s, the database %s", got, fields[i], hashes[i])
		}
	}
}

// hashesInPython runs the program of docs/sql.md.
func hashesInPython(t *testing.T, fields []string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	program := ""
	for _, b := range (page.Page{Path: "docs/sql.md", Text: string(text)}).Blocks() {
		if b.Language == "python" && strings.Contains(b.Text, "def unique_hash(") {
			program = b.Text
		}
	}
	if program == "" {
		t.Fatal("docs/sql.md has no unique_hash in Python")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("there is no python3")
		return nil
	}
	command := exec.CommandContext(t.Context(), python, "-c", program+`
import sys
for line in sys.stdin:
    print(unique_hash(json.loads(line, parse_float=Decimal)))
`)
	command.Stdin = strings.NewReader(strings.Join(fields, "\n"))
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	return strings.Fields(out.String())
}

// randomFields returns JSON in any of its ways to write the same.
func randomFields(random *rand.Rand) string {
	n := 1 + random.IntN(4)
	if random.IntN(20) == 0 {
		n = MaxFields
	}
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(randomText(random, 1, 12) + ": ")
		switch random.IntN(8) {
		case 0:
			b.WriteString("null")
		case 1:
			b.WriteString([]string{"true", "false"}[random.IntN(2)])
		case 2, 3, 4:
			b.WriteString(randomText(random, 0, 40))
		default:
			b.WriteString(randomNumber(random))
		}
	}
	return "{" + b.String() + "}"
}

// randomText returns a literal of JSON. Few letters make names that differ little, and names that repeat.
func randomText(random *rand.Rand, least, most int) string {
	letters := []rune("ab:n1\"\\/\n\u001f\u007f <&ü\u00e9e\u0301ß€\uffff😀\U0010ffff")
	var b strings.Builder
	b.WriteByte('"')
	for range least + random.IntN(most-least+1) {
		r := letters[random.IntN(len(letters))]
		switch {
		case r < 0x20 || r == '"' || r == '\\' || r < 0x10000 && random.IntN(4) == 0:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func randomNumber(random *rand.Rand) string {
	digits := func(most int) string {
		var b strings.Builder
		for range 1 + random.IntN(most) {
			b.WriteByte("0123456789000"[random.IntN(13)])
		}
		return b.String()
	}
	text := cmp.Or(strings.TrimLeft(digits(17), "0"), "0")
	if random.IntN(2) == 0 {
		text += "." + digits(17)
	}
	if random.IntN(2) == 0 {
		text += []string{"e", "E", "e+", "E-", "e-"}[random.IntN(5)] + digits(1)
	}
	return []string{"", "-"}[random.IntN(2)] + text
}
