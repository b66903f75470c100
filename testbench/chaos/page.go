package chaos

import "errors"

// Page is a picture.
func Page(Plan, *Result) ([]byte, error) { return nil, errors.New("none") }
