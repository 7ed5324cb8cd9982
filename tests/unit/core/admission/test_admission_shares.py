"""New pods of a workload of which a share is enforced."""

from __future__ import annotations

import json
from dataclasses import replace

from agent.core.admission.answer import AdmissionOutcome
from agent.core.orders import annotations as names
from agent.core.orders.enforce_share import TakenBack
from tests.admissions import NOW_UNIX_SECONDS, SHOP, admitted, estimate, new_pod, patched, resources
from tests.pods import container

APP = container("app", {"cpu": "500m", "memory": "300M"})
TENTH = {names.ENFORCE_SHARE: "10%"}
INSIDE, OUTSIDE = replace(SHOP, share_ticket=999), replace(SHOP, share_ticket=1000)


def test_a_pod_in_the_share_is_sized_and_keeps_its_ticket() -> None:
    document = new_pod(APP, orders=TENTH)
    admission = admitted(document, facts=INSIDE)
    assert (admission.outcome, admission.gave_ticket) == (AdmissionOutcome.PATCHED, True)
    done = patched(document, admission)
    assert resources(done)["requests"]["cpu"] == "300m"
    assert json.loads(done["metadata"]["annotations"][names.SHARE_TICKET]) == {
        "ticket": 999,
        "unixSeconds": int(NOW_UNIX_SECONDS),
    }


def test_a_pod_outside_of_it_comes_as_it_is_and_keeps_its_ticket_too() -> None:
    document = new_pod(APP, orders=TENTH)
    admission = admitted(document, facts=OUTSIDE)
    assert admission.outcome is AdmissionOutcome.EXCLUDED
    assert admission.why == "not in the enforced share of 10 % by the pod annotation"
    done = patched(document, admission)
    assert done["spec"] == document["spec"]
    assert set(done["metadata"]["annotations"]) == {names.MODE, names.ENFORCE_SHARE, names.SHARE_TICKET}


def test_asked_again_within_the_request_a_pod_keeps_the_ticket_it_was_given() -> None:
    for facts, other in ((INSIDE, OUTSIDE), (OUTSIDE, INSIDE)):
        document = new_pod(APP, orders=TENTH)
        done = patched(document, admitted(document, facts=facts))
        again = admitted(done, facts=other)
        assert not again.gave_ticket
        assert patched(done, again)["spec"] == done["spec"]


def test_a_ticket_that_a_template_brings_is_not_believed() -> None:
    old = json.dumps({"ticket": 0, "unixSeconds": int(NOW_UNIX_SECONDS) - 61})
    admission = admitted(new_pod(APP, orders={**TENTH, names.SHARE_TICKET: old}), facts=OUTSIDE)
    assert (admission.outcome, admission.gave_ticket) == (AdmissionOutcome.EXCLUDED, True)


def test_where_nobody_gives_tickets_the_uid_counts() -> None:
    # 5164 is the hash of uid-web.
    assert admitted(new_pod(APP, orders={names.ENFORCE_SHARE: "51.64%"})).outcome is AdmissionOutcome.EXCLUDED
    assert admitted(new_pod(APP, orders={names.ENFORCE_SHARE: "51.65%"})).outcome is AdmissionOutcome.PATCHED


def test_no_ticket_is_given_where_no_share_is_in_force() -> None:
    for mode, orders in (("enforce", {}), ("recommend", TENTH), ("off", TENTH)):
        admission = admitted(new_pod(APP, mode=mode, orders=orders), facts=INSIDE)
        assert not admission.gave_ticket
        assert names.SHARE_TICKET not in admission.annotations
    paused = admitted(new_pod(APP, orders=TENTH), facts=replace(INSIDE, pause_reason="an upgrade"))
    assert (paused.gave_ticket, dict(paused.annotations)) == (False, {})


def test_a_share_that_is_taken_back_sizes_nobody_until_another_is_ordered() -> None:
    facts = replace(INSIDE, share_taken_back=TakenBack(share="10 %", reason="3 restarts of 2 pods"))
    admission = admitted(new_pod(APP, orders=TENTH), facts=facts)
    assert admission.why == "the enforced share of 10 % is taken back: 3 restarts of 2 pods"
    assert admission.gave_ticket
    assert admitted(new_pod(APP, orders={names.ENFORCE_SHARE: "20%"}), facts=facts).moves
    assert admitted(new_pod(APP), facts=facts).moves


def test_a_ticket_goes_with_a_pod_of_which_nothing_is_known() -> None:
    document = new_pod(APP, orders=TENTH)
    admission = admitted(document, estimate(500, 300), facts=INSIDE)
    assert (admission.outcome, admission.gave_ticket) == (AdmissionOutcome.NOOP, True)
    assert names.SHARE_TICKET in patched(document, admission)["metadata"]["annotations"]
