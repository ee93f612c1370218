"""AWS's APIs: clients with limited waits, and errors with a remedy.

    with aws_errors("ec2 stop_instances i-1", aws.region):
        aws.client("ec2").stop_instances(InstanceIds=["i-1"])

Credentials and endpoint are boto3's: environment variables, profile or role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import boto3  # type: ignore[import-untyped]
from boto3.exceptions import Boto3Error  # type: ignore[import-untyped]
from botocore import exceptions  # type: ignore[import-untyped]
from botocore import session as sessions
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.loaders import create_loader  # type: ignore[import-untyped]
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

from core.errors import EnvironmentMissing, InputError

# Standard mode: three attempts with growing pauses, unless AWS_MAX_ATTEMPTS says otherwise.
_CONFIG = Config(retries={"mode": "standard"}, connect_timeout=5, read_timeout=30)
_LOADER = create_loader()  # keeps what it read: EC2's description alone takes a second

_CREDENTIALS = (
    "Give credentials of an account in which you may make machines (AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role), then call again."
)
_RENEW = "Log in again or renew the credentials; they must be of an account that uses this region."
_PERMISSION = "Ask for this permission: infra/account/README.md lists what a fleet on EC2 needs."
_QUOTA = (
    "The account's quota is used up. Ask for more (AWS console, Service Quotas, Amazon EC2: "
    "Running On-Demand or Spot instances, counted in vCPUs), take fewer or smaller machines, "
    "or another --region."
)
_CAPACITY = (
    "AWS has no such machines free there now. Try again later, another instance_type or --region, "
    "or without --spot."
)
_SLOW_DOWN = "AWS asks for fewer calls. Wait a minute and call again."

ADVICE = {
    "AuthFailure": _RENEW,
    "ExpiredToken": _RENEW,
    "ExpiredTokenException": _RENEW,
    "InvalidClientTokenId": _RENEW,
    "InvalidAccessKeyId": _RENEW,
    "OptInRequired": _RENEW,
    "RequestExpired": _RENEW,
    "SignatureDoesNotMatch": _RENEW,
    "UnrecognizedClientException": _RENEW,
    "AccessDenied": _PERMISSION,
    "AccessDeniedException": _PERMISSION,
    "UnauthorizedOperation": _PERMISSION,
    "InstanceLimitExceeded": _QUOTA,
    "MaxSpotInstanceCountExceeded": _QUOTA,
    "NetworkInterfaceLimitExceeded": _QUOTA,
    "VcpuLimitExceeded": _QUOTA,
    "VolumeLimitExceeded": _QUOTA,
    "VpcLimitExceeded": _QUOTA,
    "InsufficientInstanceCapacity": _CAPACITY,
    "UnfulfillableCapacity": _CAPACITY,
    "RequestLimitExceeded": _SLOW_DOWN,
    "Throttling": _SLOW_DOWN,
}
_NO_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.ProfileNotFound,
    exceptions.TokenRetrievalError,
    exceptions.UnauthorizedSSOTokenError,
)


class AwsRefused(EnvironmentMissing):
    """AWS answered, and refused; `code` is AWS's code of the error."""

    code = ""


class Aws:
    """The clients of one region."""

    def __init__(self, region: str | None) -> None:
        """`region` None: that of the environment or profile. Raises InputError for no region."""
        with aws_errors("AWS configuration", region or ""):
            core = sessions.get_session()
            core.register_component("data_loader", _LOADER)
            core.get_scoped_config()  # refuses a profile that is not there
            self._session = boto3.session.Session(botocore_session=core, region_name=region)
        self.region = _check_region(self._session, self._session.region_name)
        self._clients: dict[str, object] = {}

    def client(self, service: str) -> Any:
        if service not in self._clients:
            client = self._session.client(service, region_name=self.region, config=_CONFIG)
            self._clients[service] = client
        return self._clients[service]

    def call(self, service: str, operation: str, **arguments: Any) -> Any:
        """Call an operation. Raises AwsRefused, or EnvironmentMissing if there is no answer."""
        with aws_errors(f"{service} {operation}", self.region):
            return getattr(self.client(service), operation)(**arguments)

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Return the entries under `key` of all pages of a listing. Raises as `call` does."""
        with aws_errors(f"{service} {operation}", self.region):
            client = self.client(service)
            if not client.can_paginate(operation):
                return list(getattr(client, operation)(**arguments).get(key, []))
            pages = client.get_paginator(operation).paginate(**arguments)
            return [entry for page in pages for entry in page.get(key, [])]

    def transfer(self, operation: str, *arguments: str) -> None:
        """Copy a file to or from S3, a large one in parts, by `upload_file` or `download_file` of
        its client. Raises as `call` does."""
        with aws_errors(f"s3 {operation}", self.region):
            getattr(self.client("s3"), operation)(*arguments)

    def link(self, operation: str, bucket: str, key: str, valid_s: int) -> str:
        """Return a URL for `valid_s` whose holder may do `operation` on an object as we may."""
        # By path, so that the host is the region's: a new bucket's own name leads elsewhere first.
        by_path = Config(signature_version="s3v4", s3={"addressing_style": "path"})
        client = self._session.client("s3", region_name=self.region, config=by_path)
        parameters = {"Bucket": bucket, "Key": key}
        return str(client.generate_presigned_url(operation, Params=parameters, ExpiresIn=valid_s))

    def account(self) -> str:
        """Return the owner of these credentials. Raises EnvironmentMissing if there are none."""
        return str(self.call("sts", "get_caller_identity")["Account"])


@contextmanager
def aws_errors(place: str, region: str) -> Iterator[None]:
    """Turn boto3's errors into errors of ours."""
    full_place = f"{place}, region {region}" if region else place
    try:
        yield
    except exceptions.ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        got = f"{code}: {str(error.response.get('Error', {}).get('Message', '')).rstrip('.')}"
        hint = ADVICE.get(code, "Mend what AWS names and call again.")
        refusal = AwsRefused(full_place, expected="success", got=got, hint=hint)
        refusal.code = code
        raise refusal from error
    except _NO_CREDENTIALS as error:
        got = str(error).rstrip(".")
        raise EnvironmentMissing(
            "AWS credentials", expected="some", got=got, hint=_CREDENTIALS
        ) from error
    except (exceptions.BotoCoreError, ResponseParserError, Boto3Error) as error:
        raise EnvironmentMissing(
            full_place,
            expected="an answer",
            got=str(error).rstrip("."),
            hint="See whether the network lets this machine reach AWS, and whether "
            "AWS_ENDPOINT_URL "
            "is meant to be set.",
        ) from error


def advice(text: str) -> str | None:
    """Return advice on a text that names one of AWS's error codes, such as Terraform's output."""
    for code, hint in ADVICE.items():
        if re.search(rf"\b{code}\b", text):
            return hint
    if "No valid credential sources found" in text:
        return _CREDENTIALS
    return None


def _check_region(session: Any, region: str | None) -> str:
    partitions = session.get_available_partitions()
    regions = sorted(
        {
            name
            for partition in partitions
            for name in session.get_available_regions("ec2", partition)
        }
    )
    if region in regions:
        return str(region)
    near = get_close_matches(region or "", regions, n=1, cutoff=0.6)
    raise InputError(
        "region",
        expected="the code of an AWS region, such as eu-west-1",
        got=repr(region) if region else "none",
        hint=f"Did you mean {near[0]}?" if near else "Give --region, or set AWS_DEFAULT_REGION.",
    )
