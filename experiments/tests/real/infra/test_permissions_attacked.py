"""A user of EC2, and a machine, with the policies of `infra/account`: what each of them needs is
let through, and what would lead to more is refused. Two evaluators say so (`iam.py`)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from botocore.loaders import create_loader  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from experiments.paths import ROOT
from experiments.tests import iam_documented
from experiments.tests.aws_calls import KINDS
from experiments.tests.iam import Policy, allows, mapper_allows, read
from experiments.tests.iam_attacks import (
    ACCOUNT,
    ASKED,
    ATTACKS,
    EC2,
    FLEETS,
    GROUP,
    IAM,
    IN_S3,
    INSTANCE,
    NEEDED,
    OTHER,
    OURS,
    ROLE,
    THEIRS,
    TO_EC2,
    One,
)
from experiments.tests.iam_documented import listed
from random_tests import examples

FOLDER = ROOT / "infra" / "account"
USER = read(*sorted(FOLDER.glob("user-*.json")))
ATTACKS_MIN = 60


def _is_allowed(policies: list[Policy], authorisation: One) -> bool:
    return allows(policies, authorisation.action, authorisation.resource, authorisation.keys)


@pytest.mark.parametrize("wish", NEEDED)
def test_what_a_fleet_needs_is_allowed(wish: str) -> None:
    assert [
        authorisation for authorisation in NEEDED[wish] if not _is_allowed(USER, authorisation)
    ] == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused(attack: str) -> None:
    assert not all(_is_allowed(USER, authorisation) for authorisation in ATTACKS[attack])


def test_there_are_as_many_attacks_as_are_promised() -> None:
    assert len(ATTACKS) >= ATTACKS_MIN


def _statements(policies: list[Policy]) -> Iterator[Mapping[str, Any]]:
    for policy in policies:
        yield from (
            statement for statement in policy["Statement"] if statement["Effect"] == "Allow"
        )


def test_an_action_is_named_whole_so_that_one_that_aws_adds_is_not_allowed() -> None:
    actions = [action for statement in _statements(USER) for action in listed(statement["Action"])]
    assert [action for action in actions if "*" in action or "?" in action] == []
    assert [statement["Sid"] for statement in _statements(USER) if "NotAction" in statement] == []


# Resources that are the user's own by tag and name.
_OWN = {
    "ec2": [f"{EC2}:{kind}/x-1" for kind in ("instance", "launch-template", "subnet", "volume")],
    "autoscaling": [f"{GROUP}/sc-shop-web-1"],
    "iam": [f"{ROLE}-machine", f"{IAM}:instance-profile/sparecraft/sparecraft-machine"],
    "s3": [FLEETS, f"{FLEETS}/vpc-1/keys"],
    "ssm": [f"{EC2}:instance/i-1"],
    "sts": [f"{ROLE}-machine"],
}  # fmt: skip


@pytest.mark.parametrize("service", _OWN)
def test_of_all_that_aws_can_do_to_what_is_ours_only_what_is_listed_is_allowed(
    service: str,
) -> None:
    """Every operation of the service, by botocore's description of it."""
    model = create_loader().load_service_model(service, "service-2")
    allowed = {action for statement in _statements(USER) for action in listed(statement["Action"])}
    names = {f"{service}:{operation}" for operation in model["operations"]}
    assert len(names) > len(names & allowed)
    for name in sorted(names - allowed):
        for resource in _OWN[service]:
            authorisation = One(name, resource, {**OURS, **ASKED, **IN_S3, **TO_EC2})
            assert not _is_allowed(USER, authorisation), name


def test_a_condition_asks_for_what_aws_says_of_the_action() -> None:
    """A key that AWS does not fill in refuses everything or, with IfExists, allows everything."""
    global_keys = {"aws:principalaccount", "aws:requestedregion", "aws:resourceaccount"}
    global_keys |= {"aws:securetransport", "aws:userid"}
    unfilled = [
        (statement["Sid"], action, key)
        for statement in _statements([*USER, *_ROLES.values()])
        for action in listed(statement["Action"])
        for key in {
            key for condition in statement.get("Condition", {}).values() for key in condition
        }
        if key.lower() not in global_keys and not _is_told(action, key, statement)
    ]
    # AWS fills this key in too, as its page on the key says; its list of keys lacks it.
    assert unfilled == [
        ("ShellOnTheLoadMachine", "ssm:StartSession", "ssm:SessionDocumentAccessCheck")
    ]


def _is_told(action: str, key: str, statement: Mapping[str, Any]) -> bool:
    """Return whether AWS fills the key in for a kind of resource that the statement names."""
    plain_key = key.split("/")[0].lower() + ("/" if "/" in key else "")
    resources = listed(statement["Resource"])
    named_kinds = {
        resource.split(":", 5)[5].split("/")[0] for resource in resources if resource != "*"
    }
    for kind, keys in KINDS[action].items():
        name = kind.rstrip("*")
        of_arn = name in named_kinds or not name or "*" in resources
        if (of_arn or not action.startswith("ec2:")) and plain_key in {
            known_key.lower() for known_key in keys
        }:
            return True
    return False


