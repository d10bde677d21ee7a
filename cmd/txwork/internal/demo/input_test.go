package demo_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/txwork/txwork/cmd/txwork/internal/demo"
)

func TestReadTransfers(t *testing.T) {
	t.Parallel()
	want := []demo.Transfer{{ID: "1", From: "anna", To: "bert", Amount: 1250}, {ID: "2", From: "bert", To: "über, anna",
		Amount: 700}}
	for name, text := range map[string]string{
		"header":          "id,from,to,amount\n1,anna,bert,12.50\n2,bert,\"über, anna\",7\n",
		"no header":       "1,anna,bert,12.5\n2,bert,\"über, anna\",7.00\n",
		"shouted header":  "ID,From,To,AMOUNT\n1,anna,bert,12.5\n2,bert,\"über, anna\",7\n",
		"spreadsheet":     "\uFEFFid,from,to,amount\r\n1,anna,bert,12.5\r\n2,bert,\"über, anna\",7\r\n",
		"spaces":          " id , from , to , amount\n 1, anna ,bert , 12.5 \n2,bert, \"über, anna\",7\n",
		"empty lines":     "\n\n1,anna,bert,12.5\n\n2,bert,\"über, anna\",7\n\n",
		"no line at end":  "1,anna,bert,12.5\n2,bert,\"über, anna\",7",
		"leading zeros":   "1,anna,bert,0000012.50\n2,bert,\"über, anna\",007\n",
		"quoted all over": "\"1\",\"anna\",\"bert\",\"12.5\"\n\"2\",\"bert\",\"über, anna\",\"7\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := demo.ReadTransfers("in.csv", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestReadTransfersRefuses(t *testing.T) {
	t.Parallel()
	const good = "1,anna,bert,5\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":       {"", "in.csv: holds no transfers"},
		"a header only": {"id,from,to,amount\n", "in.csv: holds no transfers"},
		"another header": {"id,to,from,amount\n" + good,
			`in.csv:1: the header is "id,to,from,amount", want "id,from,to,amount"`},
		"a late header":     {good + "id,from,to,amount\n", `in.csv:2: amount "amount"`},
		"too few fields":    {good + "2,anna,bert\n", "in.csv:2: has 3 fields, want the 4 of id,from,to,amount"},
		"too many fields":   {good + "2,anna,bert,1,000\n", "in.csv:2: has 5 fields"},
		"semicolons":        {"1;anna;bert;5\n", "in.csv:1: has 1 fields"},
		"no id":             {good + ",anna,bert,5\n", "in.csv:2: id is empty"},
		"no from":           {good + "2, ,bert,5\n", "in.csv:2: from is empty"},
		"no to":             {good + "2,anna,,5\n", "in.csv:2: to is empty"},
		"to itself":         {good + "2,anna,anna,5\n", `in.csv:2: from and to are the same account "anna"`},
		"an id twice":       {good + "\n2,bert,anna,5\n1,bert,anna,5\n", `in.csv:4: id "1" is that of line 1 already`},
		"no amount":         {good + "2,anna,bert,\n", `in.csv:2: amount "": want a positive decimal`},
		"no amount, line 1": {"2,anna,bert,\n", `in.csv:1: amount "": want a positive decimal`},
		"zero":              {good + "2,anna,bert,0.00\n", `in.csv:2: amount "0.00": want a positive`},
		"negative":          {good + "2,anna,bert,-5\n", `in.csv:2: amount "-5": want a positive`},
		"plus":              {good + "2,anna,bert,+5\n", `in.csv:2: amount "+5"`},
		"three digits":      {good + "2,anna,bert,5.001\n", `in.csv:2: amount "5.001"`},
		"no digits":         {good + "2,anna,bert,5.\n", `in.csv:2: amount "5."`},
		"no whole part":     {good + "2,anna,bert,.5\n", `in.csv:2: amount ".5"`},
		"decimal comma":     {good + "2,anna,bert,\"5,00\"\n", `in.csv:2: amount "5,00"`},
		"exponent":          {good + "2,anna,bert,1e3\n", `in.csv:2: amount "1e3"`},
		"not a number":      {good + "2,anna,bert,NaN\n", `in.csv:2: amount "NaN"`},
		"other digits":      {good + "2,anna,bert,٥\n", `in.csv:2: amount "٥"`},
		"too much":          {good + "2,anna,bert,10000000000\n", `in.csv:2: amount "10000000000"`},
		"a long account": {good + "2," + strings.Repeat("a", 201) + ",bert,5\n",
			"in.csv:2: from is 201 bytes long, at most 200"},
		"NUL":                {good + "2,an\x00na,bert,5\n", "in.csv:2: from \"an\\x00na\" contains a NUL"},
		"invalid UTF-8":      {good + "2,anna,b\xffert,5\n", "in.csv:2: to \"b\\xffert\" is not valid UTF-8"},
		"an open quote":      {good + "2,\"anna,bert,5\n", "in.csv:2: extraneous or missing \" in quoted-field"},
		"a quote in a field": {good + "2,an\"na,bert,5\n", "in.csv:2: bare \""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := demo.ReadTransfers("in.csv", strings.NewReader(c.text))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want one that begins with %s", err, c.want)
			}
		})
	}
}
