from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ExecAssignmentAck(_message.Message):
    __slots__ = ("assignment_id", "status", "message", "request_id", "trace_id", "tenant_id", "acknowledged_at")
    ASSIGNMENT_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_AT_FIELD_NUMBER: _ClassVar[int]
    assignment_id: str
    status: str
    message: str
    request_id: str
    trace_id: str
    tenant_id: str
    acknowledged_at: int
    def __init__(self, assignment_id: _Optional[str] = ..., status: _Optional[str] = ..., message: _Optional[str] = ..., request_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., acknowledged_at: _Optional[int] = ...) -> None: ...
