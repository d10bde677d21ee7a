// Package pages measures how long every page of the dashboard, with every filter, and every reading command of the
// program takes on tables of many rows.
//
// It fills a private server with rows of all domains, most of them done, with dead letters, ordered keys, schedules,
// joins, and a history. What is filled in has the shares of tables that have been used for a week: 95 % are done, 2 %
// are dead letters.
package pages
