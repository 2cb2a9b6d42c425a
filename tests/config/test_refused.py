"""Settings that would turn the router against its server, its own streams or its own log: refused
at the start, in clear words.
"""

import nkeys
import pytest

from router.config import describe
from tests.support.config import load_settings, read_refusal

SEED = nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_USER).decode()
PEM = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"
SUBJECTS = (
    "ROUTER_DECIDE__SUBJECT",
    "ROUTER_RESULTS__SUBJECT",
    "ROUTER_ACKS__SUBJECT",
    "ROUTER_ASSIGNMENT__SUBJECTS",
    "ROUTER_REPLY__SUBJECT",
)
SERVERS = (
    "$JS.API.STREAM.PURGE.ROUTER_DLQ",
    "$KV.ROUTER_POLICIES.a",
    "$SYS.REQ.SERVER.PING",
    "$SRV.PING",
    "_INBOX.a.b",
)


@pytest.mark.parametrize("variable", SUBJECTS)
@pytest.mark.parametrize("subject", SERVERS)
def test_a_subject_of_the_server_or_an_inbox_is_no_subject_of_ours(
    variable: str, subject: str
) -> None:
    text = read_refusal(**{variable: subject})
    assert "$" in text
    assert "_INBOX" in text


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "$JS.API.STREAM.PURGE.{original_subject}",
            "$KV.ROUTER_POLICIES.{original_subject}",
            "_INBOX.{original_subject}",
        ),
        *(
            "beamline.usage.v1.metered",
            "caf.exec.assign.v1",
            "beamline.router.v1.admin.{original_subject}",
        ),
    ],
)
def test_dead_letters_are_not_sent_to_the_server_or_to_another_stream(pattern: str) -> None:
    assert read_refusal(ROUTER_DLQ__SUBJECT_PATTERN=pattern).startswith("dlq.subject_pattern: ")


@pytest.mark.parametrize(
    ("environ", "setting"),
    [
        ({"ROUTER_RESULTS__SUBJECT": "beamline.router.v1.decide"}, "results.subject"),
        ({"ROUTER_RESULTS__SUBJECT": "beamline.router.v1.decide.p.0"}, "results.subject"),
        ({"ROUTER_ACKS__SUBJECT": "caf.exec.result.v1"}, "acks.subject"),
        (
            {"ROUTER_ASSIGNMENT__SUBJECTS": "caf.exec.assign.v1,caf.exec.result.v1"},
            "assignment.subjects",
        ),
        ({"ROUTER_ASSIGNMENT__SUBJECTS": "beamline.usage.v1.metered"}, "assignment.subjects"),
        (
            {"ROUTER_ASSIGNMENT__SUBJECTS": "beamline.router.v1.admin.put_policy"},
            "assignment.subjects",
        ),
        ({"ROUTER_ASSIGNMENT__SUBJECTS": "beamline.ext.pre.tidy.v1"}, "assignment.subjects"),
        ({"ROUTER_ASSIGNMENT__SUBJECTS": "beamline.provider.v1.invoke"}, "assignment.subjects"),
        ({"ROUTER_ASSIGNMENT__SUBJECTS": "beamline.alert.v1.info"}, "assignment.subjects"),
        ({"ROUTER_ASSIGNMENT__SUBJECTS": "caf.worker.heartbeat.v1"}, "assignment.subjects"),
        ({"ROUTER_DECIDE__SUBJECT": "beamline.router.v1.get_decision"}, "decide.subject"),
        ({"ROUTER_REPLY__SUBJECT": "beamline.router.v1.admin.delete_policy"}, "reply.subject"),
        ({"ROUTER_REPLY__SUBJECT": "caf.exec.result.v1.dlq"}, "dlq.subject_pattern"),
        ({"ROUTER_STREAMS__RESULTS__NAME": "ROUTER_DECIDE"}, "streams.results.name"),
        ({"ROUTER_BUCKETS__EXTENSIONS__NAME": "ROUTER_POLICIES"}, "buckets.extensions.name"),
    ],
)
def test_two_things_never_share_a_subject_a_stream_or_a_bucket(
    environ: dict[str, str], setting: str
) -> None:
    assert read_refusal(**environ).startswith(f"{setting}: ")


@pytest.mark.parametrize("size", [str(8 * 1024 * 1024 + 1), str(2**63)])
def test_a_payload_is_never_larger_than_a_server_should_take(size: str) -> None:
    assert "8388608" in read_refusal(ROUTER_MAX_PAYLOAD_BYTES=size)
    assert (
        load_settings(ROUTER_MAX_PAYLOAD_BYTES=str(8 * 1024 * 1024)).settings.max_payload_bytes
        == 8 * 1024 * 1024
    )


@pytest.mark.parametrize("name", ["a\r\nNats-Rollup: all", "a b", "a\x1b[2J", "x" * 257, "\u202e"])
def test_a_node_id_is_one_printable_word(name: str) -> None:
    text = read_refusal(ROUTER_NODE_ID=name)
    assert text.startswith("node_id: ")
    assert text.isprintable()


@pytest.mark.parametrize(
    "url", ["ftp://h:1", "http://h:1", "TLSX://h:1", "://h:1", "nats://h:1\r\nPUB x", "nats://a b"]
)
def test_an_address_of_the_broker_has_a_scheme_that_is_known(url: str) -> None:
    assert read_refusal(NATS_URL=url).startswith("nats.url: ")


@pytest.mark.parametrize("domain", ["a.b", ">", "a b", "API.STREAM.PURGE"])
def test_a_domain_is_one_token(domain: str) -> None:
    assert read_refusal(ROUTER_NATS__JS_DOMAIN=domain).startswith("nats.js_domain: ")


# -- secrets where a file's name belongs -----------------------------------------------------------


@pytest.mark.parametrize(
    "variable",
    [
        "ROUTER_NATS__NKEY_FILE",
        "ROUTER_NATS__CREDS_FILE",
        "ROUTER_NATS__TLS_KEY",
        "ROUTER_POLICIES__DIR",
    ],
)
@pytest.mark.parametrize(
    "pasted", [SEED, f" {SEED}\n", PEM, f"-----BEGIN USER NKEY SEED-----\n{SEED}\n"]
)
def test_what_belongs_into_a_file_is_refused_and_not_told(variable: str, pasted: str) -> None:
    text = read_refusal(**{variable: pasted})
    assert "name of a file" in text
    assert SEED not in text
    assert "hunter2" not in text


@pytest.mark.parametrize("variable", ["ROUTER_NATS__USER", "ROUTER_NODE_ID", "ROUTER_NATS__NAME"])
def test_a_seed_is_shown_nowhere(variable: str) -> None:
    given = {
        variable: SEED,
        **({"ROUTER_NATS__PASSWORD": "p"} if variable.endswith("USER") else {}),
    }
    rows = str(describe(*load_settings(**given)))
    assert SEED not in rows


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://h:1/handle?api_key=hunter2&x=1", "http://h:1/handle?***"),
        ("https://svc:hunter2@h/handle?token=hunter2#hunter2", "https://***@h/handle?***"),
        ("http://h/handle#hunter2", "http://h/handle#***"),
        ("http://h/handle", "http://h/handle"),
    ],
)
def test_a_handlers_address_is_shown_without_what_may_be_a_secret(url: str, told: str) -> None:
    rows = {row.name: row.value for row in describe(*load_settings(ROUTER_INBOX__HANDLER__URL=url))}
    assert rows["inbox.handler.url"] == told
