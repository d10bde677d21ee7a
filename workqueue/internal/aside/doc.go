// Package aside has the SQL about rows that a claim has set aside, because their topic may not start them now, see
// Topics of workqueue.Spec. The packages that made such a row wait, or let it through, leave it alone.
package aside
