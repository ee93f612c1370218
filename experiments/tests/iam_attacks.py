"""Wishes of a user of `infra/account` and of an attacker: named, as the authorisations
that each takes. An attack is refused where one of its authorisations is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Context = Mapping[str, str | list[str]]

ACCOUNT, OTHER = "111122223333", "444455556666"
EC2 = f"arn:aws:ec2:eu-west-1:{ACCOUNT}"
IAM = f"arn:aws:iam::{ACCOUNT}"
ROLE = f"{IAM}:role/sparecraft/sparecraft"
GROUP = f"arn:aws:autoscaling:eu-west-1:{ACCOUNT}:autoScalingGroup:u:autoScalingGroupName"
SCHEDULER = f"arn:aws:scheduler:eu-west-1:{ACCOUNT}"
FLEETS = f"arn:aws:s3:::sparecraft-fleets-{ACCOUNT}-eu-west-1"

_TAG = "sparecraft:experiment"
OURS: Context = {f"aws:ResourceTag/{_TAG}": "shop", "ec2:InstanceType": "t3.small"}
THEIRS: Context = {"aws:ResourceTag/team": "billing", "ec2:InstanceType": "t3.small"}
ASKED: Context = {f"aws:RequestTag/{_TAG}": "shop", "aws:TagKeys": ["Name", _TAG]}
LOAD: Context = {**OURS, "aws:ResourceTag/sparecraft:role": "load"}
TIER: Context = {**OURS, "aws:ResourceTag/sparecraft:role": "web"}
IN_S3: Context = {"aws:ResourceAccount": ACCOUNT, "aws:SecureTransport": "true"}
TO_EC2: Context = {"iam:PassedToService": "ec2.amazonaws.com"}
CHECKED: Context = {"ssm:SessionDocumentAccessCheck": "true"}
ONE: Context = {
    **ASKED,
    "autoscaling:MaxSize": "1",
    "autoscaling:LaunchTemplateVersionSpecified": "true",
}
INSTANCE: Context = {
    **ASKED,
    "ec2:InstanceType": "t3.small",
    "ec2:InstanceProfile": f"{IAM}:instance-profile/sparecraft/sparecraft-machine",
    "ec2:MetadataHttpTokens": "required",
    "ec2:MetadataHttpPutResponseHopLimit": "1",
    "ec2:Tenancy": "default",
}
DISK: Context = {**ASKED, "ec2:Encrypted": "true", "ec2:VolumeType": "gp3", "ec2:VolumeSize": "16"}


@dataclass(frozen=True)
class One:
    """An authorisation that a call needs; a call on several resources needs several."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)
    region: str = "eu-west-1"

    @property
    def keys(self) -> Context:
        """The context, with the keys that every call has."""
        return {
            "aws:RequestedRegion": self.region,
            "aws:PrincipalAccount": ACCOUNT,
            "aws:userid": "AIDAEXAMPLE",
            **self.context,
        }


def run(**changed: One) -> list[One]:
    """Return the authorisations of RunInstances as the stack calls it, some changed or added."""
    needs = {
        "instance": _ran("instance/*", INSTANCE),
        "volume": _ran("volume/*", DISK),
        "interface": _ran("network-interface/*", {"ec2:AssociatePublicIpAddress": "true"}),
        "subnet": _ran("subnet/subnet-1", OURS),
        "group": _ran("security-group/sg-1", OURS),
        "image": _image("ami-1", "136693071363"),
        "role": One("iam:PassRole", f"{ROLE}-machine", TO_EC2),
        "tags": _made_with(ASKED),
    }
    return list({**needs, **changed}.values())


def _ran(resource: str, context: Context) -> One:
    return One("ec2:RunInstances", f"{EC2}:{resource}", context)


def _image(name: str, owner: str) -> One:
    arn = f"arn:aws:ec2:eu-west-1::image/{name}"
    return One("ec2:RunInstances", arn, {"ec2:Owner": owner})


def _made_with(tags: Context) -> One:
    context = {**tags, "ec2:CreateAction": "RunInstances"}
    return One("ec2:CreateTags", f"{EC2}:instance/*", context)


def _instance(key: str, value: str | list[str]) -> list[One]:
    return run(instance=_ran("instance/*", {**INSTANCE, key: value}))


def _disk(key: str, value: str) -> list[One]:
    return run(volume=_ran("volume/*", {**DISK, key: value}))


def _with(kind: str, context: Context) -> list[One]:
    return run(more=_ran(kind, context))


