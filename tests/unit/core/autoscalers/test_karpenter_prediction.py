"""What Karpenter takes a re-created pod to request, by our status, against what admission gives it.

The rules are those of ``computePrediction`` in Karpenter 1.15.0 (pkg/controllers/state/informer/vpa.go), told anew
here: containers that are off and resources that are not controlled are passed over, targets clamped, CPU boosted.
"""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.admission.answer import AdmissionFacts
from agent.core.autoscalers.vpa_orders import VpaSurroundings, vpa_orders
from agent.core.autoscalers.vpa_status import VpaView, status_of
from agent.core.autoscalers.written_pod import to_recommend, written_pod
from agent.core.cluster.node import Namespace
from agent.core.cluster.resource import Resource
from agent.core.cluster.vpa import VpaStatus
from agent.core.numbers.quantity import parse_quantity
from agent.core.numbers.units import to_millis, to_units
from agent.kube.objects.pod_json import pod_from_json
from agent.kube.objects.vpa_json import vpa_from_json
from tests.admissions import MB, NOW_UNIX_SECONDS, admitted, estimate, new_pod, patched, resources
from tests.pods import container
from tests.vpas import vpa_json

APP = container("app", {"cpu": "500m", "memory": "300M"}, {"memory": "600M"})
PROXY = container("proxy", {"cpu": "100m", "memory": "50M"})
BOOST = {"cpu": {"type": "Factor", "factor": 3}}
MORE = {"cpu": {"type": "Quantity", "quantity": "250m", "durationSeconds": 30}}

Requests = dict[str, dict[Resource, int]]


def amount(resource: Resource, text: Any) -> int:
    nanos = parse_quantity(str(text))
    return to_millis(nanos) if resource is Resource.CPU else to_units(nanos)


def predicted(spec: dict[str, Any], status: VpaStatus) -> Requests:
    """Return what Karpenter expects of each container; one that is missing keeps what its spec says."""
    if spec.get("updatePolicy", {}).get("updateMode") == "Off":
        return {}
    policies = spec.get("resourcePolicy", {}).get("containerPolicies", [])
    by_container: Requests = {}
    for advice in status.containers:
        own = next((policy for policy in policies if policy["containerName"] == advice.container), None)
        policy: dict[str, Any] = own or next((policy for policy in policies if policy["containerName"] == "*"), {})
        if policy.get("mode") == "Off":
            continue
        controlled = policy.get("controlledResources", ["cpu", "memory"])
        requests = {}
        for resource, target in advice.target.items():
            if resource.value not in controlled:
                continue
            least, most = (policy.get(key, {}).get(resource.value) for key in ("minAllowed", "maxAllowed"))
            if least is not None and target < amount(resource, least):
                requests[resource] = amount(resource, least)
            elif most is not None and target > amount(resource, most):
                requests[resource] = amount(resource, most)
            else:
                requests[resource] = target
            boost = (policy.get("startupBoost") or spec.get("startupBoost") or {}).get("cpu")
            if resource is Resource.CPU and boost is not None:
                if boost["type"] == "Factor":
                    requests[resource] *= boost["factor"]
                else:
                    requests[resource] += amount(resource, boost["quantity"])
        by_container[advice.container] = requests
    return by_container


def of(*policies: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"updatePolicy": {"updateMode": "InPlace"}, "resourcePolicy": {"containerPolicies": list(policies)}, **spec}


@pytest.mark.parametrize(
    "spec",
    [
        of(),
        of({"containerName": "app", "minAllowed": {"cpu": "700m", "memory": "400Mi"}}),
        of({"containerName": "*", "maxAllowed": {"cpu": "200m", "memory": "128Mi"}}),
        of({"containerName": "app", "mode": "Off"}),
        of({"containerName": "app", "controlledResources": ["cpu"]}, {"containerName": "*", "mode": "Off"}),
        of({"containerName": "*", "controlledResources": ["memory"], "minAllowed": {"memory": "1Gi"}}),
        of({"containerName": "app", "controlledValues": "RequestsOnly"}),
        of({"containerName": "app", "oomBumpUpRatio": "2"}),
        of(startupBoost=BOOST),
        of(startupBoost=MORE),
        of({"containerName": "app", "startupBoost": MORE}),
        of({"containerName": "app", "minAllowed": {"cpu": "700m"}}, startupBoost=BOOST),
        {"updatePolicy": {"updateMode": "Initial"}},
        {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}},
        {"updatePolicy": {"updateMode": "Off"}},
        {"updatePolicy": {"updateMode": "Recreate"}},
    ],
)
def test_a_recreated_pod_requests_what_karpenter_expects(spec: dict[str, Any]) -> None:
    orders = vpa_orders(vpa_from_json(vpa_json(spec)), VpaSurroundings(are_evictions_on=True))
    facts = AdmissionFacts(namespace=Namespace(name="shop"), autoscaler=orders.at_admission)
    known = {
        "app": estimate(900, 350, cpu_max_millicores=950, oom_memory_bytes=380 * MB),
        "proxy": estimate(40, 90),
    }
    document = new_pod(APP, PROXY, mode=None)
    real = admitted(document, known, facts=facts)
    assert real.orders is not None
    pod = written_pod(pod_from_json(document))
    asked = to_recommend(pod, real.orders.mode)
    forced = {**document, "metadata": {**document["metadata"], "annotations": dict(asked.annotations)}}
    view = VpaView(orders=orders, pod=pod, admission=admitted(forced, known, facts=facts), standing=real)
    status = status_of(view, now_unix_seconds=NOW_UNIX_SECONDS)
    done = patched(document, real)
    expected = predicted(spec, status)
    for name, template in (("app", APP), ("proxy", PROXY)):
        requests = {**template["resources"]["requests"], **resources(done, name)["requests"]}
        has = {resource: amount(resource, requests[resource.value]) for resource in Resource}
        wanted = {
            resource: amount(resource, template["resources"]["requests"][resource.value]) for resource in Resource
        }
        assert has == {**wanted, **expected.get(name, {})}, (name, expected)
