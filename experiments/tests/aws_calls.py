"""Calls to AWS as authorisations: what a request to moto would have asked IAM for.

    with in_front_of(moto, Watch(moto)) as url: ...

A call of EC2 asks once for each resource: one that is there with its tags, one that is made with
the tags that it is given. Which kinds of resources an action asks for: `aws_actions.json`, of AWS's
Service Authorization Reference, of April 2025, for the actions that infra/account names. What AWS
fills in besides (a disk's type, a template's content) is stated here as it is described there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from experiments.tests.aws import ACCOUNT, REGION, client_at
from optimizer.tests.answers import Answer

KINDS: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "aws_actions.json").read_text()
)

_PREFIXES = {
    "eipalloc": "elastic-ip",
    "eni": "network-interface",
    "i": "instance",
    "igw": "internet-gateway",
    "lt": "launch-template",
    "rtb": "route-table",
    "sg": "security-group",
    "sgr": "security-group-rule",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
    "vpce": "vpc-endpoint",
}
_TAG_VALUE = re.compile(r"(^|\.)Tag\.")
_MADE_BY_RUN_INSTANCES = ("instance", "network-interface", "volume")


@dataclass(frozen=True)
class Asked:
    """One authorisation that a call needs."""

    action: str
    resource: str
    context: Mapping[str, str | list[str]] = field(default_factory=dict)


class Watch:
    """Notes what each request asks for, and lets it through."""

    def __init__(self, moto: str) -> None:
        services = ("autoscaling", "ec2", "scheduler")
        self._clients = {service: client_at(moto, service) for service in services}
        self.asked: list[Asked] = []
        self.calls = 0

    def __call__(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        match = re.search(
            r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/", request.headers.get("Authorization", "")
        )
        assert match, f"no signature: {request.command} {request.path}"
        region, service = match.groups()
        self.calls += 1
        for call in self._asked(service, request, body):
            common = {"aws:RequestedRegion": region, "aws:PrincipalAccount": ACCOUNT}
            self.asked.append(Asked(call.action, call.resource, {**common, **call.context}))
        return None

    def _asked(self, service: str, request: BaseHTTPRequestHandler, body: bytes) -> Iterator[Asked]:
        if service == "s3":
            yield from _of_s3(request, body)
        elif service == "scheduler":
            yield from self._of_scheduler(request, body)
        else:
            parameters = dict(parse_qsl(body.decode(), keep_blank_values=True))
            action = parameters.pop("Action")
            handlers = {"ec2": self._of_ec2, "autoscaling": self._of_autoscaling, "iam": _of_iam}
            if service in handlers:
                yield from handlers[service](action, parameters)
            else:
                yield Asked(f"{service}:{action}", "*")

    # EC2

    def _of_ec2(self, action: str, parameters: Mapping[str, str]) -> Iterator[Asked]:
        if action == "RunInstances":
            yield from self._run_instances(_nested(parameters))
            return
        name = f"ec2:{action}"
        kinds = KINDS.get(name, {})
        asking = {kind.rstrip("*") for kind in kinds if kind}
        resources = self._there(parameters, asking)
        asked_tags = _tags_of(_nested(parameters).get("TagSpecification", []))
        if action == "CreateTags":
            tagging = _request(_pairs(_nested(parameters)["Tag"]))
            yield from (Asked(name, arn, {**context, **tagging}) for _, arn, context in resources)
            return
        attributes = _attributes(action, parameters)
        yield from (Asked(name, arn, {**context, **attributes}) for _, arn, context in resources)
        found_kinds = {kind for kind, _, _ in resources}
        for kind in (kind.rstrip("*") for kind in kinds if kind.endswith("*")):
            if kind in found_kinds and kind not in asked_tags:
                continue
            new_context = _request(asked_tags.get(kind, {}))
            yield Asked(name, _arn(kind, "*"), {**new_context, **attributes})
        for kind, tags in asked_tags.items():
            yield from self._tagging(action, kind, tags, set(asking))
        if not asking:
            yield Asked(name, "*")

    def _tagging(
        self, action: str, kind: str, tags: Mapping[str, str], asking: set[str]
    ) -> Iterator[Asked]:
        context = {**_request(tags), "ec2:CreateAction": action}
        yield Asked("ec2:CreateTags", _arn(kind, "*"), context)
        if kind not in asking:
            yield Asked(f"ec2:{action}", _arn(kind, "*"), _request(tags))

    def _there(
        self, parameters: Mapping[str, str], kinds: set[str]
    ) -> list[tuple[str, str, dict[str, str | list[str]]]]:
        """Kind, ARN and context of each resource of these kinds that a call names."""
        kinds_by_id = dict[str, str]()
        for value in (value for name, value in parameters.items() if not _TAG_VALUE.search(name)):
            if value.startswith("rtbassoc-"):
                value = self._route_table_of(value)
            prefix = value.split("-")[0]
            if re.fullmatch(r"[a-z]+-[0-9a-f]{8,}", value) and prefix in _PREFIXES:
                kinds_by_id[value] = _PREFIXES[prefix]
        if group := parameters.get("GroupName") if "placement-group" in kinds else None:
            kinds_by_id[group] = "placement-group"
        return [
            (kind, _arn(kind, identifier), self._seen(kind, identifier))
            for identifier, kind in kinds_by_id.items()
            if kind in kinds
        ]

    def _seen(self, kind: str, identifier: str) -> dict[str, str | list[str]]:
        by_id = [{"Name": "resource-id", "Values": [identifier]}]
        tags = self._clients["ec2"].describe_tags(Filters=by_id)["Tags"]
        context: dict[str, str | list[str]] = {
            f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in tags
        }
        if kind == "instance":
            reply = self._clients["ec2"].describe_instances(InstanceIds=[identifier])
            context["ec2:InstanceType"] = reply["Reservations"][0]["Instances"][0]["InstanceType"]
            context["ec2:InstanceID"] = identifier
        return context

    def _route_table_of(self, association: str) -> str:
        by_id = [{"Name": "association.route-table-association-id", "Values": [association]}]
        tables = self._clients["ec2"].describe_route_tables(Filters=by_id)["RouteTables"]
        return str(tables[0]["RouteTableId"]) if tables else association

    def _run_instances(self, parameters: Mapping[str, Any]) -> Iterator[Asked]:
        name = "ec2:RunInstances"
        tags = _tags_of(parameters.get("TagSpecification", []))
        contexts: dict[str, dict[str, str | list[str]]] = {
            kind: {} for kind in _MADE_BY_RUN_INSTANCES
        }
        profile = parameters["IamInstanceProfile"]["Name"]
        role = f"arn:aws:iam::{ACCOUNT}:instance-profile/sparecraft/{profile}"
        metadata = parameters["MetadataOptions"]
        contexts["instance"] = {
            "ec2:InstanceType": parameters["InstanceType"],
            "ec2:InstanceProfile": role,
            "ec2:MetadataHttpTokens": metadata["HttpTokens"],
            "ec2:MetadataHttpPutResponseHopLimit": str(metadata["HttpPutResponseHopLimit"]),
            "ec2:Tenancy": parameters.get("Placement", {}).get("Tenancy", "default"),
        }
        (disk,) = parameters["BlockDeviceMapping"]
        contexts["volume"] = {
            "ec2:Encrypted": str(disk["Ebs"]["Encrypted"]).lower(),
            "ec2:VolumeType": disk["Ebs"]["VolumeType"],
            "ec2:VolumeSize": str(disk["Ebs"]["VolumeSize"]),
        }
        (way_out,) = parameters["NetworkInterface"]
        public = str(way_out["AssociatePublicIpAddress"]).lower()
        contexts["network-interface"] = {"ec2:AssociatePublicIpAddress": public}
        for kind, context in contexts.items():
            yield Asked(name, _arn(kind, "*"), {**context, **_request(tags.get(kind, {}))})
        for kind, kind_tags in tags.items():
            yield from self._tagging("RunInstances", kind, kind_tags, set(_MADE_BY_RUN_INSTANCES))
        flat = {key: value for key, value in _flat(parameters).items() if "ClientToken" not in key}
        kinds = {"launch-template", "security-group", "subnet"}
        yield from (Asked(name, arn, context) for _, arn, context in self._there(flat, kinds))
        image = f"arn:aws:ec2:{REGION}::image/{parameters['ImageId']}"
        yield Asked(name, image, {"ec2:Owner": "136693071363"})
        service = {"iam:PassedToService": "ec2.amazonaws.com"}
        yield Asked("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/sparecraft/{profile}", service)

    # groups

    def _of_autoscaling(self, action: str, parameters: Mapping[str, str]) -> Iterator[Asked]:
        name = f"autoscaling:{action}"
        if action.startswith("Describe"):
            yield Asked(name, "*")
            return
        nested = _nested(parameters)
        tags = _pairs(nested.get("Tags", {}).get("member", []))
        group = (
            parameters.get("AutoScalingGroupName")
            or parameters.get("Tags.member.1.ResourceId")
            or ""
        )
        if "InstanceId" in parameters:
            (group_member,) = self._clients["autoscaling"].describe_auto_scaling_instances(
                InstanceIds=[parameters["InstanceId"]]
            )["AutoScalingInstances"]
            group = group_member["AutoScalingGroupName"]
        context: dict[str, str | list[str]] = {**_request(tags)}
        groups = self._clients["autoscaling"].describe_auto_scaling_groups(
            AutoScalingGroupNames=[group]
        )["AutoScalingGroups"]
        for entry in groups:
            context |= {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in entry["Tags"]}
        arn = f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:autoScalingGroup:u"
        arn += f":autoScalingGroupName/{group}"
        attributes = {
            f"autoscaling:{key}": parameters[key]
            for key in ("MaxSize", "MinSize")
            if key in parameters
        }
        if template := nested.get("LaunchTemplate"):
            is_number = str(template["Version"]).isdigit()
            attributes["autoscaling:LaunchTemplateVersionSpecified"] = str(is_number).lower()
            yield from self._run_template(template, parameters)
        yield Asked(name, arn, {**context, **attributes})
        if action == "CreateAutoScalingGroup":
            yield Asked("autoscaling:CreateOrUpdateTags", arn, context)

    def _run_template(
        self, template: Mapping[str, str], parameters: Mapping[str, str]
    ) -> Iterator[Asked]:
        """A group is made or changed with the right to run what its template says."""
        launch_data = self._clients["ec2"].describe_launch_template_versions(
            LaunchTemplateId=template["LaunchTemplateId"], Versions=[template["Version"]]
        )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        (way_out,) = launch_data["NetworkInterfaces"]
        launch = {
            **launch_data,
            "LaunchTemplate": dict(template),
            "SubnetId": parameters.get("VPCZoneIdentifier", ""),
            "BlockDeviceMapping": launch_data["BlockDeviceMappings"],
            "NetworkInterface": [{**way_out, "SecurityGroupId": way_out["Groups"]}],
            "TagSpecification": [
                {"ResourceType": specification["ResourceType"], "Tag": specification["Tags"]}
                for specification in launch_data["TagSpecifications"]
                if specification["ResourceType"] != "launch-template"  # moto adds a template's own
            ],
        }
        del launch["TagSpecifications"], launch["BlockDeviceMappings"], launch["NetworkInterfaces"]
        yield from self._run_instances(launch)

    # schedules

    def _of_scheduler(self, request: BaseHTTPRequestHandler, body: bytes) -> Iterator[Asked]:
        parts = [unquote(part) for part in urlsplit(request.path).path.strip("/").split("/")]
        parameters = json.loads(body) if body else {}
        base = f"arn:aws:scheduler:{REGION}:{ACCOUNT}"
        verb = {"POST": "Create", "GET": "Get", "PUT": "Update", "DELETE": "Delete"}[
            request.command
        ]
        tags = _request(_pairs(parameters.get("Tags", [])))
        if parts[0] == "tags":
            arn = "/".join(parts[1:])
            verb = {"POST": "TagResource", "GET": "ListTagsForResource"}[request.command]
            pairs = self._clients["scheduler"].list_tags_for_resource(ResourceArn=arn)["Tags"]
            resource_tags = {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in pairs}
            yield Asked(f"scheduler:{verb}", arn, {**tags, **resource_tags})
        elif parts == ["schedule-groups"]:
            yield Asked("scheduler:ListScheduleGroups", "*")
        elif parts[0] == "schedule-groups":
            arn = f"{base}:schedule-group/{parts[1]}"
            resource_tags = {}
            if verb == "Delete":
                pairs = self._clients["scheduler"].list_tags_for_resource(ResourceArn=arn)["Tags"]
                resource_tags = {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in pairs}
            yield Asked(f"scheduler:{verb}ScheduleGroup", arn, {**tags, **resource_tags})
            if tags:
                yield Asked("scheduler:TagResource", arn, tags)
        else:
            query = parse_qs(urlsplit(request.path).query)
            group = parameters.get("GroupName") or query["groupName"][0]
            yield Asked(f"scheduler:{verb}Schedule", f"{base}:schedule/{group}/{parts[1]}")
            if "Target" in parameters:
                service = {"iam:PassedToService": "scheduler.amazonaws.com"}
                yield Asked("iam:PassRole", parameters["Target"]["RoleArn"], service)


def _of_iam(action: str, parameters: Mapping[str, str]) -> Iterator[Asked]:
    for key, kind in (("InstanceProfileName", "instance-profile"), ("RoleName", "role")):
        if key in parameters:
            arn = f"arn:aws:iam::{ACCOUNT}:{kind}/sparecraft/{parameters[key]}"
            yield Asked(f"iam:{action}", arn)
            return
    yield Asked(f"iam:{action}", "*")


_OBJECT = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "POST": "PutObject"}


def _of_s3(request: BaseHTTPRequestHandler, body: bytes) -> Iterator[Asked]:
    url = urlsplit(request.path)
    _, bucket, *key = url.path.split("/", 2)
    query = parse_qs(url.query, keep_blank_values=True)
    context = {"aws:SecureTransport": "true", "aws:ResourceAccount": ACCOUNT}
    arn = f"arn:aws:s3:::{bucket}"
    if not key or not key[0]:
        if "delete" in query:
            for name in re.findall(rb"<Key>([^<]+)</Key>", body):
                yield Asked("s3:DeleteObject", f"{arn}/{name.decode()}", context)
            return
        listing = request.command == "HEAD" or "list-type" in query
        suffix = "".join(sorted(query)) if query else "s"
        yield Asked(
            "s3:ListBucket" if listing else f"s3:{request.command}Bucket{suffix}", arn, context
        )
        return
    arn += f"/{unquote(key[0])}"
    if request.command == "DELETE":
        action = "AbortMultipartUpload" if "uploadId" in query else "DeleteObject"
    else:
        action = _OBJECT[request.command] + ("Tagging" if "tagging" in query else "")
    yield Asked(f"s3:{action}", arn, context)
    if action == "PutObject" and request.headers.get("x-amz-tagging"):
        yield Asked("s3:PutObjectTagging", arn, context)


def _attributes(action: str, parameters: Mapping[str, str]) -> dict[str, str | list[str]]:
    """Condition keys of a call besides those of its resources."""
    if action.startswith("Modify") and action.endswith("Attribute"):
        names = [key.removesuffix(".Value") for key in parameters if key.endswith(".Value")]
        return {"ec2:Attribute": names}
    if action == "CreateVpcEndpoint":
        return {"ec2:VpceServiceName": parameters["ServiceName"]}
    if action == "CreatePlacementGroup":
        return {"ec2:PlacementGroupStrategy": parameters["Strategy"]}
    return {}


def _arn(kind: str, identifier: str) -> str:
    return f"arn:aws:ec2:{REGION}:{ACCOUNT}:{kind}/{identifier}"


def _request(tags: Mapping[str, str]) -> dict[str, str | list[str]]:
    """The context of tags that a call gives."""
    if not tags:
        return {}
    request_tags = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
    return {**request_tags, "aws:TagKeys": list(tags)}


def _pairs(tags: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in tags}


def _tags_of(specifications: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    return {entry["ResourceType"]: _pairs(entry["Tag"]) for entry in specifications}


def _nested(flat: Mapping[str, str]) -> dict[str, Any]:
    """`A.1.B=c` as {"A": [{"B": "c"}]}: AWS's query protocol."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        branch = tree
        *path, last = name.split(".")
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = value

    def listed(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        below = {key: listed(value) for key, value in node.items()}
        if below and all(key.isdigit() for key in below):
            return [below[key] for key in sorted(below, key=int)]
        return below

    return {key: listed(value) for key, value in tree.items()}


def _flat(node: Any, name: str = "") -> dict[str, str]:
    """Return every text of a nested value, by its path."""
    if isinstance(node, Mapping):
        pairs = [(str(key), value) for key, value in node.items()]
    elif isinstance(node, list):
        pairs = [(str(number), value) for number, value in enumerate(node)]
    else:
        return {name: str(node)}
    return {
        path: text for key, value in pairs for path, text in _flat(value, f"{name}.{key}").items()
    }