def _merged(contexts: Iterable[Context]) -> Context:
    return {key: value for context in contexts for key, value in context.items()}


def _passed(role: str, service: str) -> One:
    return One("iam:PassRole", role, {"iam:PassedToService": f"{service}.amazonaws.com"})


def _on(action: str, resource: str, *contexts: Context) -> list[One]:
    return [One(action, f"{EC2}:{resource}", _merged(contexts))]


def _in_s3(action: str, resource: str, key: str = "", value: str = "") -> list[One]:
    return [One(f"s3:{action}", resource, {**IN_S3, key: value} if key else IN_S3)]


def _without_tags(context: Context) -> Context:
    return {key: value for key, value in context.items() if not key.startswith("aws:")}


def _tagging(resource: str, keys: list[str], *contexts: Context) -> list[One]:
    return _ec2("CreateTags", resource, *contexts, {"aws:TagKeys": keys})


def _ec2(action: str, resource: str, *contexts: Context) -> list[One]:
    return _on(f"ec2:{action}", resource, *contexts)


def _attribute(name: str, machine: str = "instance/i-1", context: Context = OURS) -> list[One]:
    return _ec2("ModifyInstanceAttribute", machine, context, {"ec2:Attribute": name})


def _group(action: str, *contexts: Context, name: str = "sc-shop-web-1") -> list[One]:
    return [One(f"autoscaling:{action}", f"{GROUP}/{name}", _merged(contexts))]


NEEDED: dict[str, list[One]] = {
    "a machine": run(),
    "a spot machine": run(request=_ran("spot-instances-request/*", ASKED)),
    "a VPC": _ec2("CreateVpc", "vpc/*", ASKED),
    "a subnet of it": [
        *_ec2("CreateSubnet", "subnet/*", ASKED),
        *_ec2("CreateSubnet", "vpc/vpc-1", OURS),
    ],
    "a placement group": [
        *_ec2(
            "CreatePlacementGroup",
            "placement-group/sc",
            ASKED,
            {"ec2:PlacementGroupStrategy": "spread"},
        ),
        *_with("placement-group/sc-shop", OURS)[-1:],
    ],
    "a later end": _tagging("instance/i-1", ["sparecraft:expires"], OURS),
    "a group of one": _group("CreateAutoScalingGroup", ONE),
    "the end from outside": [
        One("scheduler:CreateSchedule", f"{SCHEDULER}:schedule/sc-shop/sc-shop-db-1"),
        _passed(f"{ROLE}-end", "scheduler"),
    ],
    "the bundle": _in_s3("PutObject", f"{FLEETS}/vpc-1/sparecraft.tar.gz"),
    "an end by hand": _ec2("TerminateInstances", "instance/i-1", OURS),
    "a shell on the load machine": _on("ssm:StartSession", "instance/i-1", LOAD, CHECKED),
    "a run on the load machine": [
        *_on("ssm:SendCommand", "instance/i-1", LOAD),
        One("ssm:SendCommand", "arn:aws:ssm:eu-west-1::document/AWS-RunShellScript"),
        One("ssm:GetCommandInvocation", "*"),
    ],
    "prices, which are in one region only": [One("pricing:GetProducts", "*", region="us-east-1")],
}

