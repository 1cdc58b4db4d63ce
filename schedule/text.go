package schedule

import (
	"fmt"
	"strings"
)

const (
	between = "; "       // expressions of a text
	zoneIs  = "CRON_TZ=" // before an expression that names its zone
)

// ParseText reads back what String wrote: the schedule has the same fingerprint, unless another version of the
// rules wrote the text. A text without a zone is none that String wrote: what it means would hang on the host that
// reads it. An error is an *Error. No input panics.
func ParseText(text string) (*Schedule, error) {
	exprs, zone := text, ""
	if head, tail, ok := cutLast(text, " ("); ok && strings.HasSuffix(tail, ")") {
		exprs, zone = head, strings.TrimSuffix(tail, ")")
	}
	s := &Schedule{}
	for expr := range strings.SplitSeq(exprs, between) {
		if len(s.rules) == maxExpressions {
			return nil, &Error{Why: fmt.Sprintf("more than %d expressions", maxExpressions), Hint: "it is no recorded schedule"}
		}
		own := zone
		// The zone comes off first: with it the longest expressions would be too long.
		if rest, ok := strings.CutPrefix(expr, zoneIs); ok && zone == "" {
			own, expr, _ = strings.Cut(rest, " ")
		}
		if own == "" {
			return nil, &Error{Expr: expr, Why: "no time zone", Hint: "it is no recorded schedule"}
		}
		r, err := parseExpression(expr, &zones{expr: expr, name: own})
		if err != nil {
			return nil, err
		}
		s.rules = append(s.rules, r)
	}
	return s, nil
}

// cutLast cuts a text around the last separator in it.
func cutLast(text, separator string) (head, tail string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
