/**
 * node:http, loaded without an import. An import would evaluate every export, including the unused `fetch`
 * and `WebSocket`, and cost 20 MB of memory.
 */
export const http = process.getBuiltinModule('node:http')