_TO_MORE: dict[str, list[One]] = {
    "make a role": [One("iam:CreateRole", f"{ROLE}-mine")],
    "make a role that another account may assume": [
        One("iam:CreateRole", f"{IAM}:role/sparecraft/sc-x")
    ],
    "write a role's policy": [One("iam:PutRolePolicy", f"{ROLE}-machine")],
    "attach a policy of AWS to a role": [One("iam:AttachRolePolicy", f"{ROLE}-machine")],
    "attach a policy of AWS to oneself": [One("iam:AttachUserPolicy", f"{IAM}:user/me")],
    "write a policy for oneself": [One("iam:PutUserPolicy", f"{IAM}:user/me")],
    "join another group": [One("iam:AddUserToGroup", f"{IAM}:group/admins")],
    "let oneself assume a role": [One("iam:UpdateAssumeRolePolicy", f"{ROLE}-runner")],
    "tag a role": [One("iam:TagRole", f"{ROLE}-machine", ASKED)],
    "delete a role of the account's": [One("iam:DeleteRole", f"{ROLE}-end")],
    "make an instance profile": [
        One("iam:CreateInstanceProfile", f"{IAM}:instance-profile/sparecraft/sc-x")
    ],
    "another role in a profile of ours": [
        One("iam:AddRoleToInstanceProfile", f"{IAM}:instance-profile/sparecraft/sparecraft-machine")
    ],
    "another version of a policy of the account's": [
        One("iam:CreatePolicyVersion", f"{IAM}:policy/sparecraft-role-machine")
    ],
    "assume another's role": [One("sts:AssumeRole", f"{IAM}:role/admin")],
    "assume a machine's role": [One("sts:AssumeRole", f"{ROLE}-runner")],
    "pass another's role to a machine": run(role=One("iam:PassRole", f"{IAM}:role/admin", TO_EC2)),
    "pass a role that is only called like ours": run(
        role=One("iam:PassRole", f"{IAM}:role/sparecraft-machine", TO_EC2)
    ),
    "pass a role to another service": [_passed(f"{ROLE}-runner", "lambda")],
    "pass the end's role to a machine": run(role=One("iam:PassRole", f"{ROLE}-end", TO_EC2)),
    "a key of another user": [One("iam:CreateAccessKey", f"{IAM}:user/admin")],
    "another's profile for a machine that runs": _ec2(
        "AssociateIamInstanceProfile", "instance/i-1", OURS
    ),
    "a profile in place of one": _ec2("ReplaceIamInstanceProfileAssociation", "instance/i-1", OURS),
}

_WHEN_MADE: dict[str, list[One]] = {
    "a machine of a large type": _instance("ec2:InstanceType", "p5.48xlarge"),
    "a machine of another team's profile": _instance(
        "ec2:InstanceProfile", f"{IAM}:instance-profile/admin"
    ),
    "a machine that gives its credentials without a token": _instance(
        "ec2:MetadataHttpTokens", "optional"
    ),
    "a machine whose containers reach its credentials": _instance(
        "ec2:MetadataHttpPutResponseHopLimit", "2"
    ),
    "a dedicated machine": _instance("ec2:Tenancy", "dedicated"),
    "a machine on a dedicated host": _instance("ec2:Tenancy", "host"),
    "another team's tag at a machine's making": _instance("aws:TagKeys", ["Name", _TAG, "team"]),
    "another team's tag by the tagging that goes with it": run(
        tags=_made_with({**ASKED, "aws:TagKeys": [_TAG, "team"]})
    ),
    "a machine without our tag": run(instance=_ran("instance/*", _without_tags(INSTANCE))),
    "a disk of 16 TB": _disk("ec2:VolumeSize", "16384"),
    "a dear kind of disk": _disk("ec2:VolumeType", "io2"),
    "a disk of 64,000 IOPS": _disk("ec2:VolumeIops", "64000"),
    "a disk of 1,000 MB/s": _disk("ec2:VolumeThroughput", "1000"),
    "a disk in clear": _disk("ec2:Encrypted", "false"),
    "a disk without our tag": run(volume=_ran("volume/*", _without_tags(DISK))),
    "a disk of a stranger's snapshot": _with("snapshot/snap-9", THEIRS),
    "a machine with another's key pair": _with("key-pair/admin", THEIRS),
    "a machine of a capacity reservation": _with("capacity-reservation/cr-9", OURS),
    "a machine with a stranger's interface": run(interface=_ran("network-interface/eni-9", THEIRS)),
    "a machine in a stranger's subnet": run(subnet=_ran("subnet/subnet-9", {**THEIRS, **ASKED})),
    "a machine in a stranger's security group": run(
        group=_ran("security-group/sg-9", {**THEIRS, **ASKED})
    ),
    "a machine of a stranger's template": _with("launch-template/lt-9", THEIRS),
    "a machine of an image of anybody's": run(image=_image("ami-9", OTHER)),
    "a machine in another region": run(
        instance=One(
            "ec2:RunInstances", f"arn:aws:ec2:ap-east-1:{ACCOUNT}:instance/*", INSTANCE, "ap-east-1"
        )
    ),
    "a foothold in a stranger's VPC": [
        *_ec2("CreateSubnet", "subnet/*", ASKED),
        *_ec2("CreateSubnet", "vpc/vpc-9", THEIRS, ASKED),
    ],
    "an interface in a stranger's subnet": [
        *_ec2("CreateNetworkInterface", "network-interface/*", ASKED),
        *_ec2("CreateNetworkInterface", "subnet/subnet-9", THEIRS, ASKED),
    ],
    "an interface in a stranger's security group": _ec2(
        "CreateNetworkInterface", "security-group/sg-9", THEIRS, ASKED
    ),
    "an end point to somebody's service": _ec2(
        "CreateVpcEndpoint",
        "vpc-endpoint/*",
        ASKED,
        {"ec2:VpceServiceName": "com.amazonaws.vpce.eu-west-1.vpce-svc-9"},
    ),
    "an end point in a stranger's VPC": _ec2("CreateVpcEndpoint", "vpc/vpc-9", THEIRS, ASKED),
    "a group of a hundred": _group("CreateAutoScalingGroup", ONE, {"autoscaling:MaxSize": "100"}),
    "a group of a template's newest version": _group(
        "CreateAutoScalingGroup", ONE, {"autoscaling:LaunchTemplateVersionSpecified": "false"}
    ),
    "a group of a launch configuration": _group(
        "CreateAutoScalingGroup", ONE, {"autoscaling:LaunchConfigurationName": "big"}
    ),
    "a group whose types are other than its template's": _group(
        "CreateAutoScalingGroup", ONE, {"autoscaling:InstanceTypes": ["t3.small", "p5.48xlarge"]}
    ),
    "a group behind a stranger's load balancer": _group(
        "CreateAutoScalingGroup", ONE, {"autoscaling:TargetGroupARNs": ["arn:payroll"]}
    ),
    "a group with another team's tag": _group(
        "CreateAutoScalingGroup", ONE, {"aws:TagKeys": [_TAG, "team"]}
    ),
    "a group without our tag": _group("CreateAutoScalingGroup", _without_tags(ONE)),
    "a launch configuration": [One("autoscaling:CreateLaunchConfiguration", "*")],
    "a fleet of machines": _ec2("CreateFleet", "fleet/*", ASKED),
    "a spot fleet": _ec2("RequestSpotFleet", "spot-fleet-request/*", ASKED),
    "spot machines by the older call": _ec2(
        "RequestSpotInstances", "spot-instances-request/*", ASKED
    ),
    "a volume of its own": _ec2("CreateVolume", "volume/*", DISK),
    "a snapshot of a stranger's disk": _ec2("CreateSnapshot", "volume/vol-9", THEIRS),
    "an image of a machine of ours": _ec2("CreateImage", "instance/i-1", OURS),
    "a gateway by the hour": _ec2("CreateNatGateway", "natgateway/*", ASKED),
    "an address by the hour": _ec2("AllocateAddress", "elastic-ip/*", ASKED),
    "a dedicated host": _ec2("AllocateHosts", "dedicated-host/*", ASKED),
    "reserved machines": _ec2("PurchaseReservedInstancesOffering", "reserved-instances/*", ASKED),
    "a path to another's network": _ec2("CreateVpcPeeringConnection", "vpc/vpc-1", OURS),
    "a bucket of one's own": _in_s3("CreateBucket", "arn:aws:s3:::sc-shop-1"),
}

