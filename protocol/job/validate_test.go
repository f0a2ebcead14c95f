package job

import "testing"

// A uid starts with a lower-case letter and goes on with those, digits and dashes.
func TestValidUid(t *testing.T) {
	for _, uid := range []string{"a", "z", "a1", "a-b", "a0-9z", "a-"} {
		if !ValidUid(uid) {
			t.Errorf("%q is refused", uid)
		}
	}
	for _, uid := range []string{"", "1a", "-a", "A", "aB", "a_b", "a/b", "a:b", "a b", "a`b", "a{b", "é", "aé"} {
		if ValidUid(uid) {
			t.Errorf("%q is taken", uid)
		}
	}
}
