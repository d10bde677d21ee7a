// Package homemade hands over a Tx of its own, which is sealed: it must not compile.
package homemade

import "github.com/txwork/txwork/workqueue"

type tx struct{}

func use() workqueue.Tx { return tx{} }