_WHEN_CHANGED: dict[str, list[One]] = {
    "a larger type for a machine that is there": _attribute("InstanceType"),
    "a start of a machine of a large type": _ec2(
        "StartInstances", "instance/i-1", OURS, {"ec2:InstanceType": "p5.48xlarge"}
    ),
    "other user data for a machine": _attribute("UserData"),
    "protection from its end": _attribute("DisableApiTermination"),
    "protection from a stop": _attribute("DisableApiStop"),
    "other groups for a machine": _attribute("GroupSet"),
    "user data of a stranger's machine": _attribute("UserData", "instance/i-9", THEIRS),
    "credentials without a token, later": _ec2(
        "ModifyInstanceMetadataOptions", "instance/i-1", OURS
    ),
    "unlimited credits, later": _ec2("ModifyInstanceCreditSpecification", "instance/i-1", OURS),
    "another tenancy, later": _ec2("ModifyInstancePlacement", "instance/i-1", OURS),
    "another tenancy of a VPC": _ec2("ModifyVpcTenancy", "vpc/vpc-1", OURS),
    "other processors, later": _ec2("ModifyInstanceCpuOptions", "instance/i-1", OURS),
    "a larger disk, later": _ec2("ModifyVolume", "volume/vol-1", OURS),
    "a disk more, later": _ec2("AttachVolume", "instance/i-1", OURS),
    "an interface that forwards": _ec2(
        "ModifyNetworkInterfaceAttribute", "network-interface/eni-1", OURS
    ),
    "public addresses for a subnet": _ec2(
        "ModifySubnetAttribute", "subnet/subnet-1", OURS, {"ec2:Attribute": "MapPublicIpOnLaunch"}
    ),
    "another policy of an end point": _ec2("ModifyVpcEndpoint", "vpc-endpoint/vpce-1", OURS),
    "another default of a template": _ec2("ModifyLaunchTemplate", "launch-template/lt-1", OURS),
    "a version of a stranger's template": _ec2(
        "CreateLaunchTemplateVersion", "launch-template/lt-9", THEIRS
    ),
    "a larger group, later": _group("UpdateAutoScalingGroup", OURS, {"autoscaling:MaxSize": "100"}),
    "a template's newest version, later": _group(
        "UpdateAutoScalingGroup", OURS, {"autoscaling:LaunchTemplateVersionSpecified": "false"}
    ),
    "a launch configuration, later": _group(
        "UpdateAutoScalingGroup", OURS, {"autoscaling:LaunchConfigurationName": "big"}
    ),
    "other types for a group, later": _group(
        "UpdateAutoScalingGroup", OURS, {"autoscaling:InstanceTypes": ["p5.48xlarge"]}
    ),
    "a larger group, by a schedule": _group(
        "PutScheduledUpdateGroupAction", OURS, {"autoscaling:MaxSize": "100"}
    ),
    "a group that replaces nothing": _group("SuspendProcesses", OURS),
    "machines of a group that no shrinking ends": _group("SetInstanceProtection", OURS),
    "a group of strangers' machines": _group("AttachInstances", OURS),
    "a policy that grows a group": _group("PutScalingPolicy", OURS),
    "a stranger's group": _group("UpdateAutoScalingGroup", THEIRS, name="payroll"),
}

