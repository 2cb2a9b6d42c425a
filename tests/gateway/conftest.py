"""Tests of this room have time for what they read and write in buckets."""

from tests.support.patient_buckets import buckets_have_time

__all__ = ["buckets_have_time"]
