"""The environment of Ray Serve's processes."""

from __future__ import annotations

SERVE_VARIABLES = {
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1000",
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(64 * 2**20),
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "serving.proxy:middlewares",
}
"""Environment variables of Ray Serve's processes, read when they start; on a cluster they belong to the nodes.

Replicas call each other by gRPC instead of through Ray's object store, and router, replica and application share one
thread, which no code of this service blocks. Messages may hold 100 candidates of 10,000 characters for several
searches. The middleware of the proxies replies 503 where replicas of the ingress die.
"""