# The roles of machines.

_ROLES: dict[str, Policy] = {
    name: read(FOLDER / f"role-{name}.json")[0] for name in ("machine", "load", "runner", "end")
}
_OF_ROLE = {
    "machine": [_ROLES["machine"]],
    "load": [_ROLES["machine"], _ROLES["load"]],
    "runner": [_ROLES["machine"], _ROLES["load"], _ROLES["runner"]],
    "end": [_ROLES["end"]],
}
_AT_I_1 = {"aws:Ec2InstanceSourceVpc": "vpc-1", "aws:userid": "AROAEXAMPLE:i-1"}
_SELF = {**OURS, "ec2:InstanceID": "i-1"}
_IN_VPC_1 = {**OURS, "ec2:Vpc": f"{EC2}:vpc/vpc-1"}
_OF_VPC_1 = {**OURS, "aws:ResourceTag/sparecraft:vpc": "vpc-1"}
_OF_VPC_2 = {**OURS, "aws:ResourceTag/sparecraft:vpc": "vpc-2"}
_FAR = f"arn:aws:ec2:ap-east-1:{ACCOUNT}"

_ROLE_MAY = [
    ("machine", One("s3:GetObject", f"{FLEETS}/vpc-1/sparecraft.tar.gz", IN_S3)),
    ("machine", One("s3:GetObject", f"{FLEETS}/vpc-1/machines/0a1b.json", IN_S3)),
    ("machine", One("ec2:AttachNetworkInterface", f"{EC2}:instance/i-1", _SELF)),
    ("machine", One("ec2:AttachNetworkInterface", f"{EC2}:network-interface/eni-1", _IN_VPC_1)),
    ("load", One("ssmmessages:OpenDataChannel", "*")),
    ("runner", One("ec2:StopInstances", f"{EC2}:instance/i-2", _OF_VPC_1)),
    (
        "runner",
        One("autoscaling:TerminateInstanceInAutoScalingGroup", f"{GROUP}/sc-shop-web-1", _OF_VPC_1),
    ),
    ("runner", One("ec2:DescribeInstances", "*")),
    ("end", One("ec2:TerminateInstances", f"{EC2}:instance/i-1", OURS)),
]

_ROLE_ATTACKS = {
    "read another fleet's files": (
        "machine",
        One("s3:GetObject", f"{FLEETS}/vpc-2/machines/0a1b.json", IN_S3),
    ),
    "list files, to find another's settings": ("machine", One("s3:ListBucket", FLEETS, IN_S3)),
    "read what passes to and from the runner": (
        "machine",
        One("s3:GetObject", f"{FLEETS}/vpc-1/away/1/results.tar.gz", IN_S3),
    ),
    "write to the bucket": ("runner", One("s3:PutObject", f"{FLEETS}/vpc-1/expires", IN_S3)),
    "read in clear": (
        "machine",
        One("s3:GetObject", f"{FLEETS}/vpc-1/expires", {**IN_S3, "aws:SecureTransport": "false"}),
    ),
    "read from a bucket of another account": (
        "machine",
        One("s3:GetObject", f"{FLEETS}/vpc-1/expires", {**IN_S3, "aws:ResourceAccount": OTHER}),
    ),
    "take another fleet's interface": (
        "machine",
        One(
            "ec2:AttachNetworkInterface",
            f"{EC2}:network-interface/eni-2",
            {**OURS, "ec2:Vpc": f"{EC2}:vpc/vpc-2"},
        ),
    ),
    "give an interface to another machine": (
        "machine",
        One("ec2:AttachNetworkInterface", f"{EC2}:instance/i-2", {**OURS, "ec2:InstanceID": "i-2"}),
    ),
    "stop a machine": ("machine", One("ec2:StopInstances", f"{EC2}:instance/i-2", _OF_VPC_1)),
    "look at the account": ("machine", One("ec2:DescribeInstances", "*")),
    "open a channel for shells": ("machine", One("ssmmessages:OpenDataChannel", "*")),
    "stop another fleet's machine": (
        "runner",
        One("ec2:StopInstances", f"{EC2}:instance/i-9", _OF_VPC_2),
    ),
    "stop a stranger's machine": (
        "runner",
        One("ec2:StopInstances", f"{EC2}:instance/i-9", THEIRS),
    ),
    "end a machine for good": (
        "runner",
        One("ec2:TerminateInstances", f"{EC2}:instance/i-2", _OF_VPC_1),
    ),
    "end a machine in another region": (
        "end",
        One("ec2:TerminateInstances", f"{_FAR}:instance/i-1", OURS, "ap-east-1"),
    ),
    "stop a machine in another region": (
        "runner",
        One("ec2:StopInstances", f"{_FAR}:instance/i-1", _OF_VPC_1, "ap-east-1"),
    ),
    "end a stranger's machine": (
        "end",
        One("ec2:TerminateInstances", f"{EC2}:instance/i-9", THEIRS),
    ),
    "start machines of its own": ("runner", One("ec2:RunInstances", f"{EC2}:instance/*", INSTANCE)),
    "make users": ("runner", One("iam:CreateAccessKey", f"{IAM}:user/admin")),
    "pass a role": ("runner", One("iam:PassRole", f"{ROLE}-runner", TO_EC2)),
    "become another role": ("runner", One("sts:AssumeRole", f"{IAM}:role/admin")),
    "read the account's parameters": (
        "load",
        One("ssm:GetParameters", f"arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter/db"),
    ),
    "tag machines": ("runner", One("ec2:CreateTags", f"{EC2}:instance/i-1", {**OURS, **ASKED})),
}


