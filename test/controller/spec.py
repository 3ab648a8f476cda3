"""spec.py: controller/openapi.yaml as a judge of answers, and the list of what of it has been seen. Of JSON Schema it
knows what the file uses, and refuses the rest."""
import json
import os
import re

import yaml

SOURCE = os.environ.get("SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
with open(os.path.join(SOURCE, "controller", "openapi.yaml"), encoding="utf-8") as file:
    FILE = yaml.safe_load(file)

METHODS = ("get", "post", "put", "delete", "patch")
# What info.description says of all paths.
ANYWHERE = {405: "Error", 421: "Error", 503: "Error"}
seen = set()


def resolve(node):
    while "$ref" in node:
        at = FILE
        for part in node["$ref"].lstrip("#/").split("/"):
            at = at[part]
        node = at
    return node


def operations():
    """(METHOD, path): the operation. Those of a named queue are the same objects as those of the default one."""
    for path, item in FILE["paths"].items():
        for method in METHODS:
            if method in item:
                yield (method.upper(), path), item[method]


def find(method, path):
    for (its_method, form), operation in operations():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(form))
        if its_method == method and re.fullmatch(pattern, path):
            return operation
    return None


class Wrong(AssertionError):
    pass


def is_type(value, name):
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool}
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kinds[name])


KNOWN = {"type", "nullable", "enum", "pattern", "format", "description", "required", "properties", "items",
         "additionalProperties", "minItems", "minLength", "maxLength", "minimum", "maximum", "default", "oneOf"}


def fits(value, schema, where):
    """Raises Wrong where the value is not of this schema."""
    schema = resolve(schema)
    unknown = set(schema) - KNOWN
    if unknown:
        raise Wrong("%s: spec.py does not know %s" % (where, unknown))
    if value is None:
        if not schema.get("nullable"):
            raise Wrong("%s is null" % where)
        return
    if "type" in schema and not is_type(value, schema["type"]):
        raise Wrong("%s is %r, and not of type %s" % (where, value, schema["type"]))
    if "enum" in schema and value not in schema["enum"]:
        raise Wrong("%s is %r" % (where, value))
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise Wrong("%s is %r" % (where, value))
    if schema.get("format") == "date-time" and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value):
        raise Wrong("%s is no time: %r" % (where, value))
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                raise Wrong("%s has no %s" % (where, name))
        for name, inner in value.items():
            if name in properties:
                fits(inner, properties[name], "%s.%s" % (where, name))
            elif schema.get("additionalProperties", True) is False:
                raise Wrong("%s has a %s, which is not in the file" % (where, name))
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            raise Wrong("%s has %d items" % (where, len(value)))
        for i, item in enumerate(value):
            fits(item, schema.get("items", {}), "%s[%d]" % (where, i))


def check_body(response, answer, where):
    content = response.get("content")
    if not content:
        if answer.body:
            raise Wrong("%s has a body: %s" % (where, answer.body))
        return
    kind = answer.headers.get("content-type", "").split(";")[0]
    if kind not in content:
        raise Wrong("%s is %s" % (where, kind))
    schema = content[kind]["schema"]
    if kind == "application/json":
        fits(answer.json, schema, where)
    elif kind == "application/x-ndjson":
        for line in answer.body.splitlines():
            fits(json.loads(line), schema, where)


def check(method, path, answer):
    operation = find(method, path)
    where = "%s %s: %d" % (method, path, answer.code)
    if operation is None or str(answer.code) not in operation["responses"]:
        error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
        if answer.code not in ANYWHERE and not (operation is None and answer.code == 404):
            raise Wrong("%s is not in the file: %s" % (where, answer.body))
        check_body(error, answer, where)
        return
    response = resolve(operation["responses"][str(answer.code)])
    check_body(response, answer, where)
    for name in response.get("headers", {}):
        if name.lower() not in answer.headers:
            raise Wrong("%s has no header %s" % (where, name))
    kind = answer.headers.get("content-type", "").split(";")[0]
    seen.add((id(operation), str(answer.code), kind))


def missing():
    """What the file promises and no answer has shown."""
    for (method, path), operation in operations():
        for code, response in operation["responses"].items():
            for kind in resolve(response).get("content", {"": None}):
                if (id(operation), code, kind) not in seen:
                    yield "%s %s: %s %s" % (method, path, code, kind)
