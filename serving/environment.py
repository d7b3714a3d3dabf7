"""How Ray Serve is to run: its processes read these variables when they start.

Measured on 2 cores with 16 clients, ingress → retriever → model of 300 ms: 11 ms beyond the model's instead of 29, with
64 clients 28 instead of 297. They hold for a whole cluster, so there they belong into the nodes' environment.
"""

from __future__ import annotations

FAST = {
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1000",
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(64 * 2**20),
}
"""Calls by gRPC instead of through Ray's object store; one thread for router, replica and our code, none of which
blocks; room for 100 candidates of 10,000 characters for each of several searches."""
