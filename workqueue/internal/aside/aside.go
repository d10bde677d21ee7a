package aside

// Column marks rows that wait in the lane of their topic. Only tables with topics have it.
const Column = "aside"

// Or is a condition that also holds for rows which are set aside.
func Or(hasTopics bool, row, condition string) string {
	if !hasTopics {
		return condition
	}
	return "(" + condition + " OR " + column(row) + " IS NOT NULL)"
}

// Not is a condition that does not hold for rows which are set aside.
func Not(hasTopics bool, row, condition string) string {
	if !hasTopics {
		return condition
	}
	return condition + " AND " + column(row) + " IS NULL"
}

func column(row string) string {
	if row == "" {
		return Column
	}
	return row + "." + Column
}
