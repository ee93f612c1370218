"""boto3 against moto: errors of an account say what to do."""

from __future__ import annotations

import pytest

from core.errors import EnvironmentMissing, InputError
from experiments.testbed.platforms.ec2.aws import ADVICE, Aws, AwsRefused, advice
from experiments.tests.aws import ACCOUNT, REGION
from optimizer.tests.answers import answering

pytestmark = pytest.mark.usefixtures("aws_account")


def test_the_account_answers_and_the_region_is_the_environment_s() -> None:
    aws = Aws(None)
    assert aws.region == REGION
    assert aws.account() == ACCOUNT
    assert Aws("us-east-1").region == "us-east-1"


def test_a_profile_that_is_not_there_is_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(EnvironmentMissing, match="nobody"):
        Aws(REGION)


@pytest.mark.parametrize(
    ("region", "hint"), [("eu-wset-1", "Did you mean eu-west-1?"), ("mars", "Give --region")]
)
def test_a_wrong_region_is_refused_before_any_call(region: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        Aws(region)
    assert repr(region) in refused.value.got
    assert hint in refused.value.hint
    assert refused.value.exit_code == 2


def test_no_region_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    with pytest.raises(InputError, match="got none"):
        Aws(None)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("VcpuLimitExceeded", "Service Quotas"),
        ("InsufficientInstanceCapacity", "another instance_type"),
        ("UnauthorizedOperation", "permission"),
        ("AuthFailure", "renew the credentials"),
    ],
)
def test_a_refusal_of_ec2_keeps_its_code_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, code: str, hint: str
) -> None:
    message = "You have requested more vCPU capacity than your limit of 5"
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    text = f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>"
    with answering(lambda *_: (400, {}, text.encode())) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        with pytest.raises(AwsRefused) as refused:
            Aws(REGION).call("ec2", "start_instances", InstanceIds=["i-1"])
    assert refused.value.code == code
    assert f"{code}: {message}" in refused.value.got
    assert f"ec2 start_instances, region {REGION}" in refused.value.place
    assert hint in refused.value.hint


def test_an_endpoint_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(EnvironmentMissing, match="AWS_ENDPOINT_URL") as refused:
        Aws(REGION).account()
    assert "127.0.0.1:9" in refused.value.got


@pytest.mark.parametrize("code", ADVICE)
def test_a_code_in_terraform_s_words_finds_its_advice(code: str) -> None:
    message = f"creating EC2 Instance: operation error EC2: RunInstances, api error {code}: no"
    assert advice(message) == ADVICE[code]
    assert advice(f"My{code}s") is None
