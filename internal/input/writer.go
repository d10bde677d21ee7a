package input

import "github.com/txwork/txwork/workqueue"

// Given refuses NULL as a writer's parameter.
func Given(name, hint string) workqueue.Check {
	return workqueue.Check{Parameter: name, Condition: "@" + name + " IS NOT NULL", Message: "must not be NULL",
		Hint: hint}
}
