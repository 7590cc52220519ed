package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// For each directory, the output of kustomize must match the Kubernetes schema. Fields must not be
// unknown or missing, and their types must be right. kustomize contains the schema, so the test
// downloads nothing.
func TestManifestsAreValid(t *testing.T) {
	for dir, want := range map[string][]string{
		"single":  {"ConfigMap", "Service", "StatefulSet"},
		"cluster": {"ConfigMap", "Deployment", "PodDisruptionBudget", "Service"},
	} {
		t.Run(dir, func(t *testing.T) {
			made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "kubernetes/"+dir)
			require.NoError(t, err)
			var kinds []string
			for _, r := range made.Resources() {
				text, err := r.AsYAML()
				require.NoError(t, err)
				assert.Empty(t, wrongIn(t, string(text)), r.GetKind())
				kinds = append(kinds, r.GetKind())
				checkPod(t, r.GetKind(), string(text))
			}
			assert.ElementsMatch(t, want, kinds)
		})
	}
}

// checkPod checks rules for pods that the schema does not contain.
func checkPod(t *testing.T, kind, text string) {
	object := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	template, found := at(object, "spec", "template", "spec").(map[string]any)
	if !found {
		return
	}
	container := at(template, "containers").([]any)[0].(map[string]any) //nolint:forcetypeassert // the schema says so
	understands(t, stringsOf(at(container, "args")))
	for what, value := range map[string]any{
		"runAsNonRoot":    at(template, "securityContext", "runAsNonRoot"),
		"read-only":       at(container, "securityContext", "readOnlyRootFilesystem"),
		"readiness probe": at(container, "readinessProbe", "httpGet", "path") == "/ready",
		"liveness probe":  at(container, "livenessProbe", "httpGet", "path") == "/health",
	} {
		assert.Equal(t, true, value, "%s: %s", kind, what)
	}
	assert.Equal(t, []any{"ALL"}, at(container, "securityContext", "capabilities", "drop"), kind)
	// Each mount must refer to a volume.
	volumes := map[any]bool{}
	for _, list := range []any{at(template, "volumes"), at(object, "spec", "volumeClaimTemplates")} {
		all, _ := list.([]any)
		for _, v := range all {
			volume := v.(map[string]any) //nolint:forcetypeassert // the schema says so
			volumes[volume["name"]] = true
			volumes[at(volume, "metadata", "name")] = true
		}
	}
	mounts, _ := at(container, "volumeMounts").([]any)
	assert.NotEmpty(t, mounts)
	for _, m := range mounts {
		assert.True(t, volumes[at(m, "name")], "%s: %v", kind, m)
	}
}

// at returns the value at a path, or nil if it does not exist.
func at(value any, path ...string) any {
	for _, name := range path {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	return value
}

func stringsOf(value any) (all []string) {
	list, _ := value.([]any)
	for _, v := range list {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

// TestSchemaFindsMistakes verifies that the schema check detects errors.
func TestSchemaFindsMistakes(t *testing.T) {
	const right = `apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template:
    spec:
      containers:
        - {name: c, ports: [{containerPort: 1}]}
`
	assert.Empty(t, wrongIn(t, right))
	for _, c := range []struct{ old, new, want string }{
		{"replicas: 2", "replica: 2", "spec.replica is not known"},
		{"replicas: 2", "replicas: two", "spec.replicas is string, not integer"},
		{"  selector: {matchLabels: {a: b}}\n", "", "spec.selector is missing"},
		{"containerPort", "port", "spec.template.spec.containers[0].ports[0].port is not known"},
		{"{a: b}", "{a: 1}", "spec.selector.matchLabels.a is integer, not string"},
		{"- {name: c", "- {nam: c", "spec.template.spec.containers[0].nam is not known"},
		{"kind: Deployment", "kind: Deploy", "there is no kind Deploy of apps/v1"},
	} {
		assert.Contains(t, wrongIn(t, strings.Replace(right, c.old, c.new, 1)), c.want)
	}
}

// wrongIn returns the violations of the schema in a Kubernetes object.
func wrongIn(t *testing.T, text string) []string {
	t.Helper()
	var object map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	kind := yaml.TypeMeta{APIVersion: fmt.Sprint(object["apiVersion"]), Kind: fmt.Sprint(object["kind"])}
	schema := openapi.SchemaForResourceType(kind)
	if schema == nil {
		return []string{fmt.Sprintf("there is no kind %s of %s", kind.Kind, kind.APIVersion)}
	}
	return wrongValue(schema, "", object)
}

// wrongValue returns the violations of a schema in a value. The package kyaml resolves the
// references in the schema. A nil schema accepts any value.
func wrongValue(schema *openapi.ResourceSchema, path string, value any) (wrong []string) {
	kind, members, items := typeOf(value)
	want := "object"
	if len(schema.Schema.Type) > 0 {
		want = schema.Schema.Type[0]
	}
	intOrString := schema.Schema.Format == "int-or-string" && (kind == "integer" || kind == "string")
	quantity := strings.HasSuffix(path, "memory") || strings.HasSuffix(path, "cpu")
	if kind != want && !intOrString && !(quantity && kind == "integer") {
		return []string{fmt.Sprintf("%s is %s, not %s", path, kind, want)}
	}
	for _, name := range schema.Schema.Required {
		if _, found := members[name]; !found {
			wrong = append(wrong, strings.TrimPrefix(path+"."+name+" is missing", "."))
		}
	}
	for name, member := range members {
		inner := strings.TrimPrefix(path+"."+name, ".")
		if field := schema.Field(name); field != nil {
			wrong = append(wrong, wrongValue(field, inner, member)...)
		} else if len(schema.Schema.Properties) > 0 {
			wrong = append(wrong, inner+" is not known")
		}
	}
	for i, item := range items {
		if of := schema.Elements(); of != nil {
			wrong = append(wrong, wrongValue(of, fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// typeOf returns the type of a value in terms of the schema, and the fields or elements of the value.
func typeOf(value any) (kind string, members map[string]any, items []any) {
	switch v := value.(type) {
	case map[string]any:
		return "object", v, nil
	case []any:
		return "array", nil, v
	case string:
		return "string", nil, nil
	case bool:
		return "boolean", nil, nil
	case int:
		return "integer", nil, nil
	}
	return fmt.Sprintf("%T", value), nil, nil
}
