"""Reads files as documents, splits them into chunks, and reads labels as chunks, from SPL files and from runs."""

from fdarx_core.documents.chunks import READ_ENDINGS as READ_ENDINGS
from fdarx_core.documents.chunks import chunk_document as chunk_document
from fdarx_core.documents.chunks import find_documents as find_documents
from fdarx_core.documents.chunks import may_hold_labels as may_hold_labels
from fdarx_core.documents.chunks import read_documents as read_documents
from fdarx_core.documents.labels import LabelFiles as LabelFiles
from fdarx_core.documents.labels import find_labels as find_labels
from fdarx_core.documents.labels import is_benchmark as is_benchmark
from fdarx_core.documents.labels import read_label_chunks as read_label_chunks
from fdarx_core.documents.labels import read_label_file as read_label_file
