package workqueue

import "fmt"

// A Bound is what the values of a [Column] may be: how many bytes a text or a bytea has, or what a whole number is.
// [Table.Check] and [Table.Insert] refuse other values before anything is sent, and so does the SQL function that
// writes rows, of a parameter with the column's name. The zero value is no bound.
type Bound struct {
	Min, Max int64 // Max is 0 for no maximum

	// Stored has the table refuse other values, too, whoever writes them. The column then has a type of its own, the
	// domain <table>_<column>_value.
	Stored bool
}

func (c *Column) sized() bool { return c.Type == "text" || c.Type == "bytea" }

// Bounds says what the values of the column may be, such as "1 to 255 bytes"; empty: it has no [Bound].
func (c *Column) Bounds() string {
	text := c.bounds("%[1]d", "at least %[1]d", "at most %[2]d", "%[1]d to %[2]d")
	if c.sized() && text != "" {
		text += " bytes"
	}
	return text
}

func (c *Column) must() string {
	if c.sized() {
		return "must have " + c.Bounds()
	}
	return "must be " + c.Bounds()
}

// Within is the condition in SQL that a value is within the bound.
func (c *Column) Within(value string) string {
	if c.sized() {
		value = "octet_length(" + value + ")"
	}
	return value + c.bounds(" = %[1]d", " >= %[1]d", " <= %[2]d", " BETWEEN %[1]d AND %[2]d")
}

// bounds fills in the form that the bound has.
func (c *Column) bounds(one, least, most, both string) string {
	switch b := c.Bound; {
	case b == Bound{}:
		return ""
	case b.Max == 0:
		both = least
	case b.Min == b.Max:
		both = one
	case b.Min == 0 && c.sized():
		both = most
	}
	return fmt.Sprintf(both, c.Bound.Min, c.Bound.Max)
}

// check refuses a value, in the form in which it is sent, that is not within the bound.
func (c *Column) check(v any) error {
	n := int64(0)
	switch v := v.(type) {
	case string:
		n = int64(len(v))
	case []byte:
		n = int64(len(v))
	case int64:
		n = v
	}
	b := c.Bound
	if b == (Bound{}) || n >= b.Min && (b.Max == 0 || n <= b.Max) {
		return nil
	}
	is := "is %d"
	if c.sized() {
		is = "has %d bytes"
	}
	return invalid(c.Name, is+", it %s", n, c.must())
}

func (s Spec) validateBound(c Column) error {
	switch b := c.Bound; {
	case b == Bound{}:
		return nil
	case !c.sized() && c.Type != "bigint" && c.Type != "integer" && c.Type != "smallint":
		return invalid("column", "%q has a Bound: only texts, bytea and whole numbers may have one", c.Name)
	case b.Max == 0 && b.Min == 0, b.Max != 0 && b.Max < b.Min, c.sized() && b.Min < 0:
		return invalid("column", "%q has the Bound %d to %d: Min cannot be above Max, nor both 0", c.Name, b.Min, b.Max)
	case b.Stored:
		return checkIdentifier("type of a column", s.valueType(c))
	}
	return nil
}

// valueType is the name of the type of a column whose bound is Stored.
func (s Spec) valueType(c Column) string { return s.Table + "_" + c.Name + "_value" }

// writerCheck refuses a value of a parameter of the SQL function that the column cannot have.
func (c *Column) writerCheck() Check {
	switch param := "@" + c.Name; {
	case c.Bound == Bound{}:
		return Check{Parameter: c.Name, Condition: param + " IS NOT NULL", Message: "must not be NULL",
			Hint: "The table has no row without one."}
	case c.NotNull:
		return Check{Parameter: c.Name, Condition: c.Within(param), Message: c.must() + ", and must not be NULL",
			Hint: "Such a row could not be stored."}
	default:
		return Check{Parameter: c.Name, Condition: param + " IS NULL OR " + c.Within(param), Message: c.must(),
			Hint: "NULL is none."}
	}
}