_TAGS: dict[str, list[One]] = {
    "take a machine out of the fence": _ec2(
        "DeleteTags", "instance/i-1", OURS, {"aws:TagKeys": [_TAG]}
    ),
    "take its end from a machine": _ec2(
        "DeleteTags", "instance/i-1", OURS, {"aws:TagKeys": ["sparecraft:expires"]}
    ),
    "delete all tags": _ec2("DeleteTags", "instance/i-1", OURS),
    "take a group out of the fence": _group("DeleteTags", OURS, {"aws:TagKeys": [_TAG]}),
    "another fleet's name for a machine": _tagging("instance/i-1", [_TAG], OURS, ASKED),
    "the load machine's role for a machine of a tier": _tagging(
        "instance/i-1", ["sparecraft:role"], TIER, {"aws:RequestTag/sparecraft:role": "load"}
    ),
    "the load machine's role beside a later end": _tagging(
        "instance/i-1", ["sparecraft:expires", "sparecraft:role"], TIER
    ),
    "the load machine's role for a group of a tier": _group(
        "CreateOrUpdateTags", TIER, ASKED, {"aws:TagKeys": [_TAG, "sparecraft:role"]}
    ),
    "another VPC's machines within a runner's reach": _tagging(
        "instance/i-1", ["sparecraft:vpc"], OURS
    ),
    "call a stranger's machine ours": _tagging("instance/i-9", [_TAG], THEIRS, ASKED),
    "call a stranger's disk ours, as if it were made": _tagging("volume/vol-9", [_TAG], ASKED),
    "call a stranger's thing ours by another call": _tagging(
        "instance/i-9", [_TAG], ASKED, {"ec2:CreateAction": "CopySnapshot"}
    ),
    "another team's tag on a machine of ours": _tagging("instance/i-1", ["team"], OURS),
    "call a stranger's group ours": _group(
        "CreateOrUpdateTags", ASKED, THEIRS, name="shop-of-others"
    ),
    "call a stranger's schedules ours": [
        One("scheduler:TagResource", f"{SCHEDULER}:schedule-group/payroll", {**THEIRS, **ASKED})
    ],
}

