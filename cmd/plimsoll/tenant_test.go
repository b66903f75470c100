package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/ingress"
)

func TestParseTenant(t *testing.T) {
	spec, err := ParseTenant("team-a,weight=2.5,requests-per-minute=60,tokens-per-minute=1000", 1)
	require.NoError(t, err)
	require.Equal(t, "team-a,weight=2.5,requests-per-minute=60,tokens-per-minute=1000", spec.String())
	for text, want := range map[string]string{
		"":                           "does not begin with a tenant's name",
		"weight=2":                   "does not begin with a tenant's name",
		"a":                          "say what it may have",
		"a,weight":                   `"weight" has no value`,
		"a,weight=0":                 "write a number from 0.001 to 1000",
		"a,weight=NaN":               "write a number from 0.001 to 1000",
		"a,weight=1,weight=2":        "weight is set twice",
		"a,tokens-per-minute=0":      "write a whole number above 0",
		"a,requests-per-minute=many": "write a whole number above 0",
		"a,colour=red":               "there are weight, requests-per-minute and tokens-per-minute",
	} {
		_, err := ParseTenant(text, 1)
		require.ErrorContains(t, err, want, text)
	}
}

func TestCheckTenants(t *testing.T) {
	tenants := func(names ...string) (out []TenantSpec) {
		for _, name := range names {
			out = append(out, TenantSpec{Name: name})
		}
		return out
	}
	keys := ingress.Keys{"a": {"x"}, "b": {"y", "z"}}
	require.NoError(t, checkTenants(tenants("a", "b"), keys))
	require.NoError(t, checkTenants(tenants("default"), nil))
	require.ErrorContains(t, checkTenants(tenants("a", "a"), keys), "given twice")
	require.ErrorContains(t, checkTenants(tenants("c"), keys), "there are a, b")
	require.ErrorContains(t, checkTenants(tenants("a"), nil), "there are default")
}
