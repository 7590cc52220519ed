package webhook

import (
	"encoding/json"
	"testing"
)

func TestVerdictText(t *testing.T) {
	for v, text := range map[Verdict]string{Success: "success", Temporary: "temporary", Permanent: "permanent"} {
		data, err := json.Marshal(v)
		if err != nil || string(data) != `"`+text+`"` || v.String() != text {
			t.Errorf("%v is %s, error %v", v, data, err)
		}
		var back Verdict
		if err := json.Unmarshal(data, &back); err != nil || back != v {
			t.Errorf("%s is %v, error %v", data, back, err)
		}
	}
	var v Verdict
	if _, err := v.MarshalText(); err == nil || v.String() != "Verdict(0)" {
		t.Errorf("the zero verdict: %v, %v", v, err)
	}
	if err := v.UnmarshalText([]byte("maybe")); err == nil {
		t.Error("maybe is a verdict")
	}
}
