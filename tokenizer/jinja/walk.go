package jinja

// children visits the expressions right below e.
func children(e expr, visit func(expr)) {
	each := func(es ...expr) {
		for _, x := range es {
			if x != nil {
				visit(x)
			}
		}
	}
	arguments := func(a *argList) {
		each(a.positional...)
		each(a.named...)
		each(a.star, a.doubleStar)
	}
	switch x := e.(type) {
	case *listExpr:
		each(x.items...)
	case *tupleExpr:
		each(x.items...)
	case *dictExpr:
		for i := range x.keys {
			each(x.keys[i], x.values[i])
		}
	case *condExpr:
		each(x.condition, x.then, x.otherwise)
	case *orExpr:
		each(x.left, x.right)
	case *andExpr:
		each(x.left, x.right)
	case *notExpr:
		each(x.operand)
	case *compareExpr:
		each(x.first)
		for _, c := range x.rest {
			each(c.right)
		}
	case *concatExpr:
		each(x.parts...)
	case *negExpr:
		each(x.operand)
	case *posExpr:
		each(x.operand)
	case *binaryExpr:
		each(x.left, x.right)
	case *attrExpr:
		each(x.value)
	case *itemExpr:
		each(x.value, x.key)
	case *sliceExpr:
		each(x.value, x.start, x.stop, x.step)
	case *callExpr:
		each(x.callee)
		arguments(&x.args)
	case *filterExpr:
		each(x.value)
		arguments(&x.args)
	case *testExpr:
		each(x.value)
		arguments(&x.args)
	}
}

// filterOrNil returns f as an expression, nil if there is none.
func filterOrNil(f *filterExpr) expr {
	if f == nil {
		return nil
	}
	return f
}

// bodies returns the blocks inside a statement.
func bodies(n stmt) []block {
	switch x := n.(type) {
	case *ifStmt:
		return append(append([]block(nil), x.bodies...), x.otherwise)
	case *forStmt:
		return []block{x.body, x.otherwise}
	case *setBlockStmt:
		return []block{x.body}
	case *filterStmt:
		return []block{x.body}
	case *withStmt:
		return []block{x.body}
	case *scopeStmt:
		return []block{x.body}
	case *macroStmt:
		return []block{x.def.body}
	case *callStmt:
		return []block{x.body.body}
	}
	return nil
}
