"""The same little application in several ASGI frameworks: /json, /echo, /stream, /fail and a WebSocket at /ws."""
