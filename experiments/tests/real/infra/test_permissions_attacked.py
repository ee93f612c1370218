"""A user of EC2, and a machine, with the policies of `infra/account`: what each of them needs is
let through, and what would lead to more is refused. A real evaluator says so (`iam.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from experiments.paths import ROOT
from experiments.tests.iam import allows, allows_within, read

ACCOUNT = ROOT / "infra" / "account"
USER = read(*sorted(ACCOUNT.glob("user-*.json")))
(BOUNDARY,) = read(ACCOUNT / "boundary.json")

_EC2 = "arn:aws:ec2:eu-west-1:111122223333"
_IAM = "arn:aws:iam::111122223333"
_ROLE = f"{_IAM}:role/sparecraft/sc-shop-web-1"
_GROUP = "arn:aws:autoscaling:eu-west-1:111122223333:autoScalingGroup:u:autoScalingGroupName"
_SCHEDULE = "arn:aws:scheduler:eu-west-1:111122223333:schedule"

OURS = {"aws:ResourceTag/sparecraft:experiment": "shop"}
ASKED = {"aws:RequestTag/sparecraft:experiment": "shop"}
THEIRS = {"aws:ResourceTag/team": "billing"}
BOUND = {"iam:PermissionsBoundary": f"{_IAM}:policy/sparecraft-boundary"}
SMALL = {"ec2:InstanceType": "t3.small"}
NEW = {"ec2:AssociatePublicIpAddress": "true"}


@dataclass(frozen=True)
class One:
    """An authorisation that a call needs: a call of several resources needs several."""

    action: str
    resource: str
    context: Mapping[str, str | list[str]] = field(default_factory=dict)
    region: str = "eu-west-1"

    @property
    def allowed(self) -> bool:
        return allows(
            USER, self.action, self.resource, {"aws:RequestedRegion": self.region, **self.context}
        )


def _run(changed: Mapping[str, One] | None = None) -> list[One]:
    """RunInstances as the stack calls it, with some of it changed."""
    needs = {
        "instance": One("ec2:RunInstances", f"{_EC2}:instance/*", {**ASKED, **SMALL}),
        "volume": One("ec2:RunInstances", f"{_EC2}:volume/*", ASKED),
        "interface": One("ec2:RunInstances", f"{_EC2}:network-interface/*", NEW),
        "subnet": One("ec2:RunInstances", f"{_EC2}:subnet/subnet-1", OURS),
        "group": One("ec2:RunInstances", f"{_EC2}:security-group/sg-1", OURS),
        "image": One(
            "ec2:RunInstances", "arn:aws:ec2:eu-west-1::image/ami-1", {"ec2:Owner": "136693071363"}
        ),
        "role": One("iam:PassRole", _ROLE, {"iam:PassedToService": "ec2.amazonaws.com"}),
        "tags": One(
            "ec2:CreateTags", f"{_EC2}:instance/*", {**ASKED, "ec2:CreateAction": "RunInstances"}
        ),
    }
    return list({**needs, **(changed or {})}.values())


def _tagging(resource: str, keys: list[str], *contexts: Mapping[str, str]) -> list[One]:
    context: dict[str, str | list[str]] = {"aws:TagKeys": keys}
    for one in contexts:
        context |= one
    return [One("ec2:CreateTags", f"{_EC2}:{resource}", context)]


NEEDED: dict[str, list[One]] = {
    "a machine": _run(),
    "a VPC": [One("ec2:CreateVpc", f"{_EC2}:vpc/*", ASKED)],
    "a subnet of it": [
        One("ec2:CreateSubnet", f"{_EC2}:subnet/*", ASKED),
        One("ec2:CreateSubnet", f"{_EC2}:vpc/vpc-1", OURS),
    ],
    "a security group's rule": [
        One("ec2:AuthorizeSecurityGroupIngress", f"{_EC2}:security-group/sg-1", OURS),
        One("ec2:AuthorizeSecurityGroupIngress", f"{_EC2}:security-group-rule/*", ASKED),
    ],
    "an interface": [
        One("ec2:CreateNetworkInterface", f"{_EC2}:network-interface/*", ASKED),
        One("ec2:CreateNetworkInterface", f"{_EC2}:subnet/subnet-1", OURS),
        One("ec2:CreateNetworkInterface", f"{_EC2}:security-group/sg-1", OURS),
    ],
    "a later end, as a tag": _tagging("instance/i-1", ["sparecraft:expires"], OURS, ASKED),
    "a group of one": [
        One(
            "autoscaling:CreateAutoScalingGroup",
            f"{_GROUP}/sc-shop-web-1",
            {
                **ASKED,
                "autoscaling:MaxSize": "1",
                "autoscaling:LaunchTemplateVersionSpecified": "true",
            },
        )
    ],
    "a role within the boundary": [
        One("iam:CreateRole", _ROLE, BOUND),
        One("iam:PutRolePolicy", _ROLE, BOUND),
    ],
    "the end from outside": [
        One("scheduler:CreateSchedule", f"{_SCHEDULE}/sc-shop/sc-shop-db-1"),
        One("iam:PassRole", _ROLE, {"iam:PassedToService": "scheduler.amazonaws.com"}),
    ],
    "the bundle": [One("s3:PutObject", "arn:aws:s3:::sc-shop-1/sparecraft.tar.gz")],
    "an end by hand": [One("ec2:TerminateInstances", f"{_EC2}:instance/i-1", OURS)],
    "a shell on the load machine": [
        One(
            "ssm:StartSession",
            f"{_EC2}:instance/i-1",
            {
                "aws:ResourceTag/sparecraft:role": "load",
                "ssm:SessionDocumentAccessCheck": "true",
            },
        )
    ],
    "a run on the load machine": [
        One(
            "ssm:SendCommand",
            f"{_EC2}:instance/i-1",
            {"aws:ResourceTag/sparecraft:role": "load"},
        ),
        One("ssm:SendCommand", "arn:aws:ssm:eu-west-1::document/AWS-RunShellScript"),
        One("ssm:GetCommandInvocation", "*"),
    ],
}

ATTACKS: dict[str, list[One]] = {
    # To administrator.
    "attach a policy of AWS to a role": [One("iam:AttachRolePolicy", _ROLE, BOUND)],
    "attach a policy of AWS to oneself": [One("iam:AttachUserPolicy", f"{_IAM}:user/me")],
    "write a policy for oneself": [One("iam:PutUserPolicy", f"{_IAM}:user/me")],
    "a role without a boundary": [One("iam:CreateRole", _ROLE)],
    "a role with a boundary of one's own": [
        One("iam:CreateRole", _ROLE, {"iam:PermissionsBoundary": f"{_IAM}:policy/mine"})
    ],
    "more rights for a role without the boundary": [One("iam:PutRolePolicy", _ROLE)],
    "take the boundary off": [One("iam:DeleteRolePermissionsBoundary", _ROLE, BOUND)],
    "another boundary for a role": [One("iam:PutRolePermissionsBoundary", _ROLE, BOUND)],
    "change what the boundary says": [
        One("iam:CreatePolicyVersion", f"{_IAM}:policy/sparecraft-boundary")
    ],
    "let oneself assume a role": [One("iam:UpdateAssumeRolePolicy", _ROLE, BOUND)],
    "assume another's role": [One("sts:AssumeRole", f"{_IAM}:role/admin")],
    "pass another's role to a machine": [
        One("iam:PassRole", f"{_IAM}:role/admin", {"iam:PassedToService": "ec2.amazonaws.com"})
    ],
    "pass a role that is only called like ours": [
        One("iam:PassRole", f"{_IAM}:role/sc-admin", {"iam:PassedToService": "ec2.amazonaws.com"})
    ],
    "pass a role to another service": [
        One("iam:PassRole", _ROLE, {"iam:PassedToService": "lambda.amazonaws.com"})
    ],
    "a key of another user": [One("iam:CreateAccessKey", f"{_IAM}:user/admin")],
    "another's role in a profile of ours": [
        One("iam:AddRoleToInstanceProfile", f"{_IAM}:instance-profile/sparecraft/sc-shop-web-1"),
        One("iam:PassRole", f"{_IAM}:role/admin", {"iam:PassedToService": "ec2.amazonaws.com"}),
    ],
    # Past the fence of tags.
    "end a stranger's machine": [One("ec2:TerminateInstances", f"{_EC2}:instance/i-9", THEIRS)],
    "call a stranger's machine ours": _tagging(
        "instance/i-9", ["sparecraft:experiment"], THEIRS, ASKED
    ),
    "call a stranger's disk ours, as if it were made": _tagging(
        "volume/vol-9", ["sparecraft:experiment"], ASKED
    ),
    "another team's tag on a machine of ours": _tagging("instance/i-1", ["team"], OURS),
    "call a stranger's group ours": [
        One("autoscaling:CreateOrUpdateTags", f"{_GROUP}/shop-of-others", {**ASKED, **THEIRS})
    ],
    "user data of a stranger's machine": [
        One("ec2:ModifyInstanceAttribute", f"{_EC2}:instance/i-9", THEIRS)
    ],
    "open a stranger's firewall": [
        One("ec2:AuthorizeSecurityGroupIngress", f"{_EC2}:security-group/sg-9", THEIRS),
        One("ec2:AuthorizeSecurityGroupIngress", f"{_EC2}:security-group-rule/*", ASKED),
    ],
    "a foothold in a stranger's VPC": [
        One("ec2:CreateSubnet", f"{_EC2}:subnet/*", ASKED),
        One("ec2:CreateSubnet", f"{_EC2}:vpc/vpc-9", THEIRS | ASKED),
    ],
    "a machine in a stranger's subnet": _run(
        {"subnet": One("ec2:RunInstances", f"{_EC2}:subnet/subnet-9", THEIRS)}
    ),
    "a machine with a stranger's interface": _run(
        {"interface": One("ec2:RunInstances", f"{_EC2}:network-interface/eni-9", THEIRS)}
    ),
    "a machine without our tag": _run(
        {"instance": One("ec2:RunInstances", f"{_EC2}:instance/*", SMALL)}
    ),
    "a stranger's disk, copied": [One("ec2:CreateSnapshot", f"{_EC2}:volume/vol-9", THEIRS)],
    "a shell on a machine of a tier": [
        One(
            "ssm:StartSession",
            f"{_EC2}:instance/i-9",
            {
                "aws:ResourceTag/sparecraft:role": "web",
                "ssm:SessionDocumentAccessCheck": "true",
            },
        )
    ],
    "a command on all machines": [
        One("ssm:SendCommand", f"{_EC2}:instance/i-1", OURS),
    ],
    "a command on a machine of a tier": [
        One(
            "ssm:SendCommand",
            f"{_EC2}:instance/i-1",
            {**OURS, "aws:ResourceTag/sparecraft:role": "web"},
        )
    ],
    "a document of one's own on the load machine": [
        One("ssm:SendCommand", "arn:aws:ssm:eu-west-1:111122223333:document/mine")
    ],
    "another's shell": [
        One(
            "ssm:TerminateSession",
            "arn:aws:ssm:eu-west-1:111122223333:session/other-1",
            {"aws:userid": "me"},
        )
    ],
    # More than was meant.
    "a machine of a large type": _run(
        {
            "instance": One(
                "ec2:RunInstances",
                f"{_EC2}:instance/*",
                {**ASKED, "ec2:InstanceType": "p5.48xlarge"},
            )
        }
    ),
    "a machine in another region": _run(
        {
            "instance": One(
                "ec2:RunInstances",
                "arn:aws:ec2:ap-east-1:111122223333:instance/*",
                {**ASKED, **SMALL},
                region="ap-east-1",
            )
        }
    ),
    "a machine of an image of anybody's": _run(
        {
            "image": One(
                "ec2:RunInstances",
                "arn:aws:ec2:eu-west-1::image/ami-9",
                {"ec2:Owner": "444455556666"},
            )
        }
    ),
    "a group of a hundred": [
        One(
            "autoscaling:CreateAutoScalingGroup",
            f"{_GROUP}/sc-shop-web-1",
            {**ASKED, "autoscaling:MaxSize": "100"},
        )
    ],
    "a template's newest version, whatever it will be": [
        One(
            "autoscaling:UpdateAutoScalingGroup",
            f"{_GROUP}/sc-shop-web-1",
            {**OURS, "autoscaling:LaunchTemplateVersionSpecified": "false"},
        )
    ],
    "another's bucket": [One("s3:GetObject", "arn:aws:s3:::payroll/2026.csv")],
    "a bucket of ours copied elsewhere": [
        One("s3:PutReplicationConfiguration", "arn:aws:s3:::sc-shop-1")
    ],
    "another's schedule": [One("scheduler:UpdateSchedule", f"{_SCHEDULE}/default/payroll")],
    "the account's parameters": [
        One("ssm:GetParameter", "arn:aws:ssm:eu-west-1:111122223333:parameter/db/password")
    ],
}


@pytest.mark.parametrize("wish", NEEDED)
def test_what_a_fleet_needs_is_allowed(wish: str) -> None:
    assert [one for one in NEEDED[wish] if not one.allowed] == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused(attack: str) -> None:
    assert not all(one.allowed for one in ATTACKS[attack])


_EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}


@pytest.mark.parametrize(
    ("action", "resource", "context", "allowed"),
    [
        ("ec2:TerminateInstances", f"{_EC2}:instance/i-1", OURS, True),
        ("s3:GetObject", "arn:aws:s3:::sc-shop-1/sparecraft.tar.gz", {}, True),
        ("ssmmessages:OpenDataChannel", "*", {}, True),
        ("ec2:TerminateInstances", f"{_EC2}:instance/i-9", THEIRS, False),
        ("ec2:RunInstances", f"{_EC2}:instance/*", {**ASKED, **SMALL}, False),
        ("iam:CreateAccessKey", f"{_IAM}:user/admin", {}, False),
        ("iam:PassRole", _ROLE, {"iam:PassedToService": "ec2.amazonaws.com"}, False),
        ("s3:GetObject", "arn:aws:s3:::payroll/2026.csv", {}, False),
        ("s3:PutObject", "arn:aws:s3:::sc-shop-1/sparecraft.tar.gz", {}, False),
        ("ssm:GetParameters", "arn:aws:ssm:eu-west-1:111122223333:parameter/db", {}, False),
        ("sts:AssumeRole", f"{_IAM}:role/admin", {}, False),
    ],
)
def test_a_role_that_was_given_everything_may_do_what_the_boundary_says(
    action: str, resource: str, context: dict[str, str], allowed: bool
) -> None:
    assert allows_within(BOUNDARY, _EVERYTHING, action, resource, context) == allowed