@pytest.mark.parametrize(
    ("role", "one"), _ROLE_MAY, ids=lambda value: getattr(value, "action", value)
)
def test_a_machine_may_what_it_needs(role: str, one: One) -> None:
    assert allows(_OF_ROLE[role], one.action, one.resource, {**one.keys, **_AT_I_1})


@pytest.mark.parametrize("attack", _ROLE_ATTACKS)
def test_an_attack_by_a_machine_is_refused(attack: str) -> None:
    role, authorisation = _ROLE_ATTACKS[attack]
    assert not allows(
        _OF_ROLE[role],
        authorisation.action,
        authorisation.resource,
        {**authorisation.keys, **_AT_I_1},
    )


def test_a_role_whose_credentials_are_used_outside_a_machine_reaches_nothing_of_a_fleet() -> None:
    """A key that AWS fills in for an instance's credentials only is in each of these."""
    for role, authorisation in _ROLE_MAY:
        if role in ("machine", "runner") and authorisation.resource != "*":
            keys = {**authorisation.keys, "aws:userid": "AROAEXAMPLE:me"}
            assert not allows(_OF_ROLE[role], authorisation.action, authorisation.resource, keys), (
                authorisation
            )


# The evaluators.

_KEYS = ("aws:RequestTag/a", "aws:ResourceTag/a", "aws:TagKeys", "ec2:VolumeSize", "ec2:Encrypted")


def _drawn_policy(rng: random.Random) -> Policy:
    return {"Version": "2012-10-17", "Statement": [_drawn(rng) for _ in range(rng.randint(1, 4))]}


def _drawn(rng: random.Random) -> dict[str, Any]:
    action = rng.sample(["ec2:Run*", "ec2:RunInstances", "s3:Get?bject", "*", "s3:*"], 2)
    resource = rng.sample(["*", "arn:a/*", "arn:a/b", "arn:?/b", "arn:${aws:RequestTag/a}/b"], 2)
    statement = {"Effect": rng.choice(["Allow", "Allow", "Deny"])}
    return {
        **statement,
        rng.choice(["Action", "Action", "NotAction"]): action,
        "Resource": resource,
        "Condition": {
            operator: {_key(rng, operator): _wanted(rng, operator)}
            for operator in rng.sample(_OPERATORS, rng.randint(0, 2))
        },
    }


# Without IfExists of numeric operators, which Principal Mapper evaluates to false, and without
# resources that differ by case, which it takes for equal.
_OPERATORS = [
    "StringEquals",
    "StringEqualsIfExists",
    "StringNotEquals",
    "StringLike",
    "StringEqualsIgnoreCase",
    "ForAllValues:StringEquals",
    "ForAllValues:StringLike",
    "Bool",
    "BoolIfExists",
    "Null",
    "NumericLessThanEquals",
    "NumericGreaterThan",
]


def _key(rng: random.Random, operator: str) -> str:
    if "Numeric" in operator:
        return "ec2:VolumeSize"
    if "Bool" in operator:
        return "ec2:Encrypted"
    return "aws:TagKeys" if "ForAll" in operator else rng.choice(_KEYS[:2])


def _wanted(rng: random.Random, operator: str) -> str | list[str]:
    if operator == "Null" or "Bool" in operator:
        return rng.choice(["true", "false"])
    if "Numeric" in operator:
        return rng.choice(["8", "200"])
    return rng.sample(["a", "b", "a*", "?", "AB"], 2)


@examples(800)
@given(st.randoms(use_true_random=False))
def test_two_evaluators_agree_on_policies_that_were_drawn(rng: random.Random) -> None:
    policy = _drawn_policy(rng)
    context: dict[str, str | list[str]] = {
        key: rng.choice(["a", "b", "ab", "AB"]) for key in _KEYS[:2] if rng.random() < 0.7
    }
    if rng.random() < 0.7:
        context["aws:TagKeys"] = rng.sample(["a", "b", "ab"], rng.randint(1, 3))
    if rng.random() < 0.7:
        context["ec2:VolumeSize"] = rng.choice(["7", "8", "201"])
    if rng.random() < 0.7:
        context["ec2:Encrypted"] = rng.choice(["true", "false"])
    action = rng.choice(["ec2:RunInstances", "s3:GetObject", "S3:getobject", "iam:Get"])
    resource = rng.choice(["arn:a/b", "arn:b/b", "arn:a/c"])
    documented = iam_documented.allows([policy], action, resource, context)
    assert documented == mapper_allows([policy], action, resource, context)
