"""The rules that a spec is held to without an API server are those of the CRD that the chart installs.

And a case may spell the core group as it likes: by its empty name, not at all, or by the word ``core``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.core.buffers.buffer import BUFFER_KIND, GROUP, INT32_MAX
from tests.conformance.capacity_buffer import ADAPTERS
from tests.conformance.capacity_buffer_schema import ONE_REFERENCE, SIZE_MISSING, spec_faults

CRD = Path(__file__).parents[2] / "charts" / "plimsoll" / "crds" / "capacitybuffers.yaml"
INT32_MIN = -INT32_MAX - 1


def spec_schema(version: str) -> dict[str, Any]:
    crd = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    assert (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (GROUP, BUFFER_KIND)
    (served,) = [entry for entry in crd["spec"]["versions"] if entry["name"] == version]
    schema: dict[str, Any] = served["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_rules_over_several_fields_say_the_same_words(version: str) -> None:
    messages = [rule["message"] for rule in spec_schema(version)["x-kubernetes-validations"]]
    both = {"podTemplateRef": {"name": "t"}, "scalableRef": {"kind": "Job", "name": "j"}}
    assert list(spec_faults(both, version)) == messages == [SIZE_MISSING, ONE_REFERENCE[version]]


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_fields_are_bounded_the_same(version: str) -> None:
    fields = spec_schema(version)["properties"]
    for key in ("replicas", "percentage"):
        assert (fields[key]["type"], fields[key]["format"], fields[key]["minimum"]) == ("integer", "int32", 0)
        verdicts = [not spec_faults({key: number}, version) for number in (INT32_MIN, -1, 0, INT32_MAX, INT32_MAX + 1)]
        assert verdicts == [False, False, True, True, False]
    for reference in ("podTemplateRef", "scalableRef"):
        schema = fields[reference]
        for name in schema["required"]:
            assert schema["properties"][name]["minLength"] == 1
        said = " ".join(spec_faults({reference: {}}, version))
        assert re.findall(rf"spec\.{reference}\.(\w+)", said) == sorted(schema["required"])


@pytest.mark.parametrize(
    "text", ["1", "-1", "+.5Gi", "1.e3", "1e-2", "1E1.5", "1k", "1K", "1 Gi", "", ".", "1Gib", "e3", "1\n"]
)
def test_quantities_are_the_same(text: str) -> None:
    limits = spec_schema("v1beta1")["properties"]["limits"]["additionalProperties"]
    # The API server's patterns end at the text's very end; in Python a $ would let a line end follow.
    is_allowed = re.search(limits["pattern"].replace("$", r"\Z"), text) is not None
    assert (not spec_faults({"limits": {"cpu": text}})) is is_allowed


@pytest.mark.parametrize("of_object", [{}, {"apiGroup": ""}, {"apiGroup": "core"}])
@pytest.mark.parametrize("of_reference", [{}, {"apiGroup": ""}, {"apiGroup": "core"}])
def test_the_core_group_of_a_case_may_be_spelt_by_its_word(
    of_reference: dict[str, str], of_object: dict[str, str]
) -> None:
    kind = {"kind": "ReplicationController"}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    known = {**of_object, **kind, "metadata": {"name": "rc"}, "spec": {"template": template, "replicas": 5}}
    buffer = {
        "metadata": {"name": "b"},
        "spec": {"percentage": 40, "scalableRef": {**of_reference, **kind, "name": "rc"}},
    }
    assert ADAPTERS["translate"]({"buffer": buffer, "cluster": {"scalables": [known]}})["replicas"] == 2
    known["kind"] = "Thing"
    assert ADAPTERS["translate"]({"buffer": buffer, "cluster": {"scalables": [known]}})["replicas"] is None
