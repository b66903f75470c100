package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plimsoll/actors/ingress"
	"plimsoll/scoring/quota"
)

// TenantSpec is what one --tenant says.
type TenantSpec struct {
	Name   string   // of an API key, or "default" where no keys are needed
	Weight *float64 // its share while several tenants wait; unset: 1
	Quota  quota.Limits
}

// ParseTenant reads NAME[,weight=..][,requests-per-minute=..][,tokens-per-minute=..].
func ParseTenant(text string, _ int) (TenantSpec, error) {
	name, options, _ := strings.Cut(text, ",")
	spec := TenantSpec{Name: name}
	if name == "" || strings.Contains(name, "=") {
		return TenantSpec{}, fmt.Errorf("%q does not begin with a tenant's name: write NAME,weight=2, e.g. --tenant team-a,weight=2", text)
	}
	seen := map[string]bool{}
	for option := range strings.SplitSeq(options, ",") {
		key, value, ok := strings.Cut(option, "=")
		switch {
		case options == "":
			return TenantSpec{}, fmt.Errorf("tenant %s: say what it may have: weight, requests-per-minute or tokens-per-minute", name)
		case !ok || value == "":
			return TenantSpec{}, fmt.Errorf("tenant %s: %q has no value: write it as KEY=VALUE", name, option)
		case seen[key]:
			return TenantSpec{}, fmt.Errorf("tenant %s: %s is set twice", name, key)
		}
		seen[key] = true
		if err := spec.set(key, value); err != nil {
			return TenantSpec{}, fmt.Errorf("tenant %s: %s: %w", name, option, err)
		}
	}
	return spec, nil
}

func (t *TenantSpec) set(key, value string) (err error) {
	switch key {
	case "weight":
		w, err := strconv.ParseFloat(value, 64)
		if err != nil || !(w >= tenantWeightLeast && w <= tenantWeightMost) {
			return fmt.Errorf("write a number from %g to %g", tenantWeightLeast, tenantWeightMost)
		}
		t.Weight = &w
	case "requests-per-minute":
		t.Quota.RequestsPerMinute, err = positive(value)
	case "tokens-per-minute":
		t.Quota.TokensPerMinute, err = positive(value)
	default:
		return errors.New("no such option: there are weight, requests-per-minute and tokens-per-minute")
	}
	return err
}

// Bounds of a tenant's weight.
const (
	tenantWeightLeast = 0.001
	tenantWeightMost  = 1000.0
)

// String is the inverse of [ParseTenant].
func (t TenantSpec) String() string {
	var b strings.Builder
	b.WriteString(t.Name)
	if t.Weight != nil {
		fmt.Fprintf(&b, ",weight=%s", strconv.FormatFloat(*t.Weight, 'g', -1, 64))
	}
	if n := t.Quota.RequestsPerMinute; n != nil {
		fmt.Fprintf(&b, ",requests-per-minute=%d", *n)
	}
	if n := t.Quota.TokensPerMinute; n != nil {
		fmt.Fprintf(&b, ",tokens-per-minute=%d", *n)
	}
	return b.String()
}

// checkTenants says what is wrong if a tenant is named twice or is nobody's name.
func checkTenants(tenants []TenantSpec, keys ingress.Keys) error {
	names := make([]string, 0, len(keys)+1)
	for name := range keys {
		names = append(names, name)
	}
	if len(keys) == 0 {
		names = append(names, "default")
	}
	slices.Sort(names)
	seen := map[string]bool{}
	for _, t := range tenants {
		switch {
		case seen[t.Name]:
			return fmt.Errorf("--tenant %s is given twice", t.Name)
		case !slices.Contains(names, t.Name):
			return fmt.Errorf("--tenant %s: no API key has this name; there are %s", t.Name, strings.Join(names, ", "))
		}
		seen[t.Name] = true
	}
	return nil
}
