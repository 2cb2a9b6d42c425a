from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Job(_message.Message):
    __slots__ = ("type", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    type: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, type: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ExecResult(_message.Message):
    __slots__ = ("assignment_id", "request_id", "status", "provider_id", "job", "latency_ms", "cost", "trace_id", "tenant_id", "timestamp", "error_code", "error_message", "retry_after_ms")
    ASSIGNMENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    assignment_id: str
    request_id: str
    status: str
    provider_id: str
    job: Job
    latency_ms: int
    cost: float
    trace_id: str
    tenant_id: str
    timestamp: int
    error_code: str
    error_message: str
    retry_after_ms: int
    def __init__(self, assignment_id: _Optional[str] = ..., request_id: _Optional[str] = ..., status: _Optional[str] = ..., provider_id: _Optional[str] = ..., job: _Optional[_Union[Job, _Mapping]] = ..., latency_ms: _Optional[int] = ..., cost: _Optional[float] = ..., trace_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., timestamp: _Optional[int] = ..., error_code: _Optional[str] = ..., error_message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...