_OTHERS: dict[str, list[One]] = {
    "end a stranger's machine": _ec2("TerminateInstances", "instance/i-9", THEIRS),
    "end a machine in another region": [
        One(
            "ec2:TerminateInstances",
            f"arn:aws:ec2:ap-east-1:{ACCOUNT}:instance/i-1",
            OURS,
            "ap-east-1",
        )
    ],
    "open a stranger's firewall": [
        *_ec2("AuthorizeSecurityGroupIngress", "security-group/sg-9", THEIRS, ASKED),
        *_ec2("AuthorizeSecurityGroupIngress", "security-group-rule/*", ASKED),
    ],
    "a route in a stranger's network": _ec2("CreateRoute", "route-table/rtb-9", THEIRS),
    "delete a stranger's network": _ec2("DeleteVpc", "vpc/vpc-9", THEIRS),
    "read a stranger's user data": _ec2("DescribeInstanceAttribute", "instance/i-9", THEIRS),
    "read a stranger's console": _ec2("GetConsoleOutput", "instance/i-9", THEIRS),
    "a stranger's screen": _ec2("GetConsoleScreenshot", "instance/i-9", THEIRS),
    "a machine's template out of its user data": _ec2(
        "GetLaunchTemplateData", "instance/i-9", THEIRS
    ),
    "the password of a stranger's machine": _ec2("GetPasswordData", "instance/i-9", THEIRS),
    "a console on a machine": _ec2("SendSerialConsoleSSHPublicKey", "instance/i-1", OURS),
    "a key into a machine": _on("ec2-instance-connect:SendSSHPublicKey", "instance/i-1", OURS),
    "a shell on a machine of a tier": _on("ssm:StartSession", "instance/i-9", TIER, CHECKED),
    "a shell on a stranger's machine that has the role load": _on(
        "ssm:StartSession", "instance/i-9", {"aws:ResourceTag/sparecraft:role": "load"}, CHECKED
    ),
    "a shell by any document": _on(
        "ssm:StartSession", "instance/i-1", LOAD, {"ssm:SessionDocumentAccessCheck": "false"}
    ),
    "a command on all machines": _on("ssm:SendCommand", "instance/*", OURS),
    "a command on a machine of a tier": _on("ssm:SendCommand", "instance/i-1", TIER),
    "a document of one's own on the load machine": [
        One("ssm:SendCommand", f"arn:aws:ssm:eu-west-1:{ACCOUNT}:document/mine")
    ],
    "a document of one's own by AWS's name": [
        One("ssm:SendCommand", f"arn:aws:ssm:eu-west-1:{ACCOUNT}:document/AWS-RunShellScript")
    ],
    "another's shell": [
        One("ssm:TerminateSession", f"arn:aws:ssm:eu-west-1:{ACCOUNT}:session/other-1")
    ],
    "another's bucket": _in_s3("GetObject", "arn:aws:s3:::payroll/2026.csv"),
    "a bucket that is only called like ours": _in_s3(
        "GetObject", "arn:aws:s3:::sc-payroll/2026.csv"
    ),
    "what is in our bucket to another account's": _in_s3(
        "PutObject", f"{FLEETS}-x/vpc-1/keys", "aws:ResourceAccount", OTHER
    ),
    "keys to a bucket of another account": _in_s3(
        "PutObject",
        f"arn:aws:s3:::sparecraft-fleets-{OTHER}-eu-west-1/vpc-1/keys",
        "aws:ResourceAccount",
        OTHER,
    ),
    "the bundle in clear on its way": _in_s3(
        "GetObject", f"{FLEETS}/vpc-1/sparecraft.tar.gz", "aws:SecureTransport", "false"
    ),
    "the bucket for everybody": _in_s3("PutBucketPolicy", FLEETS),
    "an object for everybody": _in_s3("PutObjectAcl", f"{FLEETS}/vpc-1/keys"),
    "the bucket open again": _in_s3("PutBucketPublicAccessBlock", FLEETS),
    "the bucket copied elsewhere": _in_s3("PutReplicationConfiguration", FLEETS),
    "the bucket kept for ever": _in_s3("PutLifecycleConfiguration", FLEETS),
    "the bucket gone": _in_s3("DeleteBucket", FLEETS),
    "a stranger's schedules gone": [
        One("scheduler:DeleteScheduleGroup", f"{SCHEDULER}:schedule-group/sc-payroll", THEIRS)
    ],
    "another's schedule": [
        One("scheduler:UpdateSchedule", f"{SCHEDULER}:schedule/default/payroll")
    ],
    "a schedule with more rights": [
        One("scheduler:CreateSchedule", f"{SCHEDULER}:schedule/sc-shop/sc-shop-db-1"),
        _passed(f"{ROLE}-runner", "scheduler"),
    ],
    "the account's parameters": [
        One("ssm:GetParameter", f"arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter/db/password")
    ],
    "the account's secrets": [
        One(
            "secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:db"
        )
    ],
}

ATTACKS = {**_TO_MORE, **_WHEN_MADE, **_WHEN_CHANGED, **_TAGS, **_OTHERS}
